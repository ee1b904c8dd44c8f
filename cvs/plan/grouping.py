"""GROUP BY, aggregates and HAVING: one Aggregate, and expressions over its columns on top."""

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import Aggregate, AggregateColumn, AggregateFunction, Named, Select
from cvs.plan.blocks import Block, Translator
from cvs.plan.constants import Typed, fitting
from cvs.plan.joins import Item
from cvs.plan.refusal import refuse_extras, refused, shown
from cvs.plan.scalars import Scalars
from cvs.plan.scope import Scope, columns_of, replaced
from cvs.plan.subqueries import Subqueries, has_subquery
from cvs.plan.types import FLOATS, INTEGERS, NULL, family, ordered

FUNCTIONS: dict[type[exp.Expr], AggregateFunction] = {
    exp.Count: AggregateFunction.COUNT,
    exp.Sum: AggregateFunction.SUM,
    exp.Avg: AggregateFunction.AVG,
    exp.Min: AggregateFunction.MIN,
    exp.Max: AggregateFunction.MAX,
    exp.Variance: AggregateFunction.VARIANCE,
    exp.Stddev: AggregateFunction.STDDEV,
    exp.StddevSamp: AggregateFunction.STDDEV,
}


@dataclass(slots=True, kw_only=True)
class Grouping:
    """What grouped expressions may read: group columns and kept aggregates."""

    prefix: str
    scalars: Scalars
    group: list[Named] = field(default_factory=list)
    aggregates: list[AggregateColumn] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        """Return the names an expression over groups may read."""
        return frozenset([*(g.name for g in self.group), *(a.name for a in self.aggregates)])

    def free(self, name: str) -> str:
        """Return a full name that no column over the groups has yet: a base column may be called `count_1`."""
        full = f"{self.prefix}.{name}"
        while full in self.columns:
            full += "_"
        return full

    def over_groups(self, node: exp.Expr, expression: Expression) -> Expression:
        """Return an expression over group columns; a column neither grouped nor aggregated is refused."""
        by = {g.expression: Column(g.name) for g in self.group}
        found = replaced(expression, by)
        stray = sorted(columns_of(found) - self.columns - self.joined)
        if stray:
            name = stray[0].split(".")[-1]
            raise refused(
                node,
                f"`{name}` is neither in GROUP BY nor in an aggregate",
                f"GROUP BY {name}, or MAX({name})",
            )
        return found

    def aggregate(self, node: exp.Expr) -> Typed | None:
        """Return the column of an aggregate, or None if the node is none."""
        if isinstance(node, exp.Filter):
            inner = self._function(node.this)
            condition = self.scalars.predicate(node.expression.this).expression
            return self._kept(node.this, inner, condition)
        if isinstance(node, exp.CountIf):
            condition = self.scalars.predicate(node.this).expression
            case = Call("case", (condition, Literal(1), Literal(None)))
            return self._named(AggregateFunction.COUNT, case, False, "bigint")
        if type(node) in FUNCTIONS:
            return self._kept(node, FUNCTIONS[type(node)], None)
        return None

    def having(self, node: exp.Select, scalars: Scalars, subqueries: Subqueries) -> None:
        """Put HAVING above the groups."""
        clause = node.args.get("having")
        if clause is None:
            return
        parts = list(clause.this.flatten()) if isinstance(clause.this, exp.And) else [clause.this]
        for part in parts:
            if has_subquery(part):
                subqueries.condition(part)
                continue
            predicate = self.over_groups(part, scalars.predicate(part).expression)
            item = subqueries.block.item
            subqueries.block.item = Item(
                relation=Select(source=item.relation, predicate=predicate), columns=item.columns
            )

    def _function(self, node: exp.Expr) -> AggregateFunction:
        if type(node) not in FUNCTIONS:
            raise refused(
                node, f"FILTER over `{shown(node)}`", "COUNT, SUM, AVG, MIN, MAX, STDDEV or VARIANCE"
            )
        return FUNCTIONS[type(node)]

    def _kept(self, node: exp.Expr, function: AggregateFunction, condition: Expression | None) -> Typed:
        refuse_extras(node, set())
        if node.expressions:
            raise refused(
                node, f"`{shown(node)}` takes one argument", "COUNT over a subquery with SELECT DISTINCT"
            )
        inner, distinct = node.this, False
        if isinstance(inner, exp.Distinct):
            if len(inner.expressions) != 1:
                raise refused(
                    node, "DISTINCT over several columns", "COUNT over a subquery with SELECT DISTINCT"
                )
            inner, distinct = inner.expressions[0], True
        counts_rows = function is AggregateFunction.COUNT and not distinct
        if inner is None or (isinstance(inner, exp.Star) and not counts_rows):
            raise refused(node, f"`{shown(node)}` of what?", f"{function.value.upper()}(column), or COUNT(*)")
        if isinstance(inner, exp.Star):
            argument: Expression | None = None
            kind = "bigint"
            if condition is not None:
                argument = Call("case", (condition, Literal(1), Literal(None)))
        else:
            if inner.find(exp.AggFunc) is not None:
                raise refused(node, "an aggregate inside an aggregate", "aggregate over a subquery in FROM")
            typed = self.scalars.translate(inner)
            argument, kind = typed.expression, _result(node, function, typed.type)
            if condition is not None:
                argument = Call("case", (condition, argument, Literal(None)))
            if function is AggregateFunction.COUNT and isinstance(argument, Literal) and not distinct:
                argument = None if argument.value is not None else argument
        return self._named(function, argument, distinct and function not in _SAME_WHEN_DISTINCT, kind)

    def _named(
        self, function: AggregateFunction, argument: Expression | None, distinct: bool, kind: str
    ) -> Typed:
        for kept in self.aggregates:
            if (kept.function, kept.argument, kept.distinct) == (function, argument, distinct):
                return _fitting(Typed(Column(kept.name), self.types[kept.name]), function)
        name = self.free(f"{function.value}_{len(self.aggregates) + 1}")
        column = AggregateColumn(name=name, function=function, argument=argument, distinct=distinct)
        self.aggregates.append(column)
        self.types[name] = kind
        return _fitting(Typed(Column(name), kind), function)


