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

from cvs.model.expressions import compile_predicate
from cvs.model.stages import JoinStage
from cvs.programs.stage_bucket import Bag, Place, State
from cvs.programs.stage_codec import Value, Values, framed, pack, pack_key, unpack

Counted = list[tuple[Values, int]]
Pair = Callable[[Values, Values], bool]

LINEAR_IN_LEFT = {"inner", "left", "semi", "anti"}
LINEAR_IN_RIGHT = {"inner", "right"}


class JoinCompute:
    """What a `JoinStage` does to a bucket."""

    def __init__(self, stage: JoinStage, *, number: int) -> None:
        self.stage = stage
        self._sides = (framed(b"%d" % number, b"l"), framed(b"%d" % number, b"r"))
        left = tuple(c.name for c in stage.left[0].columns)
        right = tuple(c.name for c in stage.right[0].columns)
        self._places = ([left.index(n) for n in stage.left_key], [right.index(n) for n in stage.right_key])
        self._nulls = ((None,) * len(left), (None,) * len(right))
        self._pair = self._predicate(left + right)
        both = {name: i for i, name in enumerate(left + right)}
        self._shown = [both[name] for name, _ in stage.output]

    def join_key(self, side: int, row: Values) -> Values:
        """Return the values a row of a side (0 left, 1 right) joins on."""
        return tuple(row[p] for p in self._places[side])

    def __call__(self, state: State, changes: tuple[Bag, Bag], *, always: bool = False) -> Bag:
        """Carry changes of both sides into the state and return the change of the join."""
        touched: dict[bytes, tuple[bool, tuple[Counted, Counted]]] = {}
        for side, bag in enumerate(changes):
            for row, count in bag:
                values = self.join_key(side, row)
                known = not any(value is None for value in values)
                touched.setdefault(pack_key(values), (known, ([], [])))[1][side].append((row, count))
        state.want(keys=self._keys(touched), prefixes=self._prefixes(touched))
        out = Bag()
        for name in sorted(touched):
            known, moves = touched[name]
            self._move(state, name, moves, known, out)
        return out

    def contents(self, state: State) -> Bag:
        """Return the join's rows as the state has them."""
        groups: dict[bytes, tuple[Counted, Counted]] = {}
        for side, prefix in enumerate(self._sides):
            for value in state.under(prefix).values():
                row, count = unpack(value)
                groups.setdefault(pack_key(self.join_key(side, row)), ([], []))[side].append((row, count))
        out = Bag()
        for left, right in groups.values():
            known = not any(v is None for v in self.join_key(0 if left else 1, (left or right)[0][0]))
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
        return self._sides[side] + framed(name)

    def _keys(self, touched: dict[bytes, tuple[bool, tuple[Counted, Counted]]]) -> Iterable[bytes]:
        for name, (_, moves) in touched.items():
            for side, rows in enumerate(moves):
                yield from (self._rows_of(side, name) + framed(pack(row)) for row, _ in rows)

    def _linear(self, moves: tuple[Counted, Counted]) -> tuple[bool, bool]:
        left, right = moves
        kind = self.stage.kind
        return (not right and kind in LINEAR_IN_LEFT, not left and kind in LINEAR_IN_RIGHT)

    def _prefixes(self, touched: dict[bytes, tuple[bool, tuple[Counted, Counted]]]) -> Iterable[bytes]:
        """Return the sides that must be read whole, value by value."""
        for name, (known, moves) in touched.items():
            if not known:
                continue
            by_left, by_right = self._linear(moves)
            if not by_right:
                yield self._rows_of(1, name)
            if not by_left:
                yield self._rows_of(0, name)

    def _move(self, state: State, name: bytes, moves: tuple[Counted, Counted], known: bool, out: Bag) -> None:
        by_left, by_right = self._linear(moves)
        if not known:
            self._join(moves[0], moves[1], known, 1, out)
        elif by_left:
            self._join(moves[0], self._side(state, 1, name), known, 1, out)
        elif by_right:
            self._join(self._side(state, 0, name), moves[1], known, 1, out)
        else:
            self._join(self._side(state, 0, name), self._side(state, 1, name), known, -1, out)
        for side, rows in enumerate(moves):
            self._keep(state, self._rows_of(side, name), rows)
        if known and not by_left and not by_right:
            self._join(self._side(state, 0, name), self._side(state, 1, name), known, 1, out)

    def _side(self, state: State, side: int, name: bytes) -> Counted:
        found = (unpack(value) for value in state.under(self._rows_of(side, name)).values())
        return [(row, count) for row, count in found]

    def _keep(self, state: State, prefix: bytes, rows: Counted) -> None:
        for row, count in rows:
            key = prefix + framed(pack(row))
            stored = state.get(key)
            has = (unpack(stored)[1] if stored is not None else 0) + count
            assert has >= 0, "a row left a join more often than it came"
            state.put(key, pack((row, has)) if has else None)

    def _join(self, left: Counted, right: Counted, known: bool, sign: int, out: Bag) -> None:
        """Add the join of some rows that share a join value (`known`: which is not null)."""
        kind = self.stage.kind
        matched_right: set[int] = set()
        for row, count in left:
            matches = [i for i, (other, n) in enumerate(right) if known and n and self._pair(row, other)]
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

    def _show(self, left: Values, right: Values) -> Values:
        both = left + right
        return tuple(both[place] for place in self._shown)

    def _predicate(self, columns: tuple[str, ...]) -> Pair:
        if self.stage.residual is None:
            return lambda _left, _right: True
        chosen = compile_predicate(self.stage.residual)
        return lambda left, right: chosen(dict(zip(columns, left + right, strict=True)))
