"""Horizontal merging: stages that route by the same values share one table, one read, one test-and-set.

A stage may join a zone in two ways (paper 004, algorithm 1, and "views with the same key become one table"):

- *below*: it reads a stage of the zone, and what chooses its bucket is, through the edge, what chose the
  bucket there. Then that input is already in the bucket. An aggregate with no other input may group by more
  columns than that: all rows of a group still are in one bucket.
  A join with a table that is in every bucket needs no key at all: its left rows stay where they are.
- *beside*: it reads the same source by the same key expressions as the zone's first stage. Then an epoch
  touches the same buckets for both, and one test-and-set serves them.

A zone runs when all its inputs are there, so a merge must not make two zones wait for each other. Any other merge pays:
it saves a test-and-set, and what is read and computed in a zone is so once, however deep its stages are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cvs.model.expressions import Column, Expression
from cvs.model.stages import AggregateStage, Edge, JoinStage, Stage, inputs

Parts = list[tuple[str, ...]]
"""For each part of a zone's key, the columns of a row that hold its value."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Group:
    stages: list[Stage]
    needs: "set[int]" = field(default_factory=set)  # places of the groups it reads
    held: dict[str, Parts] = field(default_factory=dict)  # stage -> which output columns hold the key
    routes: set[tuple[str, tuple[Expression, ...]]] = field(default_factory=set)


def merged_zones(stages: list[Stage]) -> list[list[Stage]]:
    """Return the stages in groups that share a zone, in an order in which inputs come first."""
    groups: list[_Group] = []
    home: dict[str, int] = {}
    for stage in stages:
        chosen = next(_homes(stage, groups, home), len(groups))
        if chosen == len(groups):
            groups.append(_Group(stages=[], routes=set(_routes(stage))))
        group = groups[chosen]
        group.held[stage.name] = _held(stage, group, first=not group.stages)
        group.stages.append(stage)
        group.needs |= {home[e.source] for e in inputs(stage) if home.get(e.source, chosen) != chosen}
        home[stage.name] = chosen
    return [groups[index].stages for index in _ordered(groups)]


def _homes(stage: Stage, groups: list[_Group], home: dict[str, int]) -> Iterator[int]:
    """Yield the places of the groups a stage may join, those it reads first."""
    sources = [home[edge.source] for edge in inputs(stage) if edge.source in home]
    for index in dict.fromkeys(sources):
        if _below(stage, groups[index]) and not _circular(stage, index, groups, home):
            yield index
    routes = set(_routes(stage))
    for index, group in enumerate(groups):
        # Not beside what it reads: rows from inside stay in their bucket, whatever key they have for this stage.
        if index not in sources and routes & group.routes and not _circular(stage, index, groups, home):
            yield index


def _circular(stage: Stage, index: int, groups: list[_Group], home: dict[str, int]) -> bool:
    """Say whether a group would have to wait for itself."""
    waiting = [home[e.source] for e in inputs(stage) if home.get(e.source, index) != index]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current == index:
            return True
        if current not in seen:
            seen.add(current)
            waiting += groups[current].needs
    return False


def _below(stage: Stage, group: _Group) -> bool:
    if isinstance(stage, JoinStage):
        if stage.replicated:
            return _carried(stage, group)
        if not stage.left_key:
            return False
        sides = ((stage.left, stage.left_key), (stage.right, stage.right_key))
        return all(_exact(edge, key, group) for edges, key in sides for edge in edges)
    if not isinstance(stage, AggregateStage) or not stage.group:
        return False
    if all(edge.source in group.held for edge in stage.inputs):
        return all(_covers(edge, stage.group, group.held[edge.source]) for edge in stage.inputs)
    return all(_exact(edge, stage.group, group) for edge in stage.inputs)


def _carried(stage: JoinStage, group: _Group) -> bool:
    """Say whether a join with a table that is in every bucket may stand where its left rows are."""
    inside = {it.name for it in group.stages}
    return all(e.source in inside for e in stage.left) and not any(e.source in inside for e in stage.right)


def _exact(edge: Edge, key: tuple[str, ...], group: _Group) -> bool:
    """Say whether rows of an edge from inside are in the bucket their key chooses; from outside they are routed."""
    parts = group.held.get(edge.source)
    if parts is None:
        return edge.source not in {stage.name for stage in group.stages}
    read = _read(edge)
    return (
        bool(parts)
        and len(parts) == len(key)
        and all(read.get(name) in names for name, names in zip(key, parts, strict=True))
    )


def _covers(edge: Edge, columns: tuple[str, ...], parts: Parts) -> bool:
    read = {_read(edge).get(name) for name in columns}
    return bool(parts) and all(read & set(names) for names in parts)


def _held(stage: Stage, group: _Group, *, first: bool) -> Parts:
    """Return which output columns of a stage hold the key of its zone; nothing if they are not all there."""
    if isinstance(stage, JoinStage):
        if stage.replicated and not first and stage.left[0].source in group.held:
            read, parts = _read(stage.left[0]), group.held[stage.left[0].source]
            kept = [name for name, _ in stage.output]
            return [tuple(name for name in kept if read.get(name) in names) for names in parts]
        if stage.replicated or not stage.left_key:
            return []
        if stage.kind == "inner":
            return [tuple(pair) for pair in zip(stage.left_key, stage.right_key, strict=True)]
        return [(name,) for name in stage.left_key] if stage.kind in ("left", "semi", "anti") else []
    if not isinstance(stage, AggregateStage):
        return []
    inner = [edge for edge in stage.inputs if edge.source in group.held]
    if first or not inner:
        return [(name,) for name in stage.group]
    edge = inner[0]
    read, parts = _read(edge), group.held[edge.source]
    return [tuple(name for name in stage.group if read.get(name) in names) for names in parts]


def _read(edge: Edge) -> dict[str, str]:
    """Return the plain columns of an edge: entering name -> name at the source."""
    return {c.name: c.expression.name for c in edge.columns if isinstance(c.expression, Column)}


def _routes(stage: Stage) -> list[tuple[str, tuple[Expression, ...]]]:
    """Return by which expressions over which sources a stage's rows are routed."""
    sides: tuple[tuple[tuple[Edge, ...], tuple[str, ...]], ...]
    if isinstance(stage, JoinStage):
        if stage.replicated or not stage.left_key:
            return []
        sides = ((stage.left, stage.left_key), (stage.right, stage.right_key))
    elif isinstance(stage, AggregateStage):
        sides = ((stage.inputs, stage.group),)
    else:
        return []
    found: list[tuple[str, tuple[Expression, ...]]] = []
    for edges, key in sides:
        for edge in edges:
            expressions = {column.name: column.expression for column in edge.columns}
            found.append((edge.source, tuple(expressions[name] for name in key)))
    return found


def _ordered(groups: list[_Group]) -> list[int]:
    """Return the groups so that each comes after those it reads, otherwise as they were found."""
    done: list[int] = []
    placed: set[int] = set()

    def place(index: int) -> None:
        if index not in placed:
            placed.add(index)
            for needed in sorted(groups[index].needs):
                place(needed)
            done.append(index)

    for index in range(len(groups)):
        place(index)
    return done
