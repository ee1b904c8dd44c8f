"""The plain meaning of every view class, on examples small enough to check by eye."""

import math
from decimal import Decimal

import pytest

from cvs.errors import AssumptionError
from cvs.model.aggregates import aggregate
from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.recompute import bag, recompute, recompute_all
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
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
)

R, S = Scan(table="r", alias="r"), Scan(table="s", alias="s")


def names(*columns: str) -> tuple[Named, ...]:
    """Name columns by their last part."""
    return tuple(Named(name=c.split(".")[-1], expression=Column(c)) for c in columns)


def project(source: Relation, *columns: str) -> Project:
    """Project to plain columns."""
    return Project(source=source, columns=names(*columns))


def join(kind: str, residual: Expression | None = None) -> Join:
    """Join r and s on y."""
    on = ((Column("r.y"), Column("s.y")),)
    return Join(kind=kind, left=R, right=S, on=on, residual=residual)  # type: ignore[arg-type]


BASE = {
    "r": [{"k": 1, "y": 1}, {"k": 2, "y": 2}, {"k": 3, "y": None}],
    "s": [{"y": 1, "z": "a"}, {"y": 1, "z": "b"}, {"y": 9, "z": "c"}, {"z": "d"}],
}


def test_the_sum_example_of_the_paper() -> None:
    """001, example 1: after both moves each group sums to 500."""
    base = {
        "r": [
            {"k": "k1", "x": "x1", "y": 100},
            {"k": "k2", "x": "x2", "y": 200},
            {"k": "k3", "x": "x2", "y": 300},
            {"k": "k4", "x": "x1", "y": 400},
        ]
    }
    sums = Aggregate(
        source=R,
        group=names("r.x"),
        aggregates=(AggregateColumn(name="s", function=AggregateFunction.SUM, argument=Column("r.y")),),
    )
    view = ViewDefinition(name="v", relation=sums, key=("x",))
    assert recompute(view, base) == {("x1",): {"x": "x1", "s": 500}, ("x2",): {"x": "x2", "s": 500}}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", [(1, "a"), (1, "b")]),
        ("left", [(1, "a"), (1, "b"), (2, None), (3, None)]),
        ("right", [(1, "a"), (1, "b"), (None, "c"), (None, "d")]),
        ("full", [(1, "a"), (1, "b"), (2, None), (3, None), (None, "c"), (None, "d")]),
    ],
)
def test_joins_that_pair(kind: str, expected: list[tuple[object, object]]) -> None:
    """Null joins nothing, yet shows on the outer side."""
    rows = bag(project(join(kind), "r.k", "s.z"), BASE)
    assert [tuple(row.values()) for row in rows] == expected


@pytest.mark.parametrize(
    ("kind", "right", "expected"),
    [
        ("semi", BASE["s"], [1]),
        ("anti", BASE["s"], [2, 3]),
        ("null-aware-anti", BASE["s"], []),
        ("null-aware-anti", [{"y": 1}], [2]),
        ("null-aware-anti", [], [1, 2, 3]),
    ],
)
def test_joins_that_filter(kind: str, right: list[dict[str, object]], expected: list[int]) -> None:
    """NOT IN over a null keeps nothing; over nothing it keeps everything."""
    rows = bag(join(kind), {**BASE, "s": right})
    assert [row["r.k"] for row in rows] == expected


def test_a_residual_can_empty_a_not_in() -> None:
    """A null that the residual refuses does not count."""
    known = Call("is_not_null", (Column("s.y"),))
    assert [row["r.k"] for row in bag(join("null-aware-anti", known), BASE)] == [2]


def test_an_outer_join_with_nothing_still_has_its_columns() -> None:
    """The schema gives columns to a table without rows."""
    table = BaseTable(name="s", columns=(("y", "int"), ("z", "text")), partition_key=("y",))
    rows = bag(join("left"), {"r": BASE["r"]}, {"s": table})
    assert rows[0] == {"r.k": 1, "r.y": 1, "s.y": None, "s.z": None}


@pytest.mark.parametrize(
    ("kind", "keep_all", "expected"),
    [
        ("union", True, [1, 1, 2, None, 1, None, None]),
        ("union", False, [1, 2, None]),
        ("intersect", True, [1, None]),
        ("intersect", False, [1, None]),
        ("except", True, [1, 2]),
        ("except", False, [2]),
    ],
)
def test_set_operations(kind: str, keep_all: bool, expected: list[object]) -> None:
    """Nulls are equal to each other here; bags count, sets do not."""
    base = {
        "r": [{"y": 1}, {"y": 1}, {"y": 2}, {"y": None}],
        "s": [{"y": 1}, {"y": None}, {"y": None}],
    }
    operation = SetOperation(
        kind=kind,  # type: ignore[arg-type]
        all=keep_all,
        left=project(R, "r.y"),
        right=Project(source=S, columns=(Named(name="other", expression=Column("s.y")),)),
    )
    assert [row["y"] for row in bag(operation, base)] == expected


