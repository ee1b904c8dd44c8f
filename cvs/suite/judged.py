"""From a simulated run to its level: of the worst view record, and of the whole view.

Small worlds are looked at whole (`lattice.py`), bigger ones go to the judge's exact search over base states
(`checker.cuts`); what a base state means is asked of `model.recompute`. Programs and judge meet here and nowhere else.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
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
from cvs.suite.lattice import CUTS_MAX, CutSet, Lattice, is_pairwise, level, showing

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


Whole = frozenset[tuple[Key, Hashable]]
"""A whole view in a form that can be looked up."""


class Known:
    """What is known of base states: runs of one class share it, for in small worlds few come again and again."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._rows: list[tuple[str, Row] | None] = [None]  # by number; 0: no row
        self._wholes: dict[tuple[int, ...], Whole] = {}
        self.views: dict[Whole, View] = {}

    def number(self, table: str, row: Row | None) -> int:
        """Return the number of a base row: the same for rows that are the same."""
        if row is None:
            return 0
        found = self._numbers.setdefault((table, form(row)), len(self._rows))
        if found == len(self._rows):
            self._rows.append((table, row))
        return found

    def whole(self, state: tuple[int, ...], view_of_base: ViewOf, tables: Collection[str]) -> Whole:
        """Return the view over the base rows with these numbers."""
        found = self._wholes.get(state)
        if found is None:
            base: dict[str, list[Row]] = {table: [] for table in tables}
            for table, row in (it for number in state if (it := self._rows[number]) is not None):
                base[table].append(row)
            view = view_of_base(base)
            found = self._wholes[state] = frozenset(view.items())
            self.views.setdefault(found, view)
        return found


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
    bases = _Bases(world, view_of_base, tables, known or Known())
    wholes, states = _shown(world)
    if snapshots is not None:
        wholes[1:] = [frozenset(snapshot.items()) for snapshot in snapshots]
    for key in bases.view(bases.tops):
        states.setdefault(key, [None])
    levels = _levels_searched if bases.size > CUTS_MAX else _levels_looked_up
    (view, _), *records = levels(bases, wholes, states)
    lowest, pairs = Level.COMPLETE, False
    worst: Key | None = None
    for candidate, (reached, pairs_only) in zip(states, records, strict=True):
        if reached.rank < lowest.rank:
            lowest, worst, pairs = reached, candidate, pairs_only
    return Judgement(record=lowest, view=view, worst=worst, pairwise_only=pairs)


States = dict[Key, list[Hashable]]


def _shown(world: Seen) -> tuple[list[Whole], States]:
    """Return what the view showed: as a whole after each write, and record by record."""
    final = {key: form(row) for key, row in world.initial.items()}
    wholes = [frozenset(final.items())]
    states: States = {key: [value] for key, value in final.items()}
    for partition, row in world.shown:
        value = None if row is None else form(row)
        states.setdefault(partition.key, [None]).append(value)
        if value is None:
            final.pop(partition.key, None)
        else:
            final[partition.key] = value
        wholes.append(frozenset(final.items()))
    return wholes, states


class _Bases:
    """The base states of a run, and the view over each."""

    def __init__(self, world: Seen, view_of_base: ViewOf, tables: Collection[str], known: Known) -> None:
        records = sorted((record for record in world.timelines if record[0] in tables), key=repr)
        self.lines = [[known.number(at[0], row) for row in world.timelines[at].rows] for at in records]
        self.tops: Cut = tuple(len(line) - 1 for line in self.lines)
        self.size = prod(map(len, self.lines))
        self.known = known
        self._of = partial(known.whole, view_of_base=view_of_base, tables=tables)

    def whole(self, cut: Cut) -> Whole:
        """Return the whole view at a cut."""
        return self._of(tuple(map(getitem, self.lines, cut)))

    def view(self, cut: Cut) -> View:
        """Return the view at a cut by key."""
        return self.known.views[self.whole(cut)]

    def all(self) -> Iterator[Whole]:
        """Return the view at every cut, in the order of their numbers in a lattice."""
        return map(self._of, product(*self.lines))


Found = list[tuple[Level, bool]]
"""The level of the whole view, then of each view record; and whether it is strong pairwise though not as a chain."""


def _levels_looked_up(bases: _Bases, wholes: list[Whole], states: States) -> Found:
    lattice, views = Lattice(bases.tops), bases.known.views
    showing_whole = showing(bases.all())
    found = [(level(lattice, _seen(showing_whole, wholes)), False)]
    for key, shown in states.items():
        showing_state: dict[Hashable, CutSet] = {}
        for whole, cuts in showing_whole.items():
            value = views[whole].get(key)
            showing_state[value] = showing_state.get(value, 0) | cuts
        seen = _seen(showing_state, shown)
        reached = level(lattice, seen)
        found.append((reached, reached is Level.WEAK and is_pairwise(lattice, seen)))
    return found


def _seen(showing_it: Mapping[Any, CutSet], states: Iterable[Hashable]) -> list[CutSet]:
    return [showing_it.get(state, 0) for state in _without_repetitions(states)]


def _levels_searched(bases: _Bases, wholes: list[Whole], states: States) -> Found:
    found = [searched(bases.tops, bases.whole, wholes, pairs=False)]
    for key, seen in states.items():
        found.append(searched(bases.tops, _of(bases.view, key), seen))
    return found


def _of(view: Callable[[Cut], View], key: Key) -> Callable[[Cut], Hashable]:
    return lambda cut: view(cut).get(key)


def searched(
    tops: Cut, meaning: Callable[[Cut], Hashable], seen: Iterable[Hashable], *, pairs: bool = True
) -> tuple[Level, bool]:
    """Ask the judge proper: search the base states of a world of any size."""
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
