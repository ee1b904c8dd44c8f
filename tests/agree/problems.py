"""Small random problems and histories, the same for agreement, ladder searches and corruptors."""

import random
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from cvs.checker.meaning import TableMeaning
from cvs.history import events as ev
from cvs.history.codec import history_bytes
from cvs.history.validate import checked

KINDS = ("keyed", "count", "sum", "min", "product")


@dataclass(frozen=True, slots=True)
class Toy:
    """A problem of the value tier: images by record and version, a fold, the states shown."""

    images: tuple[tuple[int, ...], ...]
    kind: str
    states: tuple[Hashable, ...]

    @property
    def tops(self) -> tuple[int, ...]:
        return tuple(len(each) - 1 for each in self.images)

    def meaning(self, cut: tuple[int, ...]) -> Hashable:
        values = [each[at] for each, at in zip(self.images, cut, strict=True)]
        match self.kind:
            case "keyed":
                return tuple(values)
            case "count":
                return sum(v > 0 for v in values)
            case "sum":
                return sum(values)
            case "min":
                return min((v for v in values if v), default=0)
        return values[0] * values[-1]


def toy(chance: random.Random) -> Toy:
    records = chance.randint(1, 3)
    images = tuple(tuple(chance.randint(0, 3) for _ in range(chance.randint(1, 4))) for _ in range(records))
    plain = Toy(images, chance.choice(KINDS), ())
    cut, shown = (0,) * records, []
    for _ in range(chance.randint(1, 6)):
        shown.append(plain.meaning(cut))
        at = list(cut)
        for index in range(records):
            at[index] = min(plain.tops[index], max(0, at[index] + chance.choice((0, 0, 1, 1, 1, 2, -1))))
        cut = tuple(at)
    if chance.random() < 0.8:
        shown.append(plain.meaning(plain.tops))
    if chance.random() < 0.1:
        shown[chance.randrange(len(shown))] = 99
    return Toy(images, plain.kind, tuple(shown))


def sum_by_group(present: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    """SELECT x, SUM(y), COUNT(*) FROM r GROUP BY x, written by hand: shares nothing with recompute."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, row in present:
        group = rows.setdefault((row["x"],), {"x": row["x"], "y": 0, "n": 0})
        group["y"] += row["y"]
        group["n"] += 1
    return rows


SUMS = TableMeaning(rows=sum_by_group, keys=lambda _, row: [(row["x"],)])
"""The view most stories are about, as the checker takes it."""


def is_history(events: list[Any]) -> bool:
    """Say whether the strict reader has no complaint: what is damaged may be no history any more."""
    return not checked(history_bytes(events), "damaged").complaints


class Recorder:
    """Writes a history by hand: every call is an event pair at the next instant unless told otherwise."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.named("story", {"name": "v"})
        self.time = 0
        self.operation = 0
        self.versions: dict[Any, int] = {}

    def named(self, run: str, view: Any) -> None:
        """Begin again, as a run with another name and view."""
        self.events = [ev.RunStarted(process="w", time=0, run=run, views=(view,))]
        self.events += [ev.RunStarted(process=name, time=0, run=run) for name in ("m", "m2")]

    def tick(self) -> int:
        self.time += 10
        return self.time

    def base(
        self,
        key: Any,
        row: dict[str, Any] | None,
        *,
        table: str = "r",
        outcome: str = "applied",
        write_time: int | None = None,
    ) -> int:
        self.operation += 1
        version = self.versions[table, key] = self.versions.get((table, key), 0) + 1
        self.events.append(
            ev.BaseUpdateCalled(
                process="w",
                time=self.tick(),
                operation=self.operation,
                table=table,
                key=(key,),
                version=version,
                row=row,
                write_time=write_time,
            )
        )
        self.events.append(
            ev.BaseUpdateReturned(process="w", time=self.tick(), operation=self.operation, outcome=outcome)
        )
        return version

    def received(self, key: Any, version: int, *, table: str = "r") -> None:
        """Hand a version over, in the order in which a manager gets it."""
        entry = self.versions["stream"] = self.versions.get("stream", 0) + 1
        self.events.append(
            ev.UpdateReceived(
                process="m",
                time=self.tick(),
                stream="s",
                entry=entry,
                table=table,
                key=(key,),
                version=version,
            )
        )

    def write(
        self,
        key: Any,
        row: dict[str, Any] | None,
        absorbed: list[tuple[Any, ...]] = (),
        *,
        expected: Any = "last",
        new: Any = "next",
        outcome: str = "applied",
        process: str = "m",
        returned: Any = None,
    ) -> int:
        last = self.versions.get(("view", key), 0)
        expected = ((0, last, 0, True) if last else None) if expected == "last" else expected
        new = (0, last + 1, 0, True) if new == "next" else new
        if outcome == "applied":
            self.versions["view", key] = new[1]
        return self.write_record(
            (key,),
            row,
            absorbed,
            expected=expected,
            new=new,
            outcome=outcome,
            process=process,
            returned=returned,
        )

    def write_record(
        self,
        view_key: tuple[Any, ...],
        row: dict[str, Any] | None,
        absorbed: list[tuple[Any, ...]],
        *,
        expected: Any,
        new: Any,
        outcome: str = "applied",
        process: str = "m",
        returned: Any = None,
    ) -> int:
        self.operation += 1
        lines = tuple(
            ev.Absorbed(table=a[3] if len(a) > 3 else "r", key=(a[0],), from_version=a[1], to_version=a[2])
            for a in absorbed
        )
        self.events.append(
            ev.TestAndSetCalled(
                process=process,
                time=self.tick(),
                operation=self.operation,
                view="v",
                view_key=view_key,
                expected=expected,
                new=new,
                row=row,
                absorbed=lines,
            )
        )
        self.events.append(
            ev.TestAndSetReturned(
                process=process,
                time=self.tick(),
                operation=self.operation,
                outcome=outcome,
                returned=returned,
            )
        )
        return len(self.events) - 1

    def rest(self) -> list[Any]:
        self.events.append(ev.Quiescent(process="w", time=self.tick()))
        return self.events