def one_group(function: AggregateFunction, values: list[object], *, distinct: bool = False) -> object:
    """Aggregate a column without groups."""
    column = AggregateColumn(name="a", function=function, argument=Column("r.v"), distinct=distinct)
    (row,) = bag(Aggregate(source=R, group=(), aggregates=(column,)), {"r": [{"v": v} for v in values]})
    return row["a"]


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("COUNT", [1, None, 2], 2),
        ("COUNT", [], 0),
        ("SUM", [], None),
        ("SUM", [None], None),
        ("SUM", [1e308, 1e308, -1e308], 1e308),
        ("SUM", [0.1] * 10, 1.0),
        ("SUM", [math.inf, -math.inf], math.nan),
        ("SUM", [math.inf, 1.0], math.inf),
        ("SUM", [Decimal("0.10"), Decimal("-0.35")], Decimal("-0.25")),
        ("AVG", [1, 2], 1.5),
        ("AVG", [Decimal(1), Decimal(1), Decimal(0)], Decimal("0." + "6" * 37 + "7")),
        ("MIN", [math.nan, 2.0, None], 2.0),
        ("MAX", [math.nan, 2.0], math.nan),
        ("VARIANCE", [1], None),
        ("VARIANCE", [1, 2, 3, 4], 5 / 3),
        ("STDDEV", [2, 4], math.sqrt(2)),
    ],
)
def test_aggregates(function: str, values: list[object], expected: object) -> None:
    """Nulls do not count, sums are exact, NaN is the greatest."""
    assert repr(one_group(AggregateFunction[function], values)) == repr(expected)


def test_distinct_aggregates_see_each_value_once() -> None:
    """0.0 and -0.0 are one value."""
    assert one_group(AggregateFunction.COUNT, [0.0, -0.0, math.nan, math.nan, None], distinct=True) == 2
    assert one_group(AggregateFunction.SUM, [5, 5, 1], distinct=True) == 6


def test_groups_show_one_form_of_a_number() -> None:
    """Decimals and zeros are canonical in group keys (PROTOCOL H25)."""
    base = {"r": [{"v": Decimal("1.00")}, {"v": Decimal(1)}, {"v": Decimal("100")}]}
    rows = bag(
        Aggregate(
            source=R,
            group=names("r.v"),
            aggregates=(AggregateColumn(name="n", function=AggregateFunction.COUNT),),
        ),
        base,
    )
    assert [(str(row["v"]), row["n"]) for row in rows] == [("1", 2), ("100", 1)]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [(False, True, [4, 1, 3]), (False, False, [1, 3, 2]), (True, True, [4, 2, 1]), (True, False, [2, 1, 3])],
)
def test_top_k(descending: bool, nulls_first: bool, expected: list[int]) -> None:
    """Ties are broken by all columns, upwards; nulls stand where the order says."""
    base = {"r": [{"k": 3, "y": 1}, {"k": 1, "y": 1}, {"k": 2, "y": 5}, {"k": 4, "y": None}]}
    order = (OrderBy(expression=Column("r.y"), descending=descending, nulls_first=nulls_first),)
    rows = bag(TopK(source=R, order=order, limit=3), base)
    assert [row["r.k"] for row in rows] == expected


def test_selection_and_distinct_and_views_on_views() -> None:
    """A view can scan one before it."""
    big = Select(source=R, predicate=Call(">", (Column("r.y"), Literal(1))))
    first = ViewDefinition(name="big", relation=project(big, "r.k", "r.y"), key=("k",))
    second = ViewDefinition(
        name="ys", relation=Distinct(source=project(Scan(table="big", alias="b"), "b.y")), key=("y",)
    )
    found = recompute_all([first, second], {"r": [{"k": 1, "y": 2}, {"k": 2, "y": 2}, {"k": 3, "y": None}]})
    assert found["ys"] == {(2,): {"y": 2}}


def test_a_key_that_does_not_tell_rows_apart_is_refused() -> None:
    """Two rows with one key cannot be two view records."""
    view = ViewDefinition(name="v", relation=project(R, "r.y"), key=("y",))
    with pytest.raises(AssumptionError, match="two rows"):
        recompute(view, {"r": [{"y": 1}, {"y": 1}]})


@pytest.mark.parametrize(
    ("function", "values", "result"),
    [
        (AggregateFunction.SUM, (1.7e308, 1.7e308), math.inf),
        (AggregateFunction.SUM, (-1.7e308, -1.7e308), -math.inf),
        (AggregateFunction.AVG, (1.7e308, 1.7e308), 1.7e308),
        (AggregateFunction.AVG, (-(10**400), 0), -math.inf),
        (AggregateFunction.VARIANCE, (1e300, -1e300), math.inf),
        (AggregateFunction.STDDEV, (1e300, -1e300), math.inf),
    ],
)
def test_beyond_the_largest_double_lies_infinity(
    function: AggregateFunction, values: tuple[float, ...], result: float
) -> None:
    assert aggregate(function, values) == result
