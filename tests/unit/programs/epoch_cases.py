"""Views of every class with the plans that keep them."""

from decimal import Decimal
from typing import Any

from cvs.model.expressions import Call, Column, Literal
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    Edge,
    JoinStage,
    Plan,
    Publication,
    SetStage,
    TopKStage,
    Zone,
)
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Distinct,
    Join,
    Named,
    OrderBy,
    Project,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
)
from tests.unit.programs.epoch_world import Case

ORDERS = BaseTable(
    name="orders",
    columns=(("id", "int"), ("product", "int"), ("city", "text"), ("total", "int"), ("weight", "double")),
    partition_key=("id",),
)
PRODUCTS = BaseTable(
    name="products", columns=(("pid", "int"), ("name", "text"), ("price", "decimal")), partition_key=("pid",)
)
KEYS: dict[str, tuple[Any, ...]] = {"orders": tuple(range(8)), "products": (1, 2, 3)}
VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "orders": {
        "product": (1, 2, 3, None),
        "city": ("Graz", "Linz", None),
        "total": (0, 5, -5, 7, None),
        "weight": (0.1, 0.2, 0.30000000000000004, float("nan"), float("inf"), -0.0, None),
    },
    "products": {"name": ("a", "b"), "price": (Decimal("1.00"), Decimal("1.0"), Decimal("2.5"), None)},
}
BUCKETS = 2


def plain(*names: str) -> tuple[Named, ...]:
    return tuple(Named(name=name, expression=Column(name)) for name in names)


def edge(source: str, *names: str, where: Any = None) -> Edge:
    return Edge(source=source, columns=plain(*names), where=where)


def renamed(alias: str, *names: str) -> tuple[Named, ...]:
    return tuple(Named(name=name, expression=Column(f"{alias}.{name}")) for name in names)


def case(name: str, relation: Any, plan_of: Any, columns: Any, key: tuple[str, ...]) -> Case:
    stages, inputs, bases = plan_of
    publication = Publication(
        view=name,
        table=f"shop.{name}",
        inputs=inputs,
        columns=columns,
        partition_key=key[:1],
        clustering=tuple((k, False) for k in key[1:]),
    )
    zones = tuple(Zone(name=f"z{i}", stages=group, buckets=BUCKETS) for i, group in enumerate(stages))
    plan = Plan(bases=bases, zones=zones, publications=(publication,))
    return Case(
        name=name,
        view=ViewDefinition(name=name, relation=relation, key=key),
        plan=plan,
        values=VALUES,
        keys=KEYS,
    )


F = AggregateFunction
AGGREGATES = (
    ("orders", F.COUNT, None, False, "bigint"),
    ("sum_total", F.SUM, "total", False, "bigint"),
    ("avg_total", F.AVG, "total", False, "double"),
    ("min_total", F.MIN, "total", False, "int"),
    ("max_weight", F.MAX, "weight", False, "double"),
    ("min_weight", F.MIN, "weight", False, "double"),
    ("sum_weight", F.SUM, "weight", False, "double"),
    ("var_total", F.VARIANCE, "total", False, "double"),
    ("different", F.COUNT, "total", True, "bigint"),
    ("sum_different", F.SUM, "total", True, "bigint"),
    ("cities", F.COUNT, "city", True, "bigint"),
)


def aggregates(prefix: str) -> tuple[AggregateColumn, ...]:
    return tuple(
        AggregateColumn(name=n, function=f, argument=None if a is None else Column(prefix + a), distinct=d)
        for n, f, a, d, _ in AGGREGATES
    )


def grouped(*group: str) -> Case:
    types = {"product": "int", "city": "text"}
    output = (*((g, types[g]) for g in group), *((n, t) for n, _, _, _, t in AGGREGATES))
    stage = AggregateStage(
        name="a",
        inputs=(edge("orders", "product", "city", "total", "weight"),),
        group=group,
        aggregates=aggregates(""),
        output=output,
    )
    relation = Aggregate(
        source=Scan(table="orders", alias="o"), group=renamed("o", *group), aggregates=aggregates("o.")
    )
    key = group or ("orders",)
    return case(
        "by_" + "_".join(group),
        relation,
        (((stage,),), (edge("a", *(n for n, _ in output)),), (ORDERS,)),
        output,
        key,
    )


def joined(kind: str) -> Case:
    output = (
        ("id", "int"),
        ("product", "int"),
        ("total", "int"),
        ("pid", "int"),
        ("name", "text"),
        ("price", "decimal"),
    )
    if kind in ("semi", "anti"):
        output = output[:3]
    stage = JoinStage(
        name="j",
        kind=kind,  # type: ignore[arg-type]
        left=(edge("orders", "id", "product", "total"),),
        right=(edge("products", "pid", "name", "price"),),
        left_key=("product",),
        right_key=("pid",),
        output=output,
    )
    names = [n for n, _ in output]
    origin = {
        **dict.fromkeys(("id", "product", "total"), "o"),
        **dict.fromkeys(("pid", "name", "price"), "p"),
    }
    relation = Project(
        source=Join(
            kind=kind,  # type: ignore[arg-type]
            left=Scan(table="orders", alias="o"),
            right=Scan(table="products", alias="p"),
            on=((Column("o.product"), Column("p.pid")),),
        ),
        columns=tuple(Named(name=n, expression=Column(f"{origin[n]}.{n}")) for n in names),
    )
    key = ("pid",) if kind == "right_only" else ("id",)
    if kind in ("right", "full"):
        # one row a pair or lone row: a key over both sides, nulls replaced
        coalesced = [
            Named(
                name=n,
                expression=_no_null(Column(f"{origin[n]}.{n}"))
                if n in ("id", "pid")
                else Column(f"{origin[n]}.{n}"),
            )
            for n in names
        ]
        relation = Project(source=relation.source, columns=tuple(coalesced))
        published = Edge(
            source="j",
            columns=tuple(
                Named(name=n, expression=_no_null(Column(n)) if n in ("id", "pid") else Column(n))
                for n in names
            ),
        )
        return case(
            f"{kind}_join", relation, (((stage,),), (published,), (ORDERS, PRODUCTS)), output, ("id", "pid")
        )
    return case(
        f"{kind}_join", relation, (((stage,),), (edge("j", *names),), (ORDERS, PRODUCTS)), output, key
    )


