"""What the epoch machines ask of storage, answered from dictionaries: the door of tests and of the simulator.

Every request is atomic, nothing is lost; whoever wants crashes, late and unknown outcomes stands between.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from cvs.model.outcome import APPLIED, Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.stage_bucket import SENTINEL, BucketRead, ReadBucket, SetBucket, StateRow
from cvs.programs.stage_codec import Values
from cvs.programs.stage_delta import DropBucket, PutImages, ReadImages
from cvs.programs.stage_publish import PutRows
from cvs.programs.stage_state import beginning

Request = ReadBucket | SetBucket | ReadImages | PutImages | DropBucket | PutRows


class MemoryDoor:
    """State tables, DELTA and published tables in memory."""

    def __init__(self, *, incarnation: int = 1, keys: Mapping[str, tuple[int, ...]] | None = None) -> None:
        """`keys`: places of the primary key's columns in the rows of each published table."""
        self.incarnation = incarnation
        self.keys = dict(keys or {})
        self.signatures: dict[tuple[str, int], Signature] = {}
        self.rows: dict[tuple[str, int], dict[bytes, StateRow]] = {}
        self.images: dict[tuple[str, int], dict[bytes, tuple[int, bytes | None]]] = {}
        self.published: dict[str, dict[Values, tuple[int, Values | None]]] = {}

    def __call__(self, requests: list[Any]) -> list[Any]:
        """Answer a round, one request after the other."""
        return [self.answer(request) for request in requests]

    def answer(self, request: Request) -> Any:
        """Answer one request."""
        match request:
            case ReadBucket():
                return self._read(request)
            case SetBucket():
                return self._set(request)
            case ReadImages():
                images = self.images.get((request.table, request.bucket), {})
                found = {key for key in request.keys if key in images}
                if request.prefixes:
                    found.update(key for key in images if key.startswith(request.prefixes))
                return {key: image for key in sorted(found) if (image := images[key][1]) is not None}
            case PutImages():
                images = self.images.setdefault((request.table, request.bucket), {})
                for key, image in request.images:
                    if _rank(request.write_time, image) >= _rank(*images.get(key, (0, b""))):
                        images[key] = (request.write_time, image)
                return None
            case DropBucket():
                images = self.images.get((request.table, request.bucket), {})
                for key in [key for key, (at, _) in images.items() if at <= request.write_time]:
                    images[key] = (request.write_time, None)
                return None
            case PutRows():
                return self._publish(request)
            case _:
                assert_never(request)

    def showing(self, table: str) -> dict[Values, Values]:
        """Return what a person sees in a published table."""
        rows = self.published.get(table, {})
        return {key: row for key, (_, row) in rows.items() if row is not None}

    def _signature(self, place: tuple[str, int]) -> Signature:
        return self.signatures.get(place, Signature(incarnation=self.incarnation))

    def _read(self, request: ReadBucket) -> BucketRead:
        place = (request.table, request.bucket)
        stored = self.rows.get(place, {})
        if request.everything:
            return BucketRead(signature=self._signature(place), rows=dict(stored))
        rows = {key: stored[key] for key in request.keys if key in stored}
        ordered = sorted(stored) if request.prefixes else []
        for prefix in request.prefixes:
            rows.update((key, stored[key]) for key in beginning(ordered, prefix))
        return BucketRead(signature=self._signature(place), rows=rows)

    def _set(self, request: SetBucket) -> Outcome:
        place = (request.table, request.bucket)
        stands = self._signature(place)
        if stands.scalars != request.expected.scalars:
            return Outcome(kind=OutcomeKind.REJECTED, returned=stands)
        rows = self.rows.setdefault(place, {})
        for key in request.deletes:
            assert key != SENTINEL, "the sentinel is never deleted"
            rows.pop(key, None)
        rows.update(request.puts)
        self.signatures[place] = request.new
        return APPLIED

    def _publish(self, request: PutRows) -> None:
        rows = self.published.setdefault(request.publication, {})
        places = self.keys[request.publication]
        moves: list[tuple[Values, Values | None]] = [(tuple(r[p] for p in places), r) for r in request.puts]
        moves += [(key, None) for key in request.deletes]
        for key, row in moves:
            if request.write_time >= rows.get(key, (0, None))[0]:
                rows[key] = (request.write_time, row)


def _rank(write_time: int, image: bytes | None) -> tuple[int, bool, bytes]:
    """Order puts as Cassandra does: of one write time a deletion, else the larger bytes."""
    return write_time, image is None, image or b""
