"""From a simulated run to its level: of the worst view record, and of the whole view.

The questions go to the judge's exact search over base states (`checker.cuts`); what a base state means is
asked of `model.recompute`. Programs and judge meet here and nowhere else.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import getitem
from typing import Any, Protocol

from cvs.checker.cuts import chain, complete, converged, pairwise, weak
from cvs.checker.problem import Problem
from cvs.checker.verdict import Budget, Cut, Verdict
from cvs.model.identity import identity
from cvs.model.levels import Level
from cvs.model.recompute import bag, recompute
from cvs.model.views import BaseTable
from cvs.programs.machine import Key, Row
from cvs.simulate.faulty_store import State
from cvs.simulate.world import Timeline
from cvs.suite.classes import ViewClass

STEPS_MAX = 2_000_000
"""Budget of one question; small worlds use some thousands, more raises `Exhausted` and stops the suite."""

View = dict[Key, Hashable]

ViewOf = Callable[[Mapping[str, list[Row]]], View]
"""From a base state to the view records over it, in comparable form."""


class Seen(Protocol):
    """What a judgement needs of a run: a simulated world, or somebody else's maintainer watched."""

    @property
    def timelines(self) -> Mapping[tuple[str, Key], Timeline]:
        """Return the versions of every base record."""
        ...

    @property
    def initial(self) -> Mapping[Key, Row]:
        """Return what the view showed at the start."""
        ...

    @property
    def shown(self) -> Sequence[State]:
        """Return every state a view record was set to, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The level of one run at both granularities, and the view record that decided the first."""

    record: Level
    view: Level
    worst: Key | None = None
    pairwise_only: bool = False  # the worst record is strong pairwise but not as a chain


Known = dict[tuple[Hashable, ...], View]
"""Base state in comparable form -> the view over it; in a small world few base states come again and again."""


def judged(world: Seen, shape: ViewClass, known: Known | None = None) -> Judgement:
    """Judge one settled run of a view class; `known` is shared by the runs of one class, and of no other."""
    return judged_by(world, partial(view_of, shape, tables=shape.tables), tuple(shape.domains), known=known)


def judged_by(
    world: Seen,
    view_of_base: ViewOf,
    tables: Collection[str],
    *,
    snapshots: Sequence[View] | None = None,
    known: Known | None = None,
) -> Judgement:
    """Judge one settled run of any view of these base tables.

    The whole view is what a reader of all records at once would have seen after each write, or, if given, the
    `snapshots` that readers did see.
    """
    meaning, tops = _meaning(world, view_of_base, tables, {} if known is None else known)
    final = {key: form(row) for key, row in world.initial.items()}
    wholes: list[Hashable] = [frozenset(final.items())]
    states: dict[Key, list[Hashable]] = {key: [value] for key, value in final.items()}
    for partition, row in world.shown:
        value = None if row is None else form(row)
        states.setdefault(partition.key, [None]).append(value)
        if value is None:
            final.pop(partition.key, None)
        else:
            final[partition.key] = value
        wholes.append(frozenset(final.items()))
    if snapshots is not None:
        wholes[1:] = [frozenset(snapshot.items()) for snapshot in snapshots]
    for key in meaning(tops):
        states.setdefault(key, [None])
    lowest, pairs = Level.COMPLETE, False
    worst: Key | None = None
    for candidate, seen in states.items():
        level, pairs_only = _level(tops, _of(meaning, candidate), seen)
        if level.rank < lowest.rank:
            lowest, worst, pairs = level, candidate, pairs_only
    view, _ = _level(tops, lambda cut: frozenset(meaning(cut).items()), wholes, pairs=False)
    return Judgement(record=lowest, view=view, worst=worst, pairwise_only=pairs)


def _of(meaning: Callable[[Cut], View], key: Key) -> Callable[[Cut], Hashable]:
    return lambda cut: meaning(cut).get(key)


def _level(
    tops: Cut, meaning: Callable[[Cut], Hashable], seen: list[Hashable], *, pairs: bool = True
) -> tuple[Level, bool]:
    problem = Problem(tops=tops, meaning=meaning, states=_without_repetitions(seen))

    def holds(question: Callable[[Problem, Budget], tuple[Verdict, Any]]) -> bool:
        return question(problem, Budget(STEPS_MAX))[0] is Verdict.HOLDS

    if not holds(converged):
        return Level.NOT_CONVERGED, False
    if holds(chain):
        return (Level.COMPLETE if holds(complete) else Level.STRONG), False
    if holds(weak):
        return Level.WEAK, pairs and holds(pairwise)
    return Level.CONVERGED, False


def _without_repetitions(seen: Iterable[Hashable]) -> tuple[Hashable, ...]:
    kept: list[Hashable] = []
    for state in seen:
        if not kept or kept[-1] != state:
            kept.append(state)
    return tuple(kept)


def _meaning(
    world: Seen, view_of_base: ViewOf, tables: Collection[str], known: Known
) -> tuple[Callable[[Cut], View], Cut]:
    records = sorted((record for record in world.timelines if record[0] in tables), key=repr)
    lines = [world.timelines[record].rows for record in records]
    forms = [
        [None if row is None else (at[0], form(row)) for row in line]
        for at, line in zip(records, lines, strict=True)
    ]

    def meaning(cut: Cut) -> View:
        state = tuple(map(getitem, forms, cut))
        found = known.get(state)
        if found is None:
            base: dict[str, list[Row]] = {table: [] for table in tables}
            for (table, _), line, version in zip(records, lines, cut, strict=True):
                row = line[version]
                if row is not None:
                    base[table].append(row)
            found = known[state] = view_of_base(base)
        return found

    return meaning, tuple(len(line) - 1 for line in lines)


def view_of(
    shape: ViewClass, base: Mapping[str, list[Row]], *, tables: Mapping[str, BaseTable] | None = None
) -> View:
    """Return the view records of a base state in comparable form, by view key; `tables` are the shape's own."""
    tables = tables or shape.tables
    if shape.record_key is None:
        return {key: form(row) for key, row in recompute(shape.definition, base, tables).items()}
    groups: dict[Key, list[Row]] = {}
    for row in bag(shape.definition.relation, base, tables):
        groups.setdefault(_record_of(shape.record_key, row), []).append(row)
    return {key: form({"rows": tuple(rows)}) for key, rows in groups.items()}


def _record_of(names: tuple[str, ...], row: Row) -> Key:
    """Name the partition of a joined row: its join key, or its own base row where that is null."""
    if not names:
        return ()
    values = [row[name] for name in names if row.get(name) is not None]
    if values:
        return (values[0],)
    side = next(name.split(".")[0] for name in names if row.get(f"{name.split('.')[0]}.k") is not None)
    return (None, side, row[f"{side}.k"])


def form(row: Row) -> Hashable:
    """Return a row in a form that compares as SQL does; the rows of one record in any order."""
    if "rows" in row and len(row) == 1:
        return tuple(sorted((form(part) for part in row["rows"]), key=repr))
    return tuple(sorted((name, identity(value)) for name, value in row.items()))
