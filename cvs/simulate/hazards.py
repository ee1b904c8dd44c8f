"""The rules of the epoch protocol that can be turned off by name: worlds in which the hazard is let in.

Each class of hazard (PROTOCOL H1-H30) that is about what drivers, readers and messages do to each other is one
name here. With the name off, the world does what a pipeline without the rule would do; everything else is as it
was. The hazards that are not here are no matter of interleaving (`suite/hazard_table.py` says where each is
tested).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from cvs.model.outcome import APPLIED, OutcomeKind
from cvs.programs.delta import NOTHING
from cvs.programs.epoch import CONTROL_TABLE, Control, Pin, commit, pin_next, read_control
from cvs.programs.machine import Key, Row
from cvs.programs.stage_bucket import GRAVES, ReadBucket, SetBucket
from cvs.programs.stage_delta import DeltaInput, PutImages, split
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PutRows
from cvs.programs.stored import decode_row, encode_stored
from cvs.simulate.epochs import EpochScenario, EpochWorld, Machine
from cvs.simulate.feeds import Door, Naming
from cvs.simulate.world import Step

RULES: Mapping[str, str] = {
    "signatures": "stop_when_newer signatures",
    "stop-when-newer": "stop_when_newer",
    "last-chunk-decides": "last_chunk_decides",
    "state-before-the-epoch": "as_of_before",
    "read-the-epoch-again": "read_again",
}
"""Rules that are switches of the machines themselves."""

NAMES = (
    *RULES,
    "epoch-write-times",
    "exact-condition",
    "pinned-input",
    "positions-in-the-control-row",
    "one-test-and-set-a-bucket",
    "no-cache-of-rows",
    "resolve-unknown-commits",
    "deletions-kept",
    "row-liveness-kept",
    "deadline",
    "publish-before-commit",
    "serial-read-of-what-is-done",
    "nobody-else-writes",
    "permanent-signatures",
    "images-before",
    "puts-acknowledged",
    "write-time-line",
)

WALL_CLOCK = 10**15
"""The write time of somebody else's write: above every epoch."""

LATE = 40
"""Steps after which a message is later than the deadline allows, and a deletion is old enough to be purged."""


def epoch_world(
    scenario: EpochScenario, *, door: Door | None = None, naming: Naming | None = None
) -> EpochWorld:
    """Return the world of a scenario: the protocol's, or one with rules turned off."""
    kind = HazardousWorld if scenario.off or scenario.half_repaired else EpochWorld
    return kind(scenario, door=door, naming=naming)


