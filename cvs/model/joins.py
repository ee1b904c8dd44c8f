"""The plain meaning of every kind of join.

Left and right rows meet by the values of `on`, where null equals nothing; `residual` must then be true. NOT
IN (`null-aware-anti`) keeps a left row only if its comparison with *every* right row is false: one unknown
is enough to lose it.
"""

from collections.abc import Callable, Iterable

from cvs.model.expressions import Compiled, Row, Value, compile_expression, compile_predicate
from cvs.model.functions import equal
from cvs.model.identity import key_identity
from cvs.model.views import Join

Key = tuple[Value, ...]
Rows = list[dict[str, Value]]
Residual = Callable[[Row], bool]


def joined(join: Join, left: Rows, right: Rows, absent: tuple[Row, Row]) -> Rows:
    """Return the rows of a join of two bags; `absent` are the nulls of a missing left and right row."""
    residual: Residual = (lambda _: True) if join.residual is None else compile_predicate(join.residual)
    left_on = [compile_expression(mine) for mine, _ in join.on]
    right_on = [compile_expression(other) for _, other in join.on]
    if join.kind == "null-aware-anti":
        return _not_in(left, right, (left_on, right_on), residual)
    candidates = _by_key(right, right_on)
    found: Rows = []
    matched: set[int] = set()
    no_left, no_right = absent
    for row in left:
        pairs = [
            (number, both)
            for number, other in candidates.get(_key(row, left_on), ())
            if residual(both := {**row, **other})
        ]
        matched.update(number for number, _ in pairs)
        found.extend(_of_left_row(join, row, [both for _, both in pairs], no_right))
    if join.kind in ("right", "full"):
        found.extend({**no_left, **other} for number, other in enumerate(right) if number not in matched)
    return found


def _of_left_row(join: Join, row: dict[str, Value], pairs: Rows, no_right: Row) -> Rows:
    if join.kind == "semi":
        return [row] if pairs else []
    if join.kind == "anti":
        return [] if pairs else [row]
    if not pairs and join.kind in ("left", "full"):
        return [{**row, **no_right}]
    return pairs


def _key(row: Row, computed: Iterable[Compiled]) -> Key | None:
    """Return the join value, or None if any part of it is null."""
    values = key_identity(compute(row) for compute in computed)
    return None if any(value is None for value in values) else values


def _by_key(rows: Rows, computed: list[Compiled]) -> dict[Key | None, list[tuple[int, dict[str, Value]]]]:
    found: dict[Key | None, list[tuple[int, dict[str, Value]]]] = {}
    for number, row in enumerate(rows):
        key = _key(row, computed)
        if key is not None:
            found.setdefault(key, []).append((number, row))
    return found


def _not_in(left: Rows, right: Rows, on: tuple[list[Compiled], list[Compiled]], residual: Residual) -> Rows:
    """Keep left rows whose comparison with every right row that passes the residual is false.

    Without a null on either side only an equal key can spoil it, which is why those are found by key.
    """
    left_on, right_on = on
    by_key = _by_key(right, right_on)
    with_nulls = [row for row in right if _key(row, right_on) is None]
    found = []
    for row in left:
        key = _key(row, left_on)
        rivals: Iterable[Row] = (
            right if key is None else [*(other for _, other in by_key.get(key, ())), *with_nulls]
        )
        mine = [compute(row) for compute in left_on]
        if not any(
            residual({**row, **other}) and not _surely_different(mine, [c(other) for c in right_on])
            for other in rivals
        ):
            found.append(row)
    return found


def _surely_different(mine: list[Value], other: list[Value]) -> bool:
    """Say whether a comparison of row values is false: some pair is known and unequal."""
    return any(a is not None and b is not None and not equal(a, b) for a, b in zip(mine, other, strict=True))
