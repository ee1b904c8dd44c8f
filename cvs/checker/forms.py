"""What counts, sums and extremes of a group demand of each base record that touches it (checker plan 5.4).

A group that shows COUNT 3 and SUM 40 tells much of the versions that can stand in it without trying them out:
what the others can give at least and at most bounds each one, and a table of reachable sums, one record after
another, says exactly which versions have a partner (the multiple-choice subset sum of the plan, for weak; here it
narrows every search). A version below a shown MIN, or above a MAX, cannot stand. Bounds and tables only ever
exclude what cannot be: what they leave is tried.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from operator import add
from typing import Any

from cvs.checker.verdict import Budget, Cut
from cvs.model.functions import ordered
from cvs.model.identity import NAN
from cvs.model.views import AggregateFunction

Solo = Sequence[Mapping[str, Any]]
"""The rows that one version of a base record puts into a group."""

WIDEST = 4_000
"""Sums one table may hold for one record; beyond, bounds must do."""

EXTREMES = (AggregateFunction.MIN, AggregateFunction.MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """One column of the view that is a fold, and the column of the rows it folds (None: it counts rows)."""

    name: str
    function: AggregateFunction
    argument: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """How a group shows the rows in it; `kept`: a group is shown exactly if there are rows in it.

    `filtered`: whether one with rows in it is shown may hang on what is folded, not on the group alone.
    """

    columns: tuple[Folded, ...]
    kept: bool
    filtered: bool = True


@dataclass(slots=True)
class _Form:
    """One sum: what each version adds, and the least and the most that it or a later one can."""

    name: str | None  # None: the number of rows
    weights: list[list[Any]]
    least: list[list[Any]]
    most: list[list[Any]]

    @classmethod
    def of(cls, name: str | None, weights: list[list[Any]]) -> "_Form":
        least = [list(accumulate(reversed(each), min))[::-1] for each in weights]
        most = [list(accumulate(reversed(each), max))[::-1] for each in weights]
        return cls(name, weights, least, most)


@dataclass(slots=True)
class _Extreme:
    """One MIN or MAX: what each version offers, as something that sorts; None: nothing."""

    name: str
    least: bool
    offers: list[list[Any]]

    def excludes(self, place: int, version: int, shown: Any) -> bool:
        offer = self.offers[place][version]
        if offer is None or shown is None:
            return offer is not None
        try:
            return bool(offer < shown if self.least else offer > shown)
        except TypeError:  # shown is of another kind: that is found when the value is computed
            return False


@dataclass(slots=True)
class Forms:
    """The sums and extremes of one view record over the base records that touch it."""

    fold: Fold
    sums: list[_Form]
    extremes: list[_Extreme]

    def raised(self, local: Cut, value: Hashable, budget: Budget, *, hard: bool) -> Cut | None:
        """Return the least version of each record that can stand at or above a cut that shows this; None: none."""
        row = None if value is None else dict(value)  # type: ignore[call-overload]
        wanted = self._wanted(row)
        at = self._allowed(local, row)
        budget.spend(len(local) * (1 + len(wanted)))
        if at is not None:
            at = _bounded(at, wanted)
        if at is None or not hard or not wanted:
            return at
        at = _supported(at, [(form.weights, target) for form, target in wanted], budget)
        return at and self._allowed(at, row)

    def changes(self) -> int:
        """Count the versions that change a shown sum, whatever the others are: any order of them has as many states."""
        shown = [form.weights for form in self.sums if form.name is not None]
        return sum(
            any(weights[place][version] != weights[place][version - 1] for weights in shown)
            for place, versions in enumerate(shown[0] if shown else ())
            for version in range(1, len(versions))
        )

    def alone(self, value: Hashable) -> bool:
        """Say whether one version may show a row by itself: the first row of a group is that of one base record."""
        row: Mapping[str, Any] = {} if value is None else dict(value)  # type: ignore[call-overload]
        wanted = self._wanted(row)
        extremes = [
            (each, _sortable(row[each.name])) for each in self.extremes if row.get(each.name) is not None
        ]
        (rows,) = (form.weights for form in self.sums if form.name is None)
        return any(
            many
            and all(form.weights[place][version] == target for form, target in wanted)
            and all(each.offers[place][version] == shown for each, shown in extremes)
            for place, versions in enumerate(rows)
            for version, many in enumerate(versions)
        )

    def _wanted(self, row: Mapping[str, Any] | None) -> list[tuple[_Form, Any]]:
        if row is None:
            return [(form, 0) for form in self.sums if form.name is None and self.fold.kept]
        found = ((form, _number(row.get(form.name))) for form in self.sums if form.name is not None)
        return [(form, target) for form, target in found if target is not None]

    def _allowed(self, local: Cut, row: Mapping[str, Any] | None) -> Cut | None:
        """Skip versions that an extreme forbids."""
        if row is None or not self.extremes:
            return local
        at = list(local)
        for extreme in self.extremes:
            value = row.get(extreme.name)
            shown = None if value is None else _sortable(value)
            for place, offers in enumerate(extreme.offers):
                while at[place] < len(offers) and extreme.excludes(place, at[place], shown):
                    at[place] += 1
                if at[place] == len(offers):
                    return None
        return tuple(at)

    def upside_down(self, tops: Cut) -> "Forms":
        """Return the same with all versions in reverse."""
        sums = [_Form.of(form.name, _reversed(form.weights)) for form in self.sums]
        extremes = [_Extreme(each.name, each.least, _reversed(each.offers)) for each in self.extremes]
        return Forms(self.fold, sums, extremes)


@dataclass(frozen=True, slots=True)
class Sources:
    """What gives a view record each row it can show: one of some choices of versions (a row of inner joins)."""

    rows: Mapping[Hashable, Sequence[Mapping[int, int]]]  # per row: place -> version

    def raised(self, local: Cut, value: Hashable, budget: Budget, *, hard: bool) -> Cut | None:
        """Return the least version of each record that can stand at or above a cut that shows this; None: none."""
        if value is None:
            return local
        choices = self.rows.get(value, ())
        budget.spend(1 + len(choices))
        left = [each for each in choices if all(local[place] <= version for place, version in each.items())]
        if not left:
            return None
        return tuple([min(each.get(place, low) for each in left) for place, low in enumerate(local)])

    def upside_down(self, tops: Cut) -> "Sources":
        """Return the same with all versions in reverse."""
        rows = {
            row: [{place: tops[place] - version for place, version in each.items()} for each in choices]
            for row, choices in self.rows.items()
        }
        return Sources(rows)


def _reversed(columns: list[list[Any]]) -> list[list[Any]]:
    return [each[::-1] for each in columns]


def _bounded(local: Cut, wanted: list[tuple[_Form, Any]]) -> Cut | None:
    """Raise each version until the others can make up the rest of each sum."""
    at = list(local)
    moved = True
    while moved:
        moved = False
        for form, target in wanted:
            least = sum(each[v] for each, v in zip(form.least, at, strict=True))
            most = sum(each[v] for each, v in zip(form.most, at, strict=True))
            if not least <= target <= most:
                return None
            for place, weights in enumerate(form.weights):
                version = at[place]
                others_least, others_most = (
                    least - form.least[place][version],
                    most - form.most[place][version],
                )
                while version < len(weights) and not (
                    others_least <= target - weights[version] <= others_most
                ):
                    version += 1
                if version == len(weights):
                    return None
                if version != at[place]:
                    at[place], moved = version, True
                    least = others_least + form.least[place][version]
                    most = others_most + form.most[place][version]
    return tuple(at)


def _supported(local: Cut, sums: list[tuple[list[list[Any]], Any]], budget: Budget) -> Cut | None:
    """Raise each version to the first with which some choice of the others makes all sums at once."""
    places = range(len(local))
    vectors = [[tuple(w[p][v] for w, _ in sums) for v in range(local[p], len(sums[0][0][p]))] for p in places]
    rest_low = _suffix(vectors, min)
    rest_high = _suffix(vectors, max)
    target = tuple(t for _, t in sums)
    layers = [{tuple(0 for _ in sums)}]
    for p in places:
        following: set[tuple[Any, ...]] = set()
        for weight in dict.fromkeys(vectors[p]):
            budget.spend(1 + len(sums) * len(layers[-1]))
            for have in layers[-1]:
                total = tuple(map(add, have, weight))
                if all(
                    t + low <= goal <= t + high
                    for t, low, high, goal in zip(
                        total, rest_low[p + 1], rest_high[p + 1], target, strict=True
                    )
                ):
                    following.add(total)
        if not following:
            return None
        if len(following) > WIDEST:
            return local
        layers.append(following)
    at, alive = list(local), {target}
    for p in reversed(places):
        before: set[tuple[Any, ...]] = set()
        fits: dict[tuple[Any, ...], bool] = {}
        for weight in dict.fromkeys(vectors[p]):
            budget.spend(1 + len(sums) * len(layers[p]))
            kept = {have for have in layers[p] if tuple(map(add, have, weight)) in alive}
            fits[weight] = bool(kept)
            before |= kept
        at[p] += next(offset for offset, weight in enumerate(vectors[p]) if fits[weight])
        alive = before
    return tuple(at)


def _suffix(vectors: list[list[tuple[Any, ...]]], choose: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """Return, from each place on, the least or the most that the rest can add."""
    width = len(vectors[0][0])
    found = [tuple(0 for _ in range(width))]
    for each in reversed(vectors):
        found.append(tuple(choose(v[i] for v in each) + found[-1][i] for i in range(width)))
    return found[::-1]


def _sortable(value: Any) -> Any:
    return (2, 0) if value is NAN else ordered(value)


def _number(value: Any) -> Any:
    """Return an exact number, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if isinstance(value, int):
        return value
    return Fraction(value) if value.is_finite() else None


def forms_of(fold: Fold, told: Sequence[Sequence[Solo]]) -> Forms | None:
    """Make the forms of a group from the rows that each version of each record puts into it."""
    if not told:
        return None
    forms = Forms(fold, [_Form.of(None, [[len(solo) for solo in each] for each in told])], [])
    for column in fold.columns:
        offered = [[_values(column.argument, solo) for solo in each] for each in told]
        if column.function in EXTREMES:
            choose = min if column.function is AggregateFunction.MIN else max
            offers = [[choose(map(_sortable, v), default=None) for v in each] for each in offered]
            forms.extremes.append(_Extreme(column.name, choose is min, offers))
        elif column.function is AggregateFunction.COUNT:
            forms.sums.append(_Form.of(column.name, [[len(v) for v in each] for each in offered]))
        elif column.function is AggregateFunction.SUM:
            numbers = [[list(map(_number, v)) for v in each] for each in offered]
            if not any(n is None for each in numbers for v in each for n in v):
                forms.sums.append(_Form.of(column.name, [[sum(v) for v in each] for each in numbers]))
    return forms


def _values(argument: str | None, solo: Solo) -> list[Any]:
    if argument is None:
        return [1] * len(solo)
    return [row[argument] for row in solo if argument in row]
