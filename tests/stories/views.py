"""The views of the stories, as definitions; the judge knows them only through recompute."""

from cvs.model.expressions import Call, Column, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    ViewDefinition,
)

R = Scan(table="r", alias="r")
S = Scan(table="s", alias="s")


def _columns(*names: str) -> tuple[Named, ...]:
    return tuple(Named(name=name.split(".")[-1], expression=Column(name)) for name in names)


def _grouped(name: str, function: AggregateFunction, argument: str | None = "r.y") -> ViewDefinition:
    column = AggregateColumn(
        name=function.value, function=function, argument=None if argument is None else Column(argument)
    )
    relation = Aggregate(source=R, group=_columns("r.x"), aggregates=(column,))
    return ViewDefinition(name=name, relation=relation, key=("x",))


def _values(source: Scan) -> Relation:
    return Project(source=source, columns=(Named(name="x", expression=Column(f"{source.alias}.x")),))


VIEWS = {
    "sum": _grouped("v", AggregateFunction.SUM),
    "count": _grouped("v", AggregateFunction.COUNT, None),
    "min": _grouped("v", AggregateFunction.MIN),
    "rows": ViewDefinition(
        name="v", relation=Project(source=R, columns=_columns("r.k", "r.x", "r.y")), key=("k",)
    ),
    "small": ViewDefinition(
        name="v",
        relation=Project(
            source=Select(source=R, predicate=Call("<", (Column("r.y"), Literal(25)))),
            columns=_columns("r.k", "r.y"),
        ),
        key=("k",),
    ),
    "join": ViewDefinition(
        name="v",
        relation=Project(
            source=Join(kind="inner", left=R, right=S, on=((Column("r.y"), Column("s.k")),)),
            columns=_columns("r.k", "r.y", "s.z"),
        ),
        key=("k",),
    ),
    "both": ViewDefinition(
        name="v",
        relation=SetOperation(kind="intersect", all=False, left=_values(R), right=_values(S)),
        key=("x",),
    ),
    "planned": ViewDefinition(  # as the planner writes a sum by group
        name="v",
        relation=Select(
            source=Project(
                source=Aggregate(
                    source=R,
                    group=(Named(name="group", expression=Call("cast_bigint", (Column("r.x"),))),),
                    aggregates=(
                        AggregateColumn(
                            name="folded", function=AggregateFunction.SUM, argument=Column("r.y")
                        ),
                    ),
                ),
                columns=(
                    Named(name="x", expression=Column("group")),
                    Named(name="sum", expression=Call("cast_bigint", (Column("folded"),))),
                ),
            ),
            predicate=Call("is_not_null", (Column("x"),)),
        ),
        key=("x",),
    ),
    "total": ViewDefinition(
        name="v",
        relation=Aggregate(
            source=R,
            group=(),
            aggregates=(AggregateColumn(name="sum", function=AggregateFunction.SUM, argument=Column("r.y")),),
        ),
        key=(),
    ),
}
