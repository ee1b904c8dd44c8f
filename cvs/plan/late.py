"""Late selection: joins that differ only in what was selected before them become one (paper 000 section 5.1).

For an inner join, and for the kept side of a left, semi or anti join, selecting before or after is the same:
so one join over everything any view needs (the combined selection) serves all, and each view selects from its
output. A first lowering counts, for every join, how many stages exist that differ in nothing else; where the
shares say that one keeps fewer rows than all of them, a second lowering makes that one; `maintenance.py` keeps it
where it costs less.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import BaseTable
from cvs.plan.drafts import Branch, Draft, Port
from cvs.plan.statistics import selectivity

Where = tuple[Expression, ...]
PULLED = {"inner": (0, 1), "left": (0,), "semi": (0,), "anti": (0,)}
"""Sides whose selection may come later, by kind of join."""

VARIANTS_MAX = 8  # because a longer OR costs more a row than the rows it keeps out


@dataclass(slots=True, kw_only=True)
class Sighting:
    """One join as a shape: the stages that have it, and what each selected on its base tables."""

    stages: dict[str, tuple[Where | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What the one join for a shape selects on each side; None: the side is not pulled."""

    wheres: tuple[Where | None, ...]


def pulled_sides(kind: str, ports: tuple[Port, ...]) -> tuple[int, ...]:
    """Return the sides whose selection may come after this join: of one branch, so that a row says its branch."""
    return tuple(side for side in PULLED.get(kind, ()) if len(ports[side].flow) == 1)


def join_shape(kind: str, ports: tuple[Port, ...], fixed: tuple[Any, ...]) -> str:
    """Return what a join is without the selections that may come later, in terms of base tables only."""
    sides = pulled_sides(kind, ports)
    parts: list[Any] = [kind, fixed]
    for side, port in enumerate(ports):
        for branch in port.flow:
            where = () if side in sides else tuple(repr(expanded(c, branch.source)) for c in branch.where)
            parts.append((side, source_shape(branch.source), where))
        keys = [
            tuple(repr(expanded(e, b.source)) for e, b in zip(es, port.flow, strict=True))
            for es in port.columns
        ]
        parts.append(tuple(keys))
    return _digest(parts)


def source_shape(source: BaseTable | Draft) -> str:
    """Return a name for a source that is the same in every lowering."""
    return source.name if isinstance(source, BaseTable) else source.shape


def draft_shape(draft: Draft) -> str:
    """Return the shape of a stage other than a join: everything about it, in terms of base tables."""
    parts: list[Any] = [draft.kind, draft.set_kind, draft.all, draft.limit, draft.offset, repr(draft.order)]
    for port in draft.ports:
        parts += [(source_shape(b.source), [repr(expanded(c, b.source)) for c in b.where]) for b in port.flow]
        parts += [
            repr(expanded(e, b.source)) for es in port.columns for e, b in zip(es, port.flow, strict=True)
        ]
    return _digest(parts)


def expanded(expression: Expression, source: BaseTable | Draft) -> Expression:
    """Return an expression over a source in terms of base tables, with the side each column comes from."""
    if isinstance(expression, Call):
        return Call(expression.function, tuple(expanded(a, source) for a in expression.arguments))
    if isinstance(expression, Literal):
        return expression
    if isinstance(source, BaseTable):
        return Column(f"{source.name}:{expression.name}")
    for side, port in enumerate(source.ports):
        for expressions, name in port.columns.items():
            if name == expression.name:
                if name not in source.told:
                    below = [expanded(e, b.source) for e, b in zip(expressions, port.flow, strict=True)]
                    source.told[name] = Column(f"{source.shape}:{side}:{_digest(below)}")
                return source.told[name]
    kept = next(a for a in source.aggregates.values() if a.name == expression.name)
    argument = () if kept.argument is None else (expanded(kept.argument, source),)
    return Call(f"{source.shape}:{kept.function.value}:{kept.distinct}", argument)


def own_wheres(kind: str, ports: tuple[Port, ...]) -> tuple[Where | None, ...]:
    """Return what a join selects on each side that reads a base table and may be pulled."""
    sides = pulled_sides(kind, ports)
    found: list[Where | None] = []
    for side, port in enumerate(ports):
        base = side in sides and isinstance(port.flow[0].source, BaseTable)
        found.append(port.flow[0].where if base else None)
    return tuple(found)


