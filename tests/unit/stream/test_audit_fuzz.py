"""Damaged files through every door, strict, columns and Spark's tasks: who refuses, and what is said, agree."""

import functools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cvs.checker.verdict import Finding
from cvs.errors import CvsError
from cvs.history.codec import events_of_block
from cvs.history.parquet import batches_of, schema
from cvs.report import audit as local
from cvs.stream import audit as engine
from tests.unit.report.test_fuzz import damaged, whole_files

LIMITS = ("64 bits", "too large or negative")
"""What has no place in columns is refused by tasks; the exact judge takes any number."""

UNSEEN = "was applied already"
"""What tasks do not look at: two updates of one version."""


class Here:
    """What the engine asks of Spark, in lists."""

    defaultParallelism = 2

    def __init__(self, parts: Iterable[Iterable[Any]] = ()) -> None:
        self.parts = [list(part) for part in parts]

    def parallelize(self, items: list[Any], _: int) -> "Here":
        return Here([item] for item in items)

    def flatMap(self, way: Callable[[Any], Iterable[Any]]) -> "Here":
        return Here([y for x in part for y in way(x)] for part in self.parts)

    def map(self, way: Callable[[Any], Any]) -> "Here":
        return Here(map(way, part) for part in self.parts)

    def filter(self, way: Callable[[Any], bool]) -> "Here":
        return Here(filter(way, part) for part in self.parts)

    def values(self) -> "Here":
        return self.map(lambda item: item[1])

    def partitionBy(self, many: int, way: Callable[[Any], int]) -> "Here":
        return Here([x for x in self.collect() if way(x[0]) % many == part] for part in range(many))

    def mapPartitions(self, way: Callable[[Any], Iterable[Any]]) -> "Here":
        return Here(way(iter(part)) for part in self.parts)

    def mapPartitionsWithIndex(self, way: Callable[[int, Any], Iterable[Any]]) -> "Here":
        return Here(way(number, iter(part)) for number, part in enumerate(self.parts))

    def union(self, other: "Here") -> "Here":
        return Here(self.parts + other.parts)

    def reduce(self, way: Callable[[Any, Any], Any]) -> Any:
        return functools.reduce(way, self.collect())

    def collect(self) -> list[Any]:
        return [x for part in self.parts for x in part]

    def persist(self, _: Any) -> "Here":
        return self

    def unpersist(self) -> None:
        pass


def said(findings: Iterable[Finding]) -> Counter[Any]:
    """Count what is said of view records."""
    count: Counter[Any] = Counter()
    for f in findings:
        if f.granularity == "record" and f.property != "staleness":
            count[f.view, f.property, f.verdict] += f.count
    return count


def answer(judge: Callable[..., Any], *asked: Any, **options: Any) -> Counter[Any] | str:
    try:
        return said(judge(*asked, **options).findings)
    except CvsError as refusal:
        return str(refusal)


def _file(folder: Path, chance: random.Random, whole: dict[str, bytes]) -> Path:
    """Write damaged lines, these lines as Parquet if they are events, or damaged Parquet."""
    name = chance.choice(("run.ndjson", "lines.parquet", "lines.parquet", "run.parquet"))
    data = damaged(chance, whole["run.parquet" if name == "run.parquet" else "run.ndjson"])
    if name == "lines.parquet":
        try:
            batches = list(batches_of(events_of_block(data)))
        except CvsError:
            name = "run.ndjson"
        else:
            with pq.ParquetWriter(folder / name, schema()) as writer:
                for batch in batches:
                    writer.write_batch(batch, row_group_size=7)
            return folder / name
    (folder / name).write_bytes(data)
    return folder / name


def _judged(file: Path) -> Any:
    return local.audit([file], budget=2_000)[1]


def compared(folder: Path, seed: int, cases: int, patch: pytest.MonkeyPatch) -> Counter[str]:
    chance = random.Random(seed)
    whole, count = whole_files(), Counter[str]()
    here: Any = Here()
    for number in range(cases):
        file = _file(folder, chance, whole)
        size = chance.choice((3, 10, 50))
        answers = []
        for large in (1_000_000, 3):
            patch.setattr(local, "LARGE", large)
            answers.append(answer(_judged, file))
        strict, columns = answers
        tasks = answer(engine.in_tasks, here, [file], budget=2_000, events_a_part=size)
        case = (seed, number, strict, columns, tasks)
        if file.suffix == ".parquet" and file.stem != "lines":
            count["damaged Parquet"] += 1  # of which each reads other parts
            continue
        assert isinstance(strict, str) is isinstance(columns, str), case
        assert isinstance(strict, str) or strict == columns, case
        if isinstance(tasks, str):
            assert isinstance(strict, str) or any(limit in tasks for limit in LIMITS), case
        else:
            assert strict == tasks or UNSEEN in str(strict), case
        count["refused" if isinstance(strict, str) else "judged"] += 1
    return count


def test_every_door_refuses_the_same_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = compared(tmp_path, 1, 200, monkeypatch)
    assert min(count[name] for name in ("judged", "refused")) > 5, count


@pytest.mark.slow
def test_every_door_refuses_the_same_of_thousands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], None]
) -> None:
    seed, cases = int(os.environ.get("CVS_SEED", "2")), int(os.environ.get("CVS_EXAMPLES", "2000"))
    count = compared(tmp_path, seed, cases, monkeypatch)
    told(f"{cases:,} damaged files through three doors: {dict(count)}")
    assert sum(count.values()) == cases