def _no_null(expression: Any) -> Call:
    return Call("coalesce", (expression, Literal(-1)))


def selected() -> Case:
    columns = (("id", "int"), ("double_total", "int"))
    computed = (
        Named(name="id", expression=Column("id")),
        Named(name="double_total", expression=Call("*", (Column("total"), Literal(2)))),
    )
    relation = Project(
        source=Select(
            source=Scan(table="orders", alias="o"), predicate=Call(">", (Column("o.total"), Literal(0)))
        ),
        columns=(
            Named(name="id", expression=Column("o.id")),
            Named(name="double_total", expression=Call("*", (Column("o.total"), Literal(2)))),
        ),
    )
    edges = (Edge(source="orders", columns=computed, where=Call(">", (Column("total"), Literal(0)))),)
    return case("selected", relation, ((), edges, (ORDERS,)), columns, ("id",))


def distinct() -> Case:
    columns = (("product", "int"), ("city", "text"))
    stage = DistinctStage(name="d", inputs=(edge("orders", "product", "city"),), output=columns)
    relation = Distinct(
        source=Project(source=Scan(table="orders", alias="o"), columns=renamed("o", "product", "city"))
    )
    return case(
        "places",
        relation,
        (((stage,),), (edge("d", "product", "city"),), (ORDERS,)),
        columns,
        ("product", "city"),
    )


def set_operation(kind: str, every: bool) -> Case:
    columns = (("product", "int"),)
    stage = SetStage(
        name="s",
        kind=kind,  # type: ignore[arg-type]
        all=every,
        left=(edge("orders", "product"),),
        right=(Edge(source="products", columns=(Named(name="product", expression=Column("pid")),)),),
        output=columns,
    )
    count = AggregateStage(
        name="n",
        inputs=(edge("s", "product"),),
        group=("product",),
        aggregates=(AggregateColumn(name="times", function=F.COUNT),),
        output=(("product", "int"), ("times", "bigint")),
    )
    relation = Aggregate(
        source=SetOperation(
            kind=kind,  # type: ignore[arg-type]
            all=every,
            left=Project(source=Scan(table="orders", alias="o"), columns=renamed("o", "product")),
            right=Project(
                source=Scan(table="products", alias="p"),
                columns=(Named(name="product", expression=Column("p.pid")),),
            ),
        ),
        group=plain("product"),
        aggregates=(AggregateColumn(name="times", function=F.COUNT),),
    )
    # one zone: both stages are keyed by the product, so the count's input never leaves the bucket
    return case(
        f"{kind}_{'all' if every else 'set'}",
        relation,
        (((stage, count),), (edge("n", "product", "times"),), (ORDERS, PRODUCTS)),
        (("product", "int"), ("times", "bigint")),
        ("product",),
    )


def top() -> Case:
    columns = (("id", "int"), ("total", "int"))
    order = (OrderBy(expression=Column("total"), descending=True), OrderBy(expression=Column("id")))
    stage = TopKStage(
        name="t", inputs=(edge("orders", "id", "total"),), order=order, limit=2, offset=1, output=columns
    )
    relation = TopK(
        source=Project(source=Scan(table="orders", alias="o"), columns=renamed("o", "id", "total")),
        order=order,
        limit=2,
        offset=1,
    )
    return case("top", relation, (((stage,),), (edge("t", "id", "total"),), (ORDERS,)), columns, ("id",))


def joined_then_grouped() -> Case:
    join = joined("inner").plan.zones[0].stages[0]
    group = AggregateStage(
        name="g",
        inputs=(edge("j", "name", "total"),),
        group=("name",),
        aggregates=(
            AggregateColumn(name="orders", function=F.COUNT),
            AggregateColumn(name="revenue", function=F.SUM, argument=Column("total")),
        ),
        output=(("name", "text"), ("orders", "bigint"), ("revenue", "bigint")),
    )
    relation = Aggregate(
        source=Join(
            kind="inner",
            left=Scan(table="orders", alias="o"),
            right=Scan(table="products", alias="p"),
            on=((Column("o.product"), Column("p.pid")),),
        ),
        group=renamed("p", "name"),
        aggregates=(
            AggregateColumn(name="orders", function=F.COUNT),
            AggregateColumn(name="revenue", function=F.SUM, argument=Column("o.total")),
        ),
    )
    return case(
        "revenue",
        relation,
        (((join,), (group,)), (edge("g", "name", "orders", "revenue"),), (ORDERS, PRODUCTS)),
        group.output,
        ("name",),
    )


CASES = (
    grouped("city"),
    grouped("product", "city"),
    grouped(),
    *(joined(kind) for kind in ("inner", "left", "right", "full", "semi", "anti")),
    selected(),
    distinct(),
    *(set_operation(kind, every) for kind in ("intersect", "except") for every in (False, True)),
    top(),
    joined_then_grouped(),
)
