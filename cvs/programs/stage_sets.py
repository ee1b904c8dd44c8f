"""Stages that know each different row by its multiplicity: DISTINCT and UNION, INTERSECT and EXCEPT, top-k.

After paper 001 section 2.2.5 (set operations with an auxiliary counter column, which makes them strong where
reading the base is weak): the counter is here a multiplicity on each side.
"""

from collections.abc import Iterable, Mapping

from cvs.model.expressions import compile_expression
from cvs.model.functions import ordered
from cvs.model.identity import canonical
from cvs.model.stages import DistinctStage, SetStage, TopKStage
from cvs.model.views import OrderBy
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import Place
from cvs.programs.stage_codec import Value, Values, framed, named, pack, pack_key, unpack
from cvs.programs.stage_state import State


class CountedCompute:
    """What a `DistinctStage` or a `SetStage` does to a bucket: (left, right) multiplicities of each row."""

    def __init__(self, stage: DistinctStage | SetStage, *, number: int) -> None:
        self.stage = stage
        self._prefix = framed(b"%d" % number, b"c")
        self.prefixes = (self._prefix,)

    def __call__(self, state: State, changes: tuple[Bag, Bag]) -> Bag:
        """Carry changes of both sides (a distinct stage has a left one only) into the multiplicities."""
        moves: dict[bytes, tuple[Values, list[int]]] = {}
        for side, bag in enumerate(changes):
            for row, count in bag:
                shown = tuple(map(canonical, row))
                moves.setdefault(self._prefix + named(pack_key(row)), (shown, [0, 0]))[1][side] += count
        state.want(keys=moves)
        out = Bag()
        for key in sorted(moves):
            row, (left, right) = moves[key]
            stored = state.get(key)
            had = unpack(stored)[1:] if stored is not None else (0, 0)
            has = (had[0] + left, had[1] + right)
            assert min(has) >= 0, "a row left a set more often than it came"
            if left or right:
                state.put(key, pack((row, *has)) if any(has) else None)
            out.add(row, self._shown(*has) - self._shown(*had))
        return out

    def contents(self, state: State) -> Bag:
        """Return the stage's rows as the state has them."""
        out = Bag()
        for value in state.under(self._prefix).values():
            row, left, right = unpack(value)
            out.add(row, self._shown(left, right))
        return out

    def place(self, known: Mapping[str, Value]) -> Place | None:
        """Return where output rows with these values come from, if the values say it."""
        names = [name for name, _ in self.stage.output]
        if not known.keys() >= set(names):
            return None
        row = pack_key(known[name] for name in names)
        return Place(key=row, prefixes=(self._prefix + named(row),))

    def _shown(self, left: int, right: int) -> int:
        """Return how often a row is shown."""
        stage = self.stage
        if isinstance(stage, DistinctStage):
            return int(left > 0)
        if stage.all:
            return min(left, right) if stage.kind == "intersect" else max(left - right, 0)
        return int(left > 0 and (right > 0) is (stage.kind == "intersect"))


class TopKCompute:
    """What a `TopKStage` does to its bucket: all rows are kept, the first few are shown."""

    def __init__(self, stage: TopKStage, *, number: int) -> None:
        self.stage = stage
        self._prefix = framed(b"%d" % number, b"t")
        self.prefixes = (self._prefix,)
        self._columns = tuple(name for name, _ in stage.output)
        self._terms = [(compile_expression(term.expression), term) for term in stage.order]

    def __call__(self, state: State, changes: Bag) -> Bag:
        """Carry changes into the rows kept; what enters and leaves the first few goes on."""
        if not len(changes):
            return Bag()
        out = Bag((row, -count) for row, count in self.contents(state))
        for row, count in changes:
            key = self._prefix + named(pack(row))
            stored = state.get(key)
            has = (unpack(stored)[1] if stored is not None else 0) + count
            assert has >= 0, "a row left more often than it came"
            state.put(key, pack((row, has)) if has else None)
        out.extend(self.contents(state))
        return out

    def contents(self, state: State) -> Bag:
        """Return the rows shown."""
        found = [unpack(value) for value in state.under(self._prefix).values()]
        rows: list[Values] = [row for row, count in found for _ in range(count)]
        first = self.stage.offset
        return Bag((row, 1) for row in self._sorted(rows)[first : first + self.stage.limit])

    def place(self, known: Mapping[str, Value]) -> Place | None:
        """Return where all rows are kept: the order needs every one of them."""
        return Place(key=pack_key(()), prefixes=(self._prefix,))

    def _sorted(self, rows: Iterable[Values]) -> list[Values]:
        """Sort by the least important term first; Python's sort keeps the order of equals."""
        result = sorted(rows, key=lambda row: tuple(ordered(value) for value in row))
        for compute, term in reversed(self._terms):
            keyed = [
                (self._rank(term, compute(dict(zip(self._columns, row, strict=True)))), row) for row in result
            ]
            keyed.sort(key=lambda pair: pair[0], reverse=term.descending)
            result = [row for _, row in keyed]
        return result

    def _rank(self, term: OrderBy, value: Value) -> tuple[int, Value]:
        if value is None:
            return (0, 0) if term.nulls_first is not term.descending else (3, 0)
        return ordered(value)