def merges(sightings: Mapping[str, Sighting]) -> dict[str, Merge]:
    """Return which shapes become one join, where the estimate says so."""
    found: dict[str, Merge] = {}
    for shape, sighting in sightings.items():
        variants = list(sighting.stages.values())
        if len(variants) < 2:
            continue
        wheres = tuple(
            None if any(w is None for w in side) else weakest([w for w in side if w is not None])
            for side in zip(*variants, strict=True)
        )
        if _share(wheres) <= sum(_share(variant) for variant in variants):
            found[shape] = Merge(wheres=wheres)
    return found


def _share(wheres: tuple[Where | None, ...]) -> float:
    """Estimate the rows a join keeps, as a share of its tables; a side that is a stage counts whole."""
    return sum(selectivity(_and(where)) if where is not None else 1.0 for where in wheres)


def weakest(variants: list[Where]) -> Where:
    """Return a selection that every variant implies: the shared conditions, and the OR of the rests if short."""
    shared = [c for c in variants[0] if all(c in variant for variant in variants[1:])]
    rests = {tuple(c for c in variant if c not in shared) for variant in variants}
    if () in rests:
        return tuple(shared)
    hull = _hull(rests)
    if all(len(rest) == 1 for rest in rests) and len(hull) == 1:
        return tuple(sorted([*shared, *hull], key=repr))
    if len(rests) > VARIANTS_MAX:
        return tuple(sorted([*shared, *hull], key=repr))
    branches = [_and(rest) for rest in sorted(rests, key=repr)]
    return tuple(sorted([*shared, Call("or", tuple(b for b in branches if b is not None))], key=repr))


def _hull(rests: set[Where]) -> list[Expression]:
    """Return the widest bounds: of `x < 1`, `x < 2`, ... the last; where every variant has one."""
    widest: dict[tuple[Expression, bool], list[tuple[Any, str]]] = {}
    for rest in rests:
        for (expression, upper), bound in _bounds(rest).items():
            widest.setdefault((expression, upper), []).append(bound)
    found: list[Expression] = []
    for (expression, upper), bounds in widest.items():
        if len(bounds) < len(rests) or len({type(value) for value, _ in bounds}) != 1:
            continue
        value = (max if upper else min)(value for value, _ in bounds)
        closed = any(operator.endswith("=") for at, operator in bounds if at == value)
        found.append(Call(("<" if upper else ">") + "=" * closed, (expression, Literal(value))))
    return found


def _bounds(rest: Where) -> dict[tuple[Expression, bool], tuple[Any, str]]:
    """Return a bound of one selection by expression and side (`=` bounds both); any of several is implied."""
    found: dict[tuple[Expression, bool], tuple[Any, str]] = {}
    for condition in rest:
        if not isinstance(condition, Call) or condition.function not in ("<", "<=", ">", ">=", "="):
            continue
        expression, bound = condition.arguments
        if not isinstance(bound, Literal) or bound.value is None or isinstance(expression, Literal):
            continue
        sides = (True, False) if condition.function == "=" else (condition.function.startswith("<"),)
        for upper in sides:
            found[(expression, upper)] = (bound.value, condition.function)
    return found


def later(draft: Draft, ports: tuple[Port, ...], sides: tuple[int, ...]) -> Where:
    """Return what a view still selects from the output of a merged join."""
    found: list[Expression] = []
    for side in sides:
        kept, branch = draft.ports[side], ports[side].flow[0]
        done = kept.flow[0].where
        found += [_over_output(c, kept) for c in branch.where if c not in done]
    return tuple(sorted(set(found), key=repr))


def _over_output(expression: Expression, port: Port) -> Expression:
    if isinstance(expression, Column):
        return Column(port.demand((expression,)))
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_over_output(a, port) for a in expression.arguments))
    return expression


def with_where(port: Port, where: Where) -> Port:
    """Return a port of one branch that selects something else."""
    (branch,) = port.flow
    flow = (Branch(source=branch.source, where=where, resolve=branch.resolve),)
    return Port(flow=flow, prefix=port.prefix, columns=dict(port.columns))


def _and(where: Where) -> Expression | None:
    if not where:
        return None
    return where[0] if len(where) == 1 else Call("and", where)


def _digest(parts: list[Any]) -> str:
    text = repr(parts).encode()
    return f"{zlib.crc32(text):08x}{zlib.adler32(text):08x}{len(text):x}"
