"""View classes: what each means (a view definition), what its base rows look like, and its program variants.

Two tables serve all of them: r and s with key k, a group x and a value y; for joins y of r refers to the key
of s. Domains are small on purpose: collisions, empty groups and returning values are where programs fail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cvs.model.expressions import Call, Column, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Distinct,
    Join,
    JoinKind,
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
from cvs.programs.aggregate import Aggregated, AggregateProgram
from cvs.programs.count import PaperCount, PaperSum
from cvs.programs.extremum import ExtremumProgram
from cvs.programs.join import ForeignKeyJoin
from cvs.programs.kept import First, KeptProgram, Kind, NotIn, Pairing, Side
from cvs.programs.machine import COUNTER_BASED, SIGNATURE_BASED, Policy, UpdateProgram
from cvs.programs.rows import RowProgram, column
from cvs.programs.sets import Operation, SetProgram

LETTER = Policy(keep_deleted=False, mark_always=False)
"""The paper's algorithms as printed: a deleted record takes its signature along, no-ops leave no mark."""

COUNTER_LETTER = replace(COUNTER_BASED, keep_deleted=False, mark_always=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to maintain a view class: a program and a policy."""

    name: str
    program: UpdateProgram
    policy: Policy = SIGNATURE_BASED


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewClass:
    """A class of the level table. `record_key`: which columns name a view record, if several rows share one."""

    name: str
    definition: ViewDefinition
    variants: tuple[Variant, ...]
    domains: Mapping[str, Mapping[str, tuple[Any, ...]]]
    constrained: bool = False  # y of r refers to a row of s that always exists
    record_key: tuple[str, ...] | None = None

    @property
    def tables(self) -> dict[str, BaseTable]:
        """Return the base tables, for those that want to know their columns."""
        return {
            name: BaseTable(
                name=name,
                columns=(("k", "int"), *((c, _type_of(values)) for c, values in columns.items())),
                partition_key=("k",),
            )
            for name, columns in self.domains.items()
        }

    @property
    def recorded_definition(self) -> ViewDefinition | None:
        """Return what a history may say of the view: nothing where one of its records is many rows."""
        return self.definition if self.record_key is None else None

    def variant(self, name: str) -> Variant:
        """Return one of its variants."""
        return next(v for v in self.variants if v.name == name)


def _type_of(values: tuple[Any, ...]) -> str:
    """Return the CQL type of a column from what it may hold."""
    return "int" if any(isinstance(value, int) for value in values) else "text"


Domains = Mapping[str, Mapping[str, tuple[Any, ...]]]

PLAIN: Domains = {"r": {"x": ("a", "b"), "y": (0, 1, 2, 5)}}
NULLS: Domains = {"r": {"x": ("a", "b"), "y": (0, 1, 5, None)}}
TWO: Domains = {"r": {"x": ("a", "b")}, "s": {"x": ("a", "b")}}
REFERRING: Domains = {"r": {"y": (1, 2)}, "s": {"z": ("p", "q", "t")}}
MATCHING: Domains = {"r": {"y": (1, 2, None)}, "s": {"y": (1, 2), "z": ("p", "q")}}

R, S = Scan(table="r", alias="r"), Scan(table="s", alias="s")
K, X, Y = Column("r.k"), Column("r.x"), Column("r.y")
GROUP = (("x", column("x")),)


def _named(**columns: Column) -> tuple[Named, ...]:
    return tuple(Named(name=name, expression=expression) for name, expression in columns.items())


def _view(name: str, relation: Relation, *key: str) -> ViewDefinition:
    return ViewDefinition(name=name, relation=relation, key=key)


def _aggregated(*aggregates: tuple[str, AggregateFunction, bool, bool]) -> tuple[Aggregate, AggregateProgram]:
    """Build definition and program of the same aggregates: name, function, of y, distinct."""
    relation = Aggregate(
        source=R,
        group=_named(x=X),
        aggregates=tuple(
            AggregateColumn(name=name, function=function, argument=Y if of_y else None, distinct=distinct)
            for name, function, of_y, distinct in aggregates
        ),
    )
    program = AggregateProgram(
        view="v",
        table="r",
        group=GROUP,
        aggregates=tuple(
            Aggregated(
                name=name, function=function, argument=column("y") if of_y else None, distinct=distinct
            )
            for name, function, of_y, distinct in aggregates
        ),
    )
    return relation, program


def _aggregate_class(
    name: str, *aggregates: tuple[str, AggregateFunction, bool, bool], more: tuple[Variant, ...] = ()
) -> ViewClass:
    relation, program = _aggregated(*aggregates)
    return ViewClass(
        name=name,
        definition=_view(name, relation, "x"),
        variants=(
            Variant(name="signature", program=program),
            Variant(name="counter", program=program, policy=COUNTER_BASED),
            *more,
        ),
        domains=PLAIN if more else NULLS,
    )


def _aggregates() -> tuple[ViewClass, ...]:
    f = AggregateFunction
    count = PaperCount(view="v", table="r", group="x", name="n")
    total = PaperSum(view="v", table="r", group="x", argument="y", name="total")
    having_relation, having_program = _aggregated(("n", f.COUNT, False, False))
    more_than_one = Call(">", (Column("n"), Literal(1)))
    return (
        _aggregate_class(
            "count",
            ("n", f.COUNT, False, False),
            more=(
                Variant(name="letter", program=count, policy=LETTER),
                Variant(name="letter-counter", program=count, policy=COUNTER_LETTER),
            ),
        ),
        _aggregate_class(
            "sum",
            ("total", f.SUM, True, False),
            more=(Variant(name="letter", program=total, policy=LETTER),),
        ),
        _aggregate_class("avg", ("mean", f.AVG, True, False)),
        _extremum_class(),
        _aggregate_class(
            "count-sum-avg-min-max",
            ("n", f.COUNT, False, False),
            ("total", f.SUM, True, False),
            ("mean", f.AVG, True, False),
            ("least", f.MIN, True, False),
            ("most", f.MAX, True, False),
        ),
        _aggregate_class("count-distinct", ("n", f.COUNT, True, True)),
        _aggregate_class("variance", ("spread", f.VARIANCE, True, False)),
        ViewClass(
            name="having",
            definition=_view("having", Select(source=having_relation, predicate=more_than_one), "x"),
            variants=(
                Variant(name="signature", program=replace(having_program, having=lambda row: row["n"] > 1)),
            ),
            domains=PLAIN,
        ),
    )


def _extremum_class() -> ViewClass:
    relation, program = _aggregated(("least", AggregateFunction.MIN, True, False))
    base = ExtremumProgram(view="v", table="r", group="x", argument="y", name="least")
    return ViewClass(
        name="min",
        definition=_view("min", relation, "x"),
        variants=(
            Variant(name="multiplicities", program=program),
            Variant(name="base-reading", program=base),
            Variant(name="always-scan", program=replace(base, always_scan=True)),
            Variant(name="letter", program=replace(base, letter=True), policy=COUNTER_LETTER),
            Variant(
                name="letter-always-scan",
                program=replace(base, letter=True, always_scan=True),
                policy=COUNTER_LETTER,
            ),
        ),
        domains=PLAIN,
    )


def _rows() -> tuple[ViewClass, ...]:
    key, whole = (("k", column("k")),), (("x", column("x")), ("y", column("y")))
    small = Call("<", (Y, Literal(2)))
    selection = RowProgram(
        view="v", table="r", key=key, columns=whole, where=lambda row: row["y"] is not None and row["y"] < 2
    )
    kept = RowProgram(view="v", table="r", key=key, columns=GROUP)
    moved = RowProgram(view="v", table="r", key=(*GROUP, *key), columns=())
    lost = AggregateProgram(view="v", table="r", group=whole)
    both = _named(x=X, y=Y)
    return (
        ViewClass(
            name="selection",
            definition=_view(
                "selection",
                Project(source=Select(source=R, predicate=small), columns=_named(k=K, x=X, y=Y)),
                "k",
            ),
            variants=(
                Variant(name="signature", program=selection),
                Variant(name="counter", program=selection, policy=COUNTER_BASED),
                Variant(
                    name="changed-fields",
                    program=replace(selection, changed_fields_only=True),
                    policy=COUNTER_BASED,
                ),
            ),
            domains=PLAIN,
        ),
        ViewClass(
            name="projection-keeping-key",
            definition=_view("projection-keeping-key", Project(source=R, columns=_named(k=K, x=X)), "k"),
            variants=(Variant(name="signature", program=kept),),
            domains=PLAIN,
        ),
        ViewClass(
            name="projection-moving-key",
            definition=_view("projection-moving-key", Project(source=R, columns=_named(x=X, k=K)), "x", "k"),
            variants=(
                Variant(name="signature", program=moved),
                Variant(name="letter", program=moved, policy=LETTER),
            ),
            domains=PLAIN,
        ),
        ViewClass(
            name="projection-losing-key",
            definition=_view(
                "projection-losing-key", Distinct(source=Project(source=R, columns=both)), "x", "y"
            ),
            variants=(
                Variant(name="signature", program=lost),
                Variant(name="counter", program=lost, policy=COUNTER_BASED),
            ),
            domains=PLAIN,
        ),
    )


def _sets() -> tuple[ViewClass, ...]:
    operations: tuple[Operation, ...] = ("union", "intersect", "except")
    columns = ("k", "x")
    sides = tuple(
        Project(source=scan, columns=_named(k=Column(f"{scan.alias}.k"), x=Column(f"{scan.alias}.x")))
        for scan in (R, S)
    )
    found = []
    for operation in operations:
        program = SetProgram(view="v", left="r", right="s", columns=columns, operation=operation)
        relation = SetOperation(kind=operation, all=False, left=sides[0], right=sides[1])
        found.append(
            ViewClass(
                name=operation,
                definition=_view(operation, relation, *columns),
                variants=(
                    Variant(name="counter-column", program=program),
                    Variant(name="base-reading", program=replace(program, by_base=True)),
                    Variant(name="letter", program=replace(program, by_base=True), policy=LETTER),
                ),
                domains=TWO,
            )
        )
    return tuple(found)


def _joins() -> tuple[ViewClass, ...]:
    by_base = ForeignKeyJoin(
        view="v", child="r", parent="s", child_key="k", reference="y", parent_columns=("z",)
    )
    pairs = Join(kind="inner", left=R, right=S, on=((Y, Column("s.k")),))
    names = _named(k=K, y=Y, z=Column("s.z"))
    foreign = (
        ViewClass(
            name="foreign-key-join",
            definition=_view("foreign-key-join", Project(source=pairs, columns=names), "k"),
            variants=(
                Variant(name="base-reading", program=by_base),
                Variant(name="letter", program=replace(by_base, letter=True), policy=LETTER),
            ),
            domains=REFERRING,
            constrained=True,
        ),
    )
    kinds: tuple[Kind, ...] = ("inner", "left", "right", "full", "semi", "anti")
    return foreign + tuple(_join_class(kind) for kind in kinds)


def _join_class(kind: Kind) -> ViewClass:
    """Build a many-to-many join with null keys; its view records are the values of the join key."""
    joined: JoinKind = kind
    relation = Join(kind=joined, left=R, right=S, on=((Y, Column("s.y")),))
    pairing = Pairing(kind=kind, left="r", right="s", left_columns=("k", "y"), right_columns=("k", "y", "z"))
    by_y = (column("y"),)
    sides = (Side(name="r", table="r", partition=by_y), Side(name="s", table="s", partition=by_y))
    return ViewClass(
        name=f"{kind}-join",
        definition=_view(f"{kind}-join", relation, "r.k", "s.k"),
        variants=(
            Variant(name="reverse-join", program=KeptProgram(view="v", sides=sides, shown_of=pairing)),
        ),
        domains=MATCHING,
        record_key=("r.y", "s.y"),
    )


def _others() -> tuple[ViewClass, ...]:
    whole = Project(source=R, columns=_named(k=K, x=X, y=Y))
    order = (OrderBy(expression=Column("y"), descending=True), OrderBy(expression=Column("k")))
    top = First(side="r", order=lambda row: (-row["y"], row["k"]), limit=2)
    left, right = Side(name="r", table="r", partition=()), Side(name="s", table="s", partition=())
    not_in = NotIn(left="r", right="s", value=column("y"), among=column("y"))
    none_of = Join(kind="null-aware-anti", left=R, right=S, on=((Y, Column("s.y")),))
    return (
        ViewClass(
            name="top-2",
            definition=_view("top-2", TopK(source=whole, order=order, limit=2), "k"),
            variants=(Variant(name="kept", program=KeptProgram(view="v", sides=(left,), shown_of=top)),),
            domains=PLAIN,
            record_key=(),
        ),
        ViewClass(
            name="not-in",
            definition=_view("not-in", Project(source=none_of, columns=_named(k=K, y=Y)), "k"),
            variants=(
                Variant(name="kept", program=KeptProgram(view="v", sides=(left, right), shown_of=not_in)),
            ),
            domains={"r": {"y": (1, 2, None)}, "s": {"y": (1, 2, None)}},
            record_key=(),
        ),
    )


CLASSES: tuple[ViewClass, ...] = _aggregates() + _rows() + _sets() + _joins() + _others()


def view_class(name: str) -> ViewClass:
    """Return a class by its name."""
    return next(c for c in CLASSES if c.name == name)
