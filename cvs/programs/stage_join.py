"""The join stage: both sides' rows under the join value, matched or not (reverse-join, paper 000 section 2.5).

The base is never read, so late and early rows meet whenever the second one comes, and the result is strong
where the paper's base-reading program (001, algorithm 10) is weak. Both sides change in one test-and-set (H6).

How much must be read follows from where a join is linear. An inner join is linear in each side; a left, semi
or anti join in its left side; a right join in its right side. Where only a side in which the join is linear
has changed, its change joined with the other side is the answer and the changed side's other rows are not
read at all. Otherwise the join of the value is computed before and after, and the difference goes on: that
also makes null-extended rows appear and vanish (paper 000 D-2.5).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cvs.model.expressions import compile_predicate
from cvs.model.stages import JoinStage
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import Place
from cvs.programs.stage_cells import KeptBags, rows_under
from cvs.programs.stage_codec import Value, Values, framed, named, pack_key, picking, unpack
from cvs.programs.stage_state import State

Counted = list[tuple[Values, int]]
Pair = Callable[[Values, Values], bool]

LINEAR_IN_LEFT = {"inner", "left", "semi", "anti"}
LINEAR_IN_RIGHT = {"inner", "right"}


class JoinCompute:
    """What a `JoinStage` does to a bucket."""

    def __init__(self, stage: JoinStage, *, number: int) -> None:
        self.stage = stage
        self.prefixes = (framed(b"%d" % number, b"l"), framed(b"%d" % number, b"r"))
        left = tuple(c.name for c in stage.left[0].columns)
        right = tuple(c.name for c in stage.right[0].columns)
        self.join_key = (  # of each side (0 left, 1 right), the values a row joins on
            picking([left.index(n) for n in stage.left_key]),
            picking([right.index(n) for n in stage.right_key]),
        )
        self._nulls = ((None,) * len(left), (None,) * len(right))
        self._pair = self._predicate(left + right)
        both = {name: i for i, name in enumerate(left + right)}
        self._output = picking([both[name] for name, _ in stage.output])
        self._kept = KeptBags()

    def __call__(self, state: State, changes: tuple[Bag, Bag]) -> Bag:
        """Carry changes of both sides into the state and return the change of the join."""
        left, right = changes
        if left.sorted is None or left.sorted is not right.sorted:
            left.sorted = right.sorted = self._touched(changes)
        touched: dict[bytes, _Touched] = left.sorted
        self._kept.want(state, self._changed(touched), whole=self._whole(touched))
        out = Bag()
        for name in sorted(touched):
            self._move(state, name, touched[name], out)
        return out

    def _touched(self, changes: tuple[Bag, Bag]) -> dict[bytes, "_Touched"]:
        touched: dict[bytes, _Touched] = {}
        for side, bag in enumerate(changes):
            join_key = self.join_key[side]
            for packed, (row, count) in bag.named():
                values = join_key(row)
                name = pack_key(values)
                it = touched.get(name)
                if it is None:
                    it = touched[name] = _Touched(None not in values)
                it.moves[side].append((row, count))
                it.counts[side][packed] = count
        return touched

    def _changed(self, touched: dict[bytes, "_Touched"]) -> dict[bytes, dict[bytes, int]]:
        """Return the sides whose rows change, value by value."""
        return {
            self._rows_of(side, name): counts
            for name, it in touched.items()
            for side, counts in enumerate(it.counts)
            if counts
        }

    def contents(self, state: State) -> Bag:
        """Return the join's rows as the state has them."""
        groups: dict[bytes, tuple[Counted, Counted]] = {}
        for side, prefix in enumerate(self.prefixes):
            for packed, count in rows_under(state, prefix):
                row = unpack(packed)
                groups.setdefault(pack_key(self.join_key[side](row)), ([], []))[side].append((row, count))
        out = Bag()
        for left, right in groups.values():
            known = not any(v is None for v in self.join_key[0 if left else 1]((left or right)[0][0]))
            self._join(left, right, known, 1, out)
        return out

    def place(self, known: Mapping[str, Value]) -> Place | None:
        """Return where output rows with these values come from, if the values say it."""
        for columns in () if self.stage.replicated else (self.stage.left_key, self.stage.right_key):
            if known.keys() >= set(columns):
                name = pack_key(known[column] for column in columns)
                return Place(key=name, prefixes=(self._rows_of(0, name), self._rows_of(1, name)))
        return None

    def _rows_of(self, side: int, name: bytes) -> bytes:
        return self.prefixes[side] + named(name)

    def _linear(self, it: "_Touched") -> tuple[bool, bool]:
        left, right = it.moves
        kind = self.stage.kind
        return (not right and kind in LINEAR_IN_LEFT, not left and kind in LINEAR_IN_RIGHT)

    def _whole(self, touched: dict[bytes, "_Touched"]) -> Iterable[bytes]:
        """Return the sides that must be read whole, value by value."""
        for name, it in touched.items():
            if not it.known:
                continue
            by_left, by_right = self._linear(it)
            if not by_right:
                yield self._rows_of(1, name)
            if not by_left:
                yield self._rows_of(0, name)

    def _move(self, state: State, name: bytes, it: "_Touched", out: Bag) -> None:
        by_left, by_right = self._linear(it)
        known, (left, right) = it.known, it.moves
        if not known:
            self._join(left, right, known, 1, out)
        elif by_left:
            self._join(left, self._side(state, 1, name), known, 1, out)
        elif by_right:
            self._join(self._side(state, 0, name), right, known, 1, out)
        else:
            self._join(self._side(state, 0, name), self._side(state, 1, name), known, -1, out)
        for side, counts in enumerate(it.counts):
            if counts:
                self._kept.carry(state, self._rows_of(side, name), counts)
        if known and not by_left and not by_right:
            self._join(self._side(state, 0, name), self._side(state, 1, name), known, 1, out)

    def _side(self, state: State, side: int, name: bytes) -> Counted:
        rows = self._kept.rows(state, self._rows_of(side, name))
        return [(unpack(packed), count) for packed, count in rows.items()]

    def _join(self, left: Counted, right: Counted, known: bool, sign: int, out: Bag) -> None:
        """Add the join of some rows that share a join value (`known`: which is not null)."""
        kind = self.stage.kind
        if kind == "inner" and self._pair is None:
            for other, n in right if known else ():
                for row, count in left:
                    out.add(self._show(row, other), sign * count * n)
            return
        matched_right: set[int] = set()
        for row, count in left:
            matches = [i for i, (other, n) in enumerate(right) if known and n and self._pairs(row, other)]
            if kind in ("semi", "anti"):
                if bool(matches) is (kind == "semi"):
                    out.add(self._show(row, self._nulls[1]), sign * count)
                continue
            matched_right.update(matches)
            for i in matches:
                out.add(self._show(row, right[i][0]), sign * count * right[i][1])
            if not matches and kind in ("left", "full"):
                out.add(self._show(row, self._nulls[1]), sign * count)
        if kind in ("right", "full"):
            for i, (row, count) in enumerate(right):
                if i not in matched_right:
                    out.add(self._show(self._nulls[0], row), sign * count)

    def _pairs(self, left: Values, right: Values) -> bool:
        return self._pair is None or self._pair(left, right)

    def _show(self, left: Values, right: Values) -> Values:
        return self._output(left + right)

    def _predicate(self, columns: tuple[str, ...]) -> Pair | None:
        if self.stage.residual is None:
            return None
        chosen = compile_predicate(self.stage.residual)
        return lambda left, right: chosen(dict(zip(columns, left + right, strict=True)))


@dataclass(slots=True)
class _Touched:
    """What an epoch does under one join value: changes of both sides, as values and as bytes."""

    known: bool  # the value has no null, so its rows can meet
    moves: tuple[Counted, Counted] = field(default_factory=lambda: ([], []))
    counts: tuple[dict[bytes, int], dict[bytes, int]] = field(default_factory=lambda: ({}, {}))
