"""An epoch takes fewer of large changes: what bounds its memory is bytes, not how many."""

from types import SimpleNamespace
from typing import Any

import pytest

from cvs.capture.changes import Cell, Change, Kind
from cvs.capture.feed import Head
from cvs.programs.epoch import BUILDING, Pin
from cvs.programs.stage_delta import ReadImages
from cvs.stream.pipeline import Pipeline
from cvs.stream.portion import BYTES_AN_EPOCH, WEIGHED, WEIGHED_FROM


class Feed:
    """Two streams of changes of one size, and what was asked of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[Any] = []

    def read(self, stream: str, start: int, limit: int) -> list[Change]:
        self.asked.append((stream, start, limit))
        some = (Cell("a", bytes(self.size), 5), Cell("b", None, 5), Cell("s", b"", 5, path=b"path"))
        return [Change(kind=Kind.ROW, definition="d", key=b"k", cells=some)] * limit


TAKEN = {"one": 5, "two": 100}


class Door:
    """Each row is of one size in DELTA, whatever a change of it weighs."""

    def __init__(self, size: int) -> None:
        self.size, self.check = size, None

    def __call__(self, requests: list[ReadImages]) -> list[dict[bytes, bytes]]:
        return [dict.fromkeys(request.keys, bytes(self.size)) for request in requests]


def limit(size: int, *, waiting: int, last: Pin | None = None, row: int = 0) -> tuple[int, list[Any]]:
    pipeline: Any = object.__new__(Pipeline)
    pipeline.feed, pipeline.changes_an_epoch, pipeline.door = Feed(size), 20_000, Door(row)
    base = SimpleNamespace(name="k.t", delta="delta", buckets=4)
    pipeline.program = SimpleNamespace(bases=(base,))
    pipeline._known = {"d": SimpleNamespace(full_name="k.t", clustering=())}
    heads = {"one": Head(7), "two": Head(100 + waiting - 2)}
    return pipeline._limit(last or Pin(epoch=1, until=TAKEN), heads), pipeline.feed.asked


@pytest.mark.parametrize(("size", "most"), [(96, 20_000), (49_996, BYTES_AN_EPOCH // 50_000), (1 << 30, 1)])
def test_an_epoch_takes_so_many_as_fit_its_bytes(size: int, most: int) -> None:
    assert limit(size, waiting=WEIGHED_FROM) == (most, [("two", 100, WEIGHED)])


def test_small_changes_of_large_rows_count_as_these() -> None:
    """A number in a document of a megabyte changes: all of it is read, and put again."""
    assert limit(96, waiting=WEIGHED_FROM, row=1_000_000 - 100)[0] == BYTES_AN_EPOCH // 1_000_000


def test_few_are_not_looked_at_nor_what_the_scan_of_a_build_will_see() -> None:
    assert limit(1 << 20, waiting=WEIGHED_FROM - 1) == (20_000, [])
    assert limit(1 << 20, waiting=WEIGHED_FROM, last=Pin(epoch=1, views={"v": BUILDING})) == (20_000, [])