_SAME_WHEN_DISTINCT = (AggregateFunction.MIN, AggregateFunction.MAX)


def grouped(translator: Translator, node: exp.Select, block: Block) -> Grouping | None:
    """Put an Aggregate on the block if the SELECT groups; expressions above are translated by the caller."""
    clause = node.args.get("group")
    asked = _aggregates(node)
    if clause is None and not asked and node.args.get("having") is None:
        return None
    _spell_out_aliases(node, block.scope)
    asked = _aggregates(node)
    result = Grouping(prefix=translator.names.prefix("by"), scalars=Scalars(scope=block.scope))
    if clause is not None:
        _only_plain(clause)
        for number, term in enumerate(clause.expressions, start=1):
            _add_group(result, node, term, number)
    for found in asked:
        result.aggregate(found)
    relation = Aggregate(
        source=block.item.relation, group=tuple(result.group), aggregates=tuple(result.aggregates)
    )
    block.item = Item(relation=relation, columns=result.columns)
    return result


def _aggregates(node: exp.Select) -> list[exp.Expr]:
    """Return the aggregates of SELECT, HAVING and ORDER BY, those of nested queries left out."""
    roots = [*node.expressions, node.args.get("having"), node.args.get("order")]
    found: list[exp.Expr] = []
    for root in roots:
        if root is None:
            continue
        parts = root.walk(prune=lambda n: isinstance(n, _CLOSED))
        found.extend(part for part in parts if isinstance(part, _AGGREGATES))
    return found


_AGGREGATES: tuple[type[exp.Expr], ...] = (exp.Filter, exp.CountIf, *FUNCTIONS)
_CLOSED: tuple[type[exp.Expr], ...] = (exp.Select, exp.Window, *_AGGREGATES)


def _add_group(result: Grouping, node: exp.Select, term: exp.Expr, number: int) -> None:
    term = _meant(node, term, result.scalars.scope)
    typed = result.scalars.translate(term)
    if not columns_of(typed.expression) and not isinstance(typed.expression, Literal):
        raise refused(term, f"GROUP BY `{shown(term)}` reads no column", "leave it out")
    if any(g.expression == typed.expression for g in result.group):
        return
    name = result.free(term.name if isinstance(term, exp.Column) else f"group_{number}")
    result.group.append(Named(name=name, expression=typed.expression))
    result.types[name] = typed.type


def _spell_out_aliases(node: exp.Select, scope: Scope) -> None:
    """In HAVING the name of an output means its expression, as in Spark; a column of that name wins."""
    clause = node.args.get("having")
    outputs = {item.alias.lower(): item.this for item in node.expressions if isinstance(item, exp.Alias)}
    for column in list(clause.find_all(exp.Column)) if clause is not None else ():
        meant = outputs.get(column.name.lower())
        if meant is not None and not column.table and column.parent_select is node and not scope.has(column):
            column.replace(meant.copy())


def _meant(node: exp.Select, term: exp.Expr, scope: Scope) -> Any:
    """GROUP BY 2 and GROUP BY alias mean an item of SELECT; a column of that name wins over an alias."""
    if isinstance(term, exp.Literal) and not term.is_string:
        position = int(term.this)
        if not 1 <= position <= len(node.expressions):
            raise refused(
                term, f"GROUP BY {position}: there are {len(node.expressions)} columns", "name the column"
            )
        return node.expressions[position - 1].unalias()
    if not isinstance(term, exp.Column) or term.table:
        return term
    for item in node.expressions:
        if isinstance(item, exp.Alias) and item.alias.lower() == term.name.lower():
            return term if scope.has(term) else item.this
    return term


def _only_plain(clause: exp.Group) -> None:
    for name, value in clause.args.items():
        if value and name == "all":
            raise refused(clause, "GROUP BY ALL names no columns", "name them: GROUP BY a, b")
        if value and name != "expressions":
            raise refused(
                clause, f"GROUP BY {name.upper()} makes several views", "write one view each, or UNION ALL"
            )


def _fitting(value: Typed, function: AggregateFunction) -> Typed:
    """A sum of integers beyond 64 bits is null; counts and extremes always fit."""
    return fitting(value) if function is AggregateFunction.SUM else value


def _result(node: exp.Expr, function: AggregateFunction, kind: str) -> str:
    """Return the type of an aggregate over a type."""
    if function is AggregateFunction.COUNT:
        return "bigint"
    if function in (AggregateFunction.MIN, AggregateFunction.MAX):
        if not ordered(kind):
            raise refused(node, f"{kind} has no order", "COUNT it")
        return kind
    if family(kind) not in ("number", NULL):
        raise refused(node, f"{function.value.upper()} of {kind}", "cast it to a number")
    if function is AggregateFunction.SUM:
        return "double" if kind in FLOATS else ("bigint" if kind in INTEGERS and kind != "varint" else kind)
    if function is AggregateFunction.AVG:
        return "decimal" if kind == "decimal" else "double"
    return "double"
