"""FROM and WHERE into joins: which tables meet on what, in an order in which every join has an equality.

WHERE stands above all joins, so a condition may sink onto any inner-joined item or the preserved side of an
outer join, never below the side that an outer join fills with nulls.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from cvs.model.expressions import Call, Expression, Literal
from cvs.model.views import Join, JoinKind, Relation, Select
from cvs.plan.keys import facts
from cvs.plan.refusal import refused
from cvs.plan.scope import columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A relation in the making and the full names of its columns."""

    relation: Relation
    columns: frozenset[str]


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the parts of an AND; common parts of all branches of an OR come out too."""
    if isinstance(expression, Call) and expression.function == "and":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    if isinstance(expression, Call) and expression.function == "or":
        return _factored(expression)
    return [] if isinstance(expression, Literal) and expression.value is True else [expression]


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """Return the AND of parts, or None of none."""
    found = tuple(parts)
    if not found:
        return None
    return found[0] if len(found) == 1 else Call("and", found)


def selected(relation: Relation, parts: Iterable[Expression]) -> Relation:
    """Return the relation with conditions on top."""
    predicate = conjunction(parts)
    return relation if predicate is None else Select(source=relation, predicate=predicate)


def combined(items: list[Item], conditions: list[Expression], node: exp.Expr) -> Item:
    """Join items in order of appearance, each one by equalities with what is already there.

    Consumes the conditions it used from the list; those that read other columns stay.
    """
    left = [_filtered(item, conditions) for item in items]
    current = left.pop(0)
    while left:
        following = next((item for item in left if _pairs(current, item, conditions)), None)
        if following is None:
            following = next((item for item in left if _single_row(item)), None)
        if following is None and _single_row(current):
            following = left[0]
        if following is None:
            alias = min(left[0].columns).split(".")[0]
            tables = node.find_all(exp.Table)
            at = next((table for table in tables if table.alias_or_name == alias), node)
            raise refused(
                at,
                f"`{alias}` and what stands before it meet without an equality: their product is not incremental",
                "join them ON a = b",
            )
        left.remove(following)
        current = joined("inner", current, following, conditions)
    return current


def joined(kind: JoinKind, left: Item, right: Item, conditions: list[Expression]) -> Item:
    """Join two items by all conditions that only read them; consumes what it used."""
    on = _pairs(left, right, conditions)
    both = left.columns | right.columns
    for condition, _ in on:
        conditions.remove(condition)
    rest = [c for c in conditions if columns_of(c) <= both]
    for condition in rest:
        conditions.remove(condition)
    relation = Join(
        kind=kind,
        left=left.relation,
        right=right.relation,
        on=tuple(pair for _, pair in on),
        residual=conjunction(rest),
    )
    return Item(relation=relation, columns=left.columns if kind in ("semi", "anti") else both)


def outer_joined(kind: JoinKind, left: Item, right: Item, on: list[Expression], node: exp.Expr) -> Item:
    """Join by ON alone; conditions on the null-filled side sink into that side (TPC-H Q13)."""
    sinks = {"left": [right], "right": [left], "semi": [left, right], "anti": [right]}.get(kind, [])
    for side in sinks:
        own = [c for c in on if columns_of(c) <= side.columns and columns_of(c)]
        filtered = Item(relation=selected(side.relation, own), columns=side.columns)
        left, right = (filtered, right) if side is left else (left, filtered)
        for condition in own:
            on.remove(condition)
    if not _pairs(left, right, on) and not (_single_row(right) and kind == "left"):
        raise refused(node, f"this {kind} join has no equality between its sides", "join ON a = b")
    return joined(kind, left, right, on)


def pair_of(
    condition: Expression, left: frozenset[str], right: frozenset[str]
) -> tuple[Expression, Expression] | None:
    """Return (left side, right side) of an equality between the two column sets, or None."""
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    one, two = condition.arguments
    for a, b in ((one, two), (two, one)):
        if columns_of(a) and columns_of(b) and columns_of(a) <= left and columns_of(b) <= right:
            return a, b
    return None


def _pairs(
    left: Item, right: Item, conditions: list[Expression]
) -> list[tuple[Expression, tuple[Expression, Expression]]]:
    found = ((c, pair_of(c, left.columns, right.columns)) for c in conditions)
    return [(condition, pair) for condition, pair in found if pair is not None]


def _filtered(item: Item, conditions: list[Expression]) -> Item:
    own = [c for c in conditions if columns_of(c) <= item.columns and columns_of(c)]
    for condition in own:
        conditions.remove(condition)
    return Item(relation=selected(item.relation, own), columns=item.columns)


def _single_row(item: Item) -> bool:
    return frozenset() in facts(item.relation).keys


def _factored(expression: Call) -> list[Expression]:
    """(a and x) or (a and y) = a and (x or y): finds the join of TPC-H Q19."""
    branches = [conjuncts(branch) for branch in expression.arguments]
    shared = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    if not shared:
        return [expression]
    rests = [conjunction(part for part in branch if part not in shared) for branch in branches]
    if any(rest is None for rest in rests):
        return shared
    return [*shared, Call("or", tuple(rest for rest in rests if rest is not None))]
