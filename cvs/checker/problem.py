"""A problem of the value tier: time-lines, what each view record would show of a cut, and the states it did show.

A part of it (`Shown`) is one view record with the few base records that can matter to it. All that is asked of a
cut is asked part by part, so that going from a cut to its neighbour computes only what the moved record touches.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from cvs.checker.forms import Forms, Sources
from cvs.checker.verdict import Budget, Cut

TABLE = 256
"""Local cuts of one view record that are looked at, at most, to see which versions can stand at all."""


def below(lower: Cut, upper: Cut) -> bool:
    """Say whether no record is newer in the first cut."""
    return all(a <= b for a, b in zip(lower, upper, strict=True))


def mirrored(cut: Cut, tops: Cut) -> Cut:
    """Return a cut as it stands in the problem upside down."""
    return tuple([top - at for top, at in zip(tops, cut, strict=True)])


def moved(low: Cut, places: Sequence[int], by: Cut) -> Cut:
    """Return a cut with some of its records so many versions later."""
    at = list(low)
    for place, more in zip(places, by, strict=True):
        at[place] += more
    return tuple(at)


@dataclass(slots=True, kw_only=True)
class Shown:
    """What one view record showed in each state, and what it would show of a cut of the records that touch it."""

    places: Cut
    meaning: Callable[[Cut], Hashable]
    values: tuple[Hashable, ...]
    key: Hashable = None  # the name of the view record
    forms: Forms | Sources | None = None
    cost: int = 1  # steps that computing one value takes
    memo: dict[Cut, Hashable] = field(default_factory=dict)

    def at(self, local: Cut, budget: Budget) -> Hashable:
        """Return what it would show; each local cut is computed once."""
        budget.spend()
        if local not in self.memo:
            budget.spend(self.cost)
            self.memo[local] = self.meaning(local)
        return self.memo[local]

    def at_states(self, positions: Sequence[int]) -> "Shown":
        """Return what it showed in some of the states only; the values of cuts stay known."""
        return replace(self, values=tuple([self.values[i] for i in positions]))

    def raised(self, local: Cut, tops: Cut, value: Hashable, budget: Budget, *, hard: bool) -> Cut | None:
        """Return the least versions that can stand in a local cut, at or above this one, with this value.

        None if no cut above shows it. `hard`: at the price of looking at all of them, if they are not too many.
        """
        if self.forms is not None:
            raised = self.forms.raised(local, value, budget, hard=hard)
            if raised is None or raised != local:
                return raised
        size = 1
        for low, top in zip(local, tops, strict=True):
            size *= top - low + 1
            if size > TABLE or not hard:
                return local
        ranges = [range(low, top + 1) for low, top in zip(local, tops, strict=True)]
        fits = [other for other in product(*ranges) if self.at(other, budget) == value]
        return tuple(map(min, zip(*fits, strict=True))) if fits else None


@dataclass(slots=True, kw_only=True)
class Problem:
    """`tops`: last version of each record; `meaning`: cut -> shown value; `states`: what was shown, in
    order; `apart`: the same, view record by view record (None: all is one).
    """

    tops: Cut
    meaning: Callable[[Cut], Hashable]
    states: tuple[Hashable, ...]
    apart: tuple[Shown, ...] | None = None
    order: tuple[int, ...] | None = None  # the recorded commit order, as record indexes
    ceilings: tuple[Cut, ...] | None = None  # for no-future: versions called before state i was there
    settled: bool = True  # nothing follows the last state; else the end may still come
    parts: tuple[Shown, ...] = field(init=False)
    changed: list[tuple[int, ...]] = field(init=False)  # parts that differ from the state before
    touched: list[list[int]] = field(init=False)  # parts that hang on a record

    def __post_init__(self) -> None:
        everything = tuple(range(len(self.tops)))
        whole = Shown(places=everything, meaning=self.meaning, values=self.states)
        self.parts = (whole,) if self.apart is None else self.apart
        changed: list[list[int]] = [[] for _ in self.states]
        self.touched = [[] for _ in self.tops]
        for number, part in enumerate(self.parts):
            before = object()
            for position, value in enumerate(part.values):
                if value is not before and value != before:
                    changed[position].append(number)
                before = value
            for place in part.places:
                self.touched[place].append(number)
        self.changed = [tuple(each) for each in changed]

    @property
    def bottom(self) -> Cut:
        """Return the first base state."""
        return (0,) * len(self.tops)

    def shows(self, cut: Cut, number: int, position: int, budget: Budget) -> bool:
        """Say whether a view record shows, of a cut, what it did show in a state."""
        part = self.parts[number]
        return part.at(tuple([cut[p] for p in part.places]), budget) == part.values[position]

    def explains(self, cut: Cut, position: int, budget: Budget) -> bool:
        """Say whether a cut shows a state."""
        return all(self.shows(cut, number, position, budget) for number in range(len(self.parts)))

    def explained(self, cuts: Sequence[Cut], budget: Budget) -> list[bool]:
        """Say of each state whether its cut shows it; what did not move since the state before is not asked again."""
        found: list[bool] = []
        wrong: set[int] = set(range(len(self.parts)))
        before: Cut | None = None
        for position, cut in enumerate(cuts):
            suspects = wrong | set(self.changed[position])
            if before is not None and cut is not before:
                for place, (old, new) in enumerate(zip(before, cut, strict=True)):
                    if old != new:
                        suspects.update(self.touched[place])
            wrong = {n for n in suspects if not self.shows(cut, n, position, budget)}
            found.append(not wrong)
            before = cut
        return found

    def first_of_each(self) -> dict[int, int]:
        """Return for each position the first one that showed the same."""
        seen: dict[Hashable, int] = {}
        return {at: seen.setdefault(state, at) for at, state in enumerate(self.states)}

    def at(self, positions: Sequence[int]) -> "Problem":
        """Return the problem of some of the states only."""
        parts = tuple(part.at_states(positions) for part in self.parts)
        states = tuple(self.states[i] for i in positions)
        return Problem(tops=self.tops, meaning=self.meaning, states=states, apart=parts)

    def among(self, places: Sequence[int], numbers: Sequence[int]) -> "Problem":
        """Return the problem of some records, and of the parts that hang on no others."""
        new = {old: place for place, old in enumerate(places)}
        own = [self.parts[number] for number in numbers]
        parts = tuple(replace(part, places=tuple(new[old] for old in part.places)) for part in own)
        return Problem(
            tops=tuple(self.tops[place] for place in places),
            meaning=_together(parts),
            states=tuple(zip(*(part.values for part in parts), strict=True)),
            apart=parts,
        )

    def between(self, low: Cut, high: Cut, positions: tuple[int, int]) -> tuple["Problem", list[int]]:
        """Return the problem of two states over the base states from one to another, and the records that move."""
        places = [place for place, (a, b) in enumerate(zip(low, high, strict=True)) if a != b]
        new = {old: place for place, old in enumerate(places)}
        one, other = positions
        near = [n for place in places for n in self.touched[place]]
        numbers = dict.fromkeys((*near, *(self.changed[other] if one != other else ())))
        parts = tuple(
            Shown(
                key=part.key,
                places=tuple(new[p] for p in part.places if p in new),
                meaning=_from(part, low, new),
                values=(part.values[one], part.values[other]),
                cost=part.cost,
            )
            for part in map(self.parts.__getitem__, numbers)
        )
        tops = tuple(high[place] - low[place] for place in places)
        return Problem(tops=tops, meaning=_together(parts), states=positions, apart=parts), places

    def upside_down(self) -> "Problem":
        """Return the problem with all time-lines reversed: its minimal cuts are the maximal ones of this."""
        parts = tuple(
            replace(
                part,
                meaning=_mirrored(part, tops),
                memo={},
                forms=part.forms and part.forms.upside_down(tops),
            )
            for part in self.parts
            for tops in [tuple(self.tops[p] for p in part.places)]
        )
        return Problem(tops=self.tops, meaning=self.meaning, states=self.states, apart=parts)


PLENTY = Budget(1 << 62)
"""For values that whoever asks has paid for."""


def _mirrored(part: Shown, tops: Cut) -> Callable[[Cut], Hashable]:
    return lambda local: part.at(mirrored(local, tops), PLENTY)


def _from(part: Shown, low: Cut, new: Mapping[int, int]) -> Callable[[Cut], Hashable]:
    floor = tuple(low[place] for place in part.places)
    moving = [at for at, place in enumerate(part.places) if place in new]

    def meaning(local: Cut) -> Hashable:
        cut = list(floor)
        for at, more in zip(moving, local, strict=True):
            cut[at] += more
        return part.at(tuple(cut), PLENTY)

    return meaning


def _together(parts: Sequence[Shown]) -> Callable[[Cut], Hashable]:
    return lambda cut: tuple(part.at(tuple(cut[p] for p in part.places), PLENTY) for part in parts)
