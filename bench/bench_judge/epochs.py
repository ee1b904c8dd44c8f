"""Makes the recording of a pipeline of any size, as lines: SUM by group, maintained epoch by epoch.

An epoch takes in so many base updates and writes each group that they touch once: a test-and-set absorbs several.
"""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench_judge.certified import SUM
from cvs.history import events as ev
from cvs.history.codec import history_bytes
from cvs.model.definitions import definition_to_json

EPOCH = 1_000  # base updates an epoch
BLOCK = 10_000  # events written at once


def write_epochs(path: Path, changes: int, records: int) -> None:
    """Write a run of so many base updates over so many view records."""
    write_events(path, _events(changes, records))


def write_events(path: Path, events: Iterable[Any]) -> None:
    """Write events as lines, block by block."""
    block: list[Any] = []
    with path.open("wb") as file:
        for event in events:
            block.append(event)
            if len(block) == BLOCK:
                file.write(history_bytes(block))
                block.clear()
        file.write(history_bytes(block))


def _events(changes: int, records: int) -> Iterator[Any]:
    chance = random.Random(1)
    view = definition_to_json(SUM)
    yield ev.RunStarted(process="w", time=0, run="epochs", views=(view,))
    yield ev.RunStarted(process="p", time=0, run="epochs", views=(view,))
    held, sums, signed = dict[int, tuple[int, int]](), dict[int, int](), dict[int, int]()
    now = 0
    for epoch, start in enumerate(range(0, changes, EPOCH), 1):
        moved: dict[int, tuple[int, int]] = {}
        for number in range(start, min(start + EPOCH, changes)):
            key, value = chance.randrange(records * 10), chance.randrange(1_000)
            version = (moved.get(key) or held.get(key, (0, 0)))[0] + 1
            moved[key] = version, value
            row = {"k": key, "x": key % records, "y": value}
            now += 10
            yield ev.BaseUpdateCalled(
                process="w", time=now, operation=number, table="r", key=(key,), version=version, row=row
            )
            yield ev.BaseUpdateReturned(process="w", time=now + 5, operation=number, outcome="applied")
        lines: dict[int, list[ev.Absorbed]] = {}
        for key, (version, value) in moved.items():
            before, was = held.get(key, (0, 0))
            line = ev.Absorbed(table="r", key=(key,), from_version=before, to_version=version)
            lines.setdefault(key % records, []).append(line)
            sums[key % records] = sums.get(key % records, 0) + value - was
        held |= moved
        for group, own in lines.items():
            now += 10
            expected = (0, signed[group], 0, True) if group in signed else None
            signed[group] = epoch
            yield ev.TestAndSetCalled(
                process="p", time=now, operation=now, view="v", view_key=(group,), expected=expected,
                new=(0, epoch, 0, True), row={"x": group, "sum": sums[group]}, absorbed=tuple(own),
            )  # fmt: skip
            yield ev.TestAndSetReturned(process="p", time=now + 5, operation=now, outcome="applied")
        now += 10
        told = tuple(line for own in lines.values() for line in own)
        yield ev.EpochCommitted(
            process="p", time=now, pipeline="p", incarnation=0, epoch=epoch, absorbed=told
        )
    yield ev.Quiescent(process="w", time=now + 10)
