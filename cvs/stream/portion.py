"""How much an epoch takes where many changes wait: of large ones, and of those of large rows, fewer.

All of it is in memory at once, the rows as DELTA holds them too, so what bounds memory is bytes. Where thousands wait,
some of them tell what the others weigh.
"""

from collections.abc import Iterable, Mapping, Sequence

from cvs.capture.changes import Change, Kind
from cvs.capture.feed import Feed, Head
from cvs.programs.epoch_run import Program
from cvs.programs.stage_codec import bucket_of, framed, pack
from cvs.programs.stage_delta import ReadImages
from cvs.stream.pinned import Definitions

BYTES_AN_EPOCH, WEIGHED_FROM, WEIGHED = 64 << 20, 1_000, 50


def some_that_wait(feed: Feed, taken: Mapping[str, int], heads: Mapping[str, Head]) -> list[Change]:
    """Return some changes of the stream in which most wait; none where few do."""
    waiting = {stream: head.position - taken.get(stream, 0) for stream, head in heads.items()}
    if sum(waiting.values()) < WEIGHED_FROM:
        return []
    stream = max(waiting, key=waiting.__getitem__)
    return feed.read(stream, taken.get(stream, 0), WEIGHED)


def images_of(program: Program, known: Definitions, changes: Iterable[Change]) -> list[ReadImages]:
    """Return what asks for the rows that changes are about."""
    bases = {base.name: base for base in program.bases}
    asked = []
    for change in changes:
        definition = known.get(change.definition)
        if definition is not None and change.kind is Kind.ROW:
            base = bases[definition.full_name]
            key = framed(change.key, pack(change.clustering) if definition.clustering else b"")
            bucket = bucket_of(change.key, base.buckets)
            asked.append(ReadImages(table=base.delta, bucket=bucket, keys=(key,)))
    return asked


def portion(most: int, some: Sequence[Change], stored: Iterable[bytes]) -> int:
    """Return how many like these an epoch may take."""
    size = sum(len(it.value or b"") + len(it.path or b"") for change in some for it in change.cells)
    size += sum(map(len, stored))
    return max(1, min(most, BYTES_AN_EPOCH * len(some) // size)) if size else most
