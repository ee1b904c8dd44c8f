"""NOT IN as an anti-join beside what one null among the choices means for all rows."""

from collections.abc import Mapping

from cvs.errors import SpecificationError
from cvs.model.expressions import Call, Column, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Join,
    Named,
    Project,
    Relation,
    Select,
)
from cvs.plan.keys import facts


def not_in(relation: Join, tables: Mapping[str, BaseTable]) -> Relation:
    """Return a null-aware anti-join as joins: with a null among the choices nothing passes, with none everything does.

    What the rows meet is these two answers, not the counts: those move with every choice, and all rows with them.
    """
    ((value, choice),) = relation.on
    if relation.residual is not None:
        raise SpecificationError("NOT IN with a further condition", next_step="write NOT EXISTS")
    anti = Join(kind="anti", left=relation.left, right=relation.right, on=relation.on)
    solid_value = isinstance(value, Column) and value.name in facts(relation.left, tables).never_null
    solid_choice = isinstance(choice, Column) and choice.name in facts(relation.right, tables).never_null
    if solid_value and solid_choice:
        return anti
    rows = AggregateColumn(name="not_in.rows", function=AggregateFunction.COUNT)
    known = AggregateColumn(name="not_in.known", function=AggregateFunction.COUNT, argument=choice)
    counted = Aggregate(source=relation.right, group=(), aggregates=(rows, known))
    empty = Named(name="not_in.empty", expression=Call("=", (Column(rows.name), Literal(0))))
    certain = Named(name="not_in.certain", expression=Call("=", (Column(rows.name), Column(known.name))))
    answers = Project(source=counted, columns=(empty, certain))
    product = Join(kind="inner", left=anti, right=answers, on=())
    passes = Call("and", (Call("is_not_null", (value,)), Column(certain.name)))
    return Select(source=product, predicate=Call("or", (Column(empty.name), passes)))