class HazardousWorld(EpochWorld):
    """A world in which some rules are off."""

    def __init__(
        self, scenario: EpochScenario, *, door: Door | None = None, naming: Naming | None = None
    ) -> None:
        unknown = [name for name in scenario.off if name not in NAMES]
        assert not unknown, f"no rule is called {unknown[0]}"
        self.off = frozenset(scenario.off)
        self._sent: dict[int, int] = {}  # id of a late message -> when it was sent
        self._positions: dict[int, dict[str, int]] = {}  # a driver's own checkpoint; a crash loses it
        self._caches: dict[int, dict[tuple[str, int, bytes], Any]] = {}
        self._sender = -1
        self._behind: dict[
            tuple[str, int], Mapping[bytes, Any]
        ] = {}  # rows of buckets whose signature was repaired
        super().__init__(scenario, door=door, naming=naming)
        if "one-test-and-set-a-bucket" in self.off:
            self.program = replace(self.program, zones=tuple(_apart(zone) for zone in self.program.zones))
        switched = {field: False for name in self.off & RULES.keys() for field in RULES[name].split()}
        self.rules = replace(self.rules, **switched)

    def take(self, step: Step) -> bool:
        """Carry out one step; a crash takes what a driver keeps for itself along."""
        if "nobody-else-writes" in self.off and self.written == len(self.scenario.writes) // 2:
            self._touch()
        if step[0] == "crash":
            self._positions.pop(step[1], None)
            self._caches.pop(step[1], None)
        if step[0] == "forget":
            return self._forget(step[1])
        return super().take(step)

    def _go_on(self, number: int, kind: str, choice: int) -> bool:
        self._sender = number
        return super()._go_on(number, kind, choice)

    def _carry(self, request: Any, kind: str) -> tuple[bool, Any]:
        before = len(self.in_flight)
        cached = self._from_cache(request)
        request = self._changed(request)
        stood = self._rows_of(request)
        answered, answer = super()._carry(request, kind)
        self._half_repaired(request, stood, known=answered and answer == APPLIED)
        for message in self.in_flight[before:]:
            self._sent[id(message)] = self.time
        unknown = answered and isinstance(request, SetBucket) and answer.kind is OutcomeKind.UNKNOWN
        if unknown and request.table == CONTROL_TABLE and "resolve-unknown-commits" in self.off:
            return True, APPLIED
        if isinstance(request, PutImages) and "puts-acknowledged" in self.off:
            return True, None
        if answered and isinstance(request, ReadBucket) and request.table != CONTROL_TABLE:
            answer = self._half_read(request, answer)
            answer = self._remember(request, answer, cached)
        return answered, answer

    def _forget(self, which: int) -> bool:
        """Let a bucket go whose rows are dead and committed, its signature with them."""
        if "permanent-signatures" not in self.off or not isinstance(self.door, MemoryDoor):
            return False
        places = forgettable(self.door)
        if places:
            place = places[which % len(places)]
            del self.door.signatures[place], self.door.rows[place]
        return bool(places)

    def _changed(self, request: Any) -> Any:
        """Return the request as a pipeline without the rule would send it."""
        if isinstance(request, ReadBucket) and "serial-read-of-what-is-done" in self.off:
            request = replace(request, serial=False)
        if isinstance(request, PutImages):
            if "epoch-write-times" in self.off:
                request = replace(request, write_time=1_000_000 + self.time)
            if "deletions-kept" in self.off:
                request = replace(
                    request, images=tuple((k, _forgetting(k, blob)) for k, blob in request.images)
                )
            if "images-before" in self.off:
                request = replace(
                    request, images=tuple((k, _now_only(k, blob)) for k, blob in request.images)
                )
        if (
            isinstance(request, SetBucket)
            and request.table != CONTROL_TABLE
            and "exact-condition" in self.off
        ):
            (stands,) = self.door([ReadBucket(table=request.table, bucket=request.bucket)])
            request = replace(request, expected=stands.signature)
        return request

    def _touch(self) -> None:
        """Let somebody write a published row as it stands, by wall clock: what epochs write stays hidden below it."""
        assert isinstance(self.door, MemoryDoor)
        for table in sorted(self.door.published):
            for key, row in sorted(self.door.showing(table).items(), key=repr)[:1]:
                self.door.published[table][key] = (WALL_CLOCK, row)

    def _rows_of(self, request: Any) -> Mapping[bytes, Any]:
        """Return the rows of the bucket that a test-and-set is for, as they stand before it."""
        if not self.scenario.half_repaired or not isinstance(request, SetBucket):
            return {}
        assert isinstance(self.door, MemoryDoor)
        return dict(self.door.rows.get((request.table, request.bucket), {}))

    def _half_repaired(self, request: Any, stood: Mapping[bytes, Any], *, known: bool) -> None:
        """Note whether plain reads see a test-and-set whole: one that nobody heard of may lie on a minority.

        A read that asked for the signature alone has repaired the signature alone.
        """
        if not self.scenario.half_repaired or not isinstance(request, SetBucket):
            return
        assert isinstance(self.door, MemoryDoor)
        place = (request.table, request.bucket)
        if known:
            self._behind.pop(place, None)
        elif self.door.signatures.get(place) == request.new and request.table != CONTROL_TABLE:
            self._behind.setdefault(place, stood)

    def _half_read(self, request: ReadBucket, answer: Any) -> Any:
        """Answer a plain read with old rows under the new signature; a SERIAL read finishes what was begun."""
        place = (request.table, request.bucket)
        if request.serial or place not in self._behind:
            self._behind.pop(place, None)
            return answer
        old = self._behind[place]
        return replace(answer, rows={key: old[key] for key in answer.rows if key in old})

    def _from_cache(self, request: Any) -> dict[bytes, Any]:
        if "no-cache-of-rows" not in self.off or not isinstance(request, ReadBucket):
            return {}
        cache = self._caches.setdefault(self._sender, {})
        return {
            row: value
            for (table, bucket, row), value in cache.items()
            if (table, bucket) == (request.table, request.bucket)
        }

    def _remember(self, request: ReadBucket, answer: Any, cached: dict[bytes, Any]) -> Any:
        """Let a driver answer itself from rows it has read before; what another driver wrote it misses."""
        if "no-cache-of-rows" not in self.off:
            return answer
        cache = self._caches.setdefault(self._sender, {})
        rows = {key: cached.get(key, row) for key, row in answer.rows.items()}
        cache.update({(request.table, request.bucket, key): row for key, row in rows.items()})
        return replace(answer, rows=rows)

    def _arrive(self, message: int) -> bool:
        if not self.in_flight:
            return False
        late = self.in_flight[message % len(self.in_flight)]
        old = self.time - self._sent.get(id(late), self.time) > LATE
        if "deadline" in self.off and old:
            self._purge()
        stood = self._rows_of(late)
        arrived = super()._arrive(message)
        self._half_repaired(late, stood, known=False)
        return arrived

    def _purge(self) -> None:
        """Forget deletions, as Cassandra does after gc_grace: what comes later finds nothing against it."""
        if isinstance(self.door, MemoryDoor):
            for rows in self.door.published.values():
                for key in [key for key, (_, row) in rows.items() if row is None]:
                    del rows[key]

    def _log(self, table: str, key: Key, before: Row | None, after: Row | None) -> None:
        super()._log(table, key, before, after)
        if "row-liveness-kept" in self.off:
            last = self.logs["a"][-1]
            self.logs["a"][-1] = replace(last, image=structs.replace(last.image, liveness=None))

    def _changes(self, pin: Pin) -> dict[str, DeltaInput]:
        if "pinned-input" in self.off:
            pin = structs.replace(pin, until={stream: len(log) for stream, log in self.logs.items()})
        return super()._changes(pin)

    def _next_pin(self, last: Pin) -> Pin | None:
        found = super()._next_pin(last)
        if found is None or last.epoch == 0 or "positions-in-the-control-row" not in self.off:
            return found
        own = self._positions.get(self._sender)
        if own is None:  # a checkpoint that was lost: go on from the newest
            own = {stream: len(log) for stream, log in self.logs.items()}
        found = structs.replace(
            found, since={s: max(found.since.get(s, 0), own.get(s, 0)) for s in found.until}
        )
        self._positions[self._sender] = found.until
        return found

    def _drive(self) -> Machine:
        if "publish-before-commit" not in self.off:
            yield from super()._drive()
            return
        while True:
            control = yield from read_control()
            while control.pinned or (following := self._next_pin(control.pin)) is not None:
                control = yield from self._late_publisher(control, None if control.pinned else following)
            yield []

    def _late_publisher(self, control: Control, following: Pin | None) -> Machine:
        """Commit first and publish afterwards: a crash in between loses what nobody publishes again."""
        if following is not None:
            return (yield from pin_next(control, following))
        epoch, held, answers = self._epoch(control.pin), [], None
        while True:
            try:
                requests = next(epoch) if answers is None else epoch.send(answers)
            except StopIteration as stop:
                result = stop.value
                break
            held += [r for r in requests if isinstance(r, PutRows)]
            sent = [r for r in requests if not isinstance(r, PutRows)]
            answers = (yield sent) if sent else [None] * len(requests)
        number = control.pin.epoch
        control = yield from commit(control, self._next_pin(control.pin))
        self._note_absorbed(number, result)
        if held:
            yield held
        return control


