"""A plan executed plainly, stage by stage and change by change, with the model's own meaning of each stage.

It shares nothing with the stage programs of the pipeline: per key it evaluates the stage's relation over the
rows before and after, and passes the difference on. So it shows whether the *plan* is right: edges, keys,
routing, order. A key is also routed to a bucket, and only rows of that bucket are ever looked at.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from cvs.model.expressions import Column, compile_expression, compile_predicate
from cvs.model.identity import key_identity
from cvs.model.recompute import bag
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    Edge,
    JoinStage,
    Plan,
    SetStage,
    Stage,
    TopKStage,
)
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    SetOperation,
    TopK,
)

Row = tuple
Changes = Counter


def relation_of(stage: Stage) -> Relation:
    """What a stage means, as a relation over the tables `left` and `right` (or `left` alone)."""
    left, right = Scan(table="left", alias="left"), Scan(table="right", alias="right")

    def plain(scan: Scan, edges: tuple[Edge, ...]) -> Relation:
        names = [c.name for c in edges[0].columns]
        columns = tuple(Named(name=n, expression=Column(f"{scan.alias}.{n}")) for n in names)
        return Project(source=scan, columns=columns)

    match stage:
        case AggregateStage():
            group = tuple(Named(name=g, expression=Column(g)) for g in stage.group)
            return Aggregate(source=plain(left, stage.inputs), group=group, aggregates=stage.aggregates)
        case JoinStage():
            on = tuple((Column(a), Column(b)) for a, b in zip(stage.left_key, stage.right_key, strict=True))
            return Join(
                kind=stage.kind,
                left=plain(left, stage.left),
                right=plain(right, stage.right),
                on=on,
                residual=stage.residual,
            )
        case DistinctStage():
            return Distinct(source=plain(left, stage.inputs))
        case SetStage():
            sides = plain(left, stage.left), plain(right, stage.right)
            return SetOperation(kind=stage.kind, all=stage.all, left=sides[0], right=sides[1])
        case TopKStage():
            return TopK(
                source=plain(left, stage.inputs), order=stage.order, limit=stage.limit, offset=stage.offset
            )


class StageRun:
    """One stage with its state: rows of each port by routing key."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.relation = relation_of(stage)
        two = isinstance(stage, JoinStage | SetStage)
        self.ports = [stage.left, stage.right] if two else [stage.inputs]
        self.names = [tuple(c.name for c in port[0].columns) for port in self.ports]
        self.tables = {
            side: BaseTable(name=side, columns=tuple((n, "blob") for n in names), partition_key=())
            for side, names in zip(("left", "right"), self.names, strict=False)
        }
        keys = [stage.key, stage.key]
        if isinstance(stage, JoinStage):
            keys = [stage.left_key, stage.right_key]
        self.replicated = isinstance(stage, JoinStage) and stage.replicated
        self.keys = [[names.index(k) for k in key] for key, names in zip(keys, self.names, strict=False)]
        self.rows: list[dict] = [defaultdict(Counter) for _ in self.ports]
        self.output = tuple(name for name, _ in stage.output)
        self.started = False

    def route(self, port: int, row: Row) -> tuple:
        return () if self.replicated else key_identity(row[i] for i in self.keys[port])

    def apply(self, incoming: list[Changes]) -> Changes:
        touched: dict = {}
        for port, changes in enumerate(incoming):
            for row, count in changes.items():
                if count:
                    touched.setdefault(self.route(port, row), []).append((port, row, count))
        always = isinstance(self.stage, AggregateStage) and not self.stage.group
        if always and not self.started:
            touched.setdefault((), [])
        result: Changes = Counter()
        for key, updates in touched.items():
            if not (always and not self.started):
                result.subtract(self.evaluate(key))
            for port, row, count in updates:
                self.rows[port][key][row] += count
                assert self.rows[port][key][row] >= 0, f"{self.stage.name}: a row went that never came: {row}"
                if not self.rows[port][key][row]:
                    del self.rows[port][key][row]
            result.update(self.evaluate(key))
        self.started = True
        return Counter({row: count for row, count in result.items() if count})

    def evaluate(self, key: tuple) -> Changes:
        base = {
            side: [dict(zip(names, row, strict=True)) for row in self.rows[i][key].elements()]
            for i, (side, names) in enumerate(zip(("left", "right"), self.names, strict=False))
        }
        if isinstance(self.stage, AggregateStage) and self.stage.group and not base["left"]:
            return Counter()
        rows = bag(self.relation, base, self.tables)
        return Counter(tuple(row[name] for name in self.output) for row in rows)


class PlanRun:
    """All stages of a plan, and the published tables they keep."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stages = [StageRun(stage) for stage in plan.stages]
        self.names = {b.name: tuple(n for n, _ in b.columns) for b in plan.bases}
        self.names |= {run.stage.name: run.output for run in self.stages}
        self.published: dict[str, dict] = {p.view: {} for p in plan.publications}
        self.edges: dict[int, tuple] = {}

    def epoch(self, base: Mapping[str, Changes]) -> None:
        """Apply the combined changes of one epoch: per base table, rows (as tuples of columns) and counts."""
        changes: dict[str, Changes] = {name: Counter(base.get(name, {})) for name in self.names}
        for run in self.stages:
            incoming = [self.through(port, changes) for port in run.ports]
            changes[run.stage.name] = run.apply(incoming)
        for publication in self.plan.publications:
            self.publish(publication, self.through(publication.inputs, changes))

    def through(self, edges: tuple[Edge, ...], changes: Mapping[str, Changes]) -> Changes:
        result: Changes = Counter()
        for edge in edges:
            if id(edge) not in self.edges:
                where = compile_predicate(edge.where) if edge.where is not None else None
                self.edges[id(edge)] = (where, [compile_expression(c.expression) for c in edge.columns])
            where, columns = self.edges[id(edge)]
            names = self.names[edge.source]
            for row, count in changes[edge.source].items():
                named = dict(zip(names, row, strict=True))
                if where is None or where(named):
                    result[tuple(column(named) for column in columns)] += count
        return Counter({row: count for row, count in result.items() if count})

    def publish(self, publication, changes: Changes) -> None:
        names = [name for name, _ in publication.columns]
        table = self.published[publication.view]
        for wanted in (-1, 1):
            for row, count in changes.items():
                if count * wanted <= 0:
                    continue
                assert abs(count) == 1, f"{publication.view}: key not unique: {row}"
                named = dict(zip(names, row, strict=True))
                key = key_identity(named[c] for c in publication.key)
                if wanted < 0:
                    assert key in table, f"{publication.view}: {key} went but was not there"
                    del table[key]
                else:
                    assert key not in table, f"{publication.view}: two rows with key {key}"
                    table[key] = named