def _apart(zone: Any) -> Any:
    return _Apart(zone)


class _Apart:
    """A zone whose sides are brought to a bucket by two test-and-sets of one epoch."""

    def __init__(self, zone: Any) -> None:
        self._zone = zone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zone, name)

    def route(self, changes: Any, *, first: bool = False) -> Any:
        """Name each bucket once a side."""
        return _Twice(self._zone.route(changes, first=first))


class _Twice(dict[int, Any]):
    """Buckets by number; the items are one a side."""

    def items(self) -> Any:
        return [
            (bucket, _Side({place: bag})) for bucket, sides in super().items() for place, bag in sides.items()
        ]


class _Side(dict[tuple[int, int], Any]):
    """What enters a bucket from one side; ordered, because the machines of a round are."""

    def __lt__(self, other: Any) -> bool:
        return bool(min(self) < min(other))


def forgettable(door: MemoryDoor) -> list[tuple[str, int]]:
    """Return the buckets whose rows are all dead and of committed epochs."""
    committed = max(
        (s.version for (table, _), s in door.signatures.items() if table == CONTROL_TABLE), default=0
    )
    return [
        place
        for place in sorted(door.signatures)
        if place[0] != CONTROL_TABLE
        and all(
            key == GRAVES or (not row.alive and row.epoch <= committed)
            for key, row in door.rows[place].items()
        )
    ]


def _now_only(key: bytes, blob: bytes | None) -> bytes | None:
    """Return a stored row that no longer tells what it was before its epoch."""
    if blob is None or split(key)[1] is None:
        return blob
    stored = decode_row(blob)
    return encode_stored(structs.replace(stored, before=stored.now))


def _forgetting(key: bytes, blob: bytes | None) -> bytes | None:
    """Return a stored row without its deletion once nothing of it is left."""
    if blob is None or split(key)[1] is None:
        return blob
    stored = decode_row(blob)
    return encode_stored(structs.replace(stored, image=NOTHING)) if stored.now is None else blob
