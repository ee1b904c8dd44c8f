"""Scalar SQL into scalar expressions, type-checked; everything not on the allow-list is refused.

Some SQL is only another way to write something smaller: BETWEEN, IN over a list, simple CASE, IF, NULLIF and
date arithmetic on constants become what the evaluator knows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from cvs.model.expressions import Call, Column, Literal
from cvs.plan import dates, functions, nearest, texts
from cvs.plan.constants import (
    Typed,
    as_type,
    castable,
    decimal_literal,
    fitting,
    folded,
    integer_type,
    is_null,
    literal_as,
    meeting,
)
from cvs.plan.reading import QUOTED
from cvs.plan.refusal import nearest_of, refuse_extras, refuse_lacks, refused, shown
from cvs.plan.scope import Scope
from cvs.plan.types import INTEGERS, NULL, arithmetic, common, comparable, family, ordered, widened

Hook = Callable[[exp.Expr], Typed | None]


def no_hook(_: exp.Expr) -> Typed | None:
    """Leave every node to the translator."""
    return None


@dataclass(slots=True, kw_only=True)
class Scalars:
    """Translates the scalar expressions of one scope; `hook` is asked first (aggregates, subqueries)."""

    scope: Scope
    hook: Hook = no_hook

    def translate(self, node: exp.Expr) -> Typed:
        """Return the expression a node means."""
        taken = self.hook(node)
        if taken is not None:
            return taken
        for kinds, method in _METHODS:
            if isinstance(node, kinds):
                refuse_lacks(node)
                refuse_extras(node, functions.PARTS.get(type(node), set()))
                return folded(method(self, node))
        called = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, functions.VOLATILE) or called in functions.VOLATILE_NAMES:
            raise refused(
                node,
                f"`{shown(node)}` is volatile: a view would have to change without a base update",
                "store the value in a column of the base table and compare with that",
            )
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            raise refused(node, f"`{shown(node)}` makes several views", "write one view each, or UNION ALL")
        if isinstance(node, exp.Window):
            raise refused(
                node, "window functions are not incremental here", "use GROUP BY, or ORDER BY with LIMIT"
            )
        if isinstance(node, functions.KEPT):
            raise refused(node, f"`{shown(node)}` cannot stand here", "use it in SELECT or HAVING")
        if isinstance(node, exp.AggFunc):
            reason, instead = nearest.AGGREGATES.get(type(node), nearest.WHOLE_GROUPS)
            raise refused(node, f"`{shown(node)}` is not kept: {reason}", instead)
        known = nearest.NEAREST.get(type(node)) or nearest.NEAREST_NAMES.get(called)
        raise refused(
            node,
            f"`{shown(node)}` is not in the language of views",
            known
            or f"{nearest_of(called, functions.names()) if called else ''}it knows: {functions.listed()}",
        )

    def predicate(self, node: exp.Expr) -> Typed:
        """Translate a condition: its type must be boolean."""
        typed = self.translate(node)
        if typed.type not in ("boolean", NULL):
            raise refused(
                node, f"`{shown(node)}` is {typed.type}, not a condition", "compare it with something"
            )
        return typed

    def column(self, node: exp.Column) -> Typed:
        """Translate a column reference."""
        found = self.scope.find(node)
        return Typed(Column(found.column), found.type)

    def paren(self, node: exp.Paren) -> Typed:
        """Translate what stands in parentheses."""
        return self.translate(node.this)

    def literal(self, node: exp.Literal) -> Typed:
        """Translate a number or a text; a number with a point is a decimal, with an exponent a double."""
        text = str(node.this)
        if node.is_string:
            if node.meta.get(QUOTED) and self.scope.has(exp.column(text)):
                what = f'"{text}" is a text, as in Spark, and there is a column of that name'
                raise refused(node, what, f"write `{text}` for the column, '{text}' for the text")
            return Typed(Literal(text), "text")
        if text.lstrip("-").isdigit():
            value = int(text)
            return Typed(Literal(value), integer_type(value))
        return Typed(Literal(float(text)), "double") if "e" in text.lower() else decimal_literal(text)

    def constant(self, node: exp.Expr) -> Typed:
        """Translate TRUE, FALSE and NULL."""
        return (
            Typed(Literal(None), NULL) if isinstance(node, exp.Null) else Typed(Literal(node.this), "boolean")
        )

    def connective(self, node: exp.Expr) -> Typed:
        """Translate AND and OR."""
        name = "and" if isinstance(node, exp.And) else "or"
        parts = tuple(self.predicate(part).expression for part in node.flatten())
        return Typed(Call(name, parts), "boolean")

    def negation(self, node: exp.Not) -> Typed:
        """Translate NOT."""
        return Typed(Call("not", (self.predicate(node.this).expression,)), "boolean")

    def comparison(self, node: exp.Binary) -> Typed:
        """Translate `= <> < <= > >=`."""
        name = functions.COMPARISONS[type(node)]
        if isinstance(node.left, exp.Null) or isinstance(node.right, exp.Null):
            raise refused(node, f"`{shown(node)}` is never true", "IS NULL, IS NOT NULL or <=>")
        return self._compared(node, name, self.translate(node.left), self.translate(node.right))

    def null_safe(self, node: exp.Binary) -> Typed:
        """Translate `<=>` and IS DISTINCT FROM: equal, or both null; and not so."""
        same = self._compared(node, "<=>", self.translate(node.left), self.translate(node.right))
        return same if isinstance(node, exp.NullSafeEQ) else Typed(Call("not", (same.expression,)), "boolean")

    def is_(self, node: exp.Is) -> Typed:
        """Translate IS NULL, IS TRUE, IS FALSE."""
        inner = self.translate(node.this)
        if isinstance(node.expression, exp.Null):
            return Typed(is_null(inner.expression), "boolean")
        if isinstance(node.expression, exp.Boolean) and inner.type in ("boolean", NULL):
            same = Call("=", (inner.expression, Literal(node.expression.this)))
            return Typed(Call("coalesce", (same, Literal(False))), "boolean")
        raise refused(
            node, f"`{shown(node)}` is not in the language of views", "use IS [NOT] NULL, TRUE or FALSE"
        )

    def between(self, node: exp.Between) -> Typed:
        """Translate BETWEEN as two comparisons."""
        value = self.translate(node.this)
        low = self._compared(node, ">=", value, self.translate(node.args["low"]))
        high = self._compared(node, "<=", value, self.translate(node.args["high"]))
        return Typed(Call("and", (low.expression, high.expression)), "boolean")

    def in_list(self, node: exp.In) -> Typed:
        """Translate IN over a list."""
        if node.args.get("query") is not None:
            raise refused(
                node, "this subquery cannot stand here", "use it as a condition of its own, joined by AND"
            )
        value = self.translate(node.this)
        if not node.expressions:
            raise refused(node, f"`{shown(node)}` names nothing to choose from", "IN (1, 2)")
        pairs = [self._compared(node, "=", value, self.translate(e)).expression for e in node.expressions]
        sides = [pair.arguments for pair in pairs if isinstance(pair, Call)]
        if any(left != value.expression for left, _ in sides):  # it became what a choice is
            return Typed(Call("or", tuple(pairs)), "boolean")
        choices = [choice for _, choice in sides]
        return Typed(Call("in", (value.expression, *choices)), "boolean")

    def arithmetic(self, node: exp.Binary) -> Typed:
        """Translate `+ - * / %`; dates take intervals."""
        name = functions.ARITHMETIC[type(node)]
        if isinstance(node.right, exp.Interval) and name in "+-":
            return dates.moved(node, self.translate(node.left), node.right, 1 if name == "+" else -1)
        left, right = self.translate(node.left), self.translate(node.right)
        result = arithmetic(name, left.type, right.type)
        if result is None:
            dated = [it.type in ("date", "timestamp") for it in (left, right)]
            instead = "write INTERVAL '1' DAY" if any(dated) and name in "+-" else "cast one side"
            if all(dated) and name == "-":
                instead = "write DATEDIFF(a, b): days"
            raise refused(node, f"{left.type} {name} {right.type} makes no sense", instead)
        left, right = as_type(left, result), as_type(right, result)
        return fitting(folded(Typed(Call(name, (left.expression, right.expression)), result)))

    def case(self, node: exp.Case) -> Typed:
        """Translate CASE, with or without an operand."""
        arguments: list[Typed] = []
        for branch in node.args["ifs"]:
            arguments.append(self._when(node, branch))
            arguments.append(self.translate(branch.args["true"]))
        default = node.args.get("default")
        arguments.append(self.translate(default) if default is not None else Typed(Literal(None), NULL))
        return self._case(node, arguments)

    def if_(self, node: exp.If) -> Typed:
        """Translate IF as CASE."""
        otherwise = node.args.get("false")
        last = self.translate(otherwise) if otherwise is not None else Typed(Literal(None), NULL)
        return self._case(node, [self.predicate(node.this), self.translate(node.args["true"]), last])

    def nullif(self, node: exp.Nullif) -> Typed:
        """Translate NULLIF."""
        left, right = self.translate(node.this), self.translate(node.expression)
        equal = self._compared(node, "=", left, right).expression
        assert isinstance(equal, Call)
        return Typed(Call("nullif", equal.arguments), meeting(node, left, right).type)

    def chosen(self, node: exp.Expr) -> Typed:
        """Translate COALESCE, GREATEST and LEAST: one of several values of one type."""
        name = functions.CHOICES[type(node)]
        values = [self.translate(part) for part in (node.this, *node.expressions)]
        result = self._common(node, values)
        if name != "coalesce" and not ordered(result):
            raise refused(node, f"{result} has no order", "choose one with CASE")
        return Typed(Call(name, tuple(as_type(v, result).expression for v in values)), result)

    def of(self, wanted: str, node: exp.Expr, name: str) -> Typed:
        """Translate an argument that must be of a family."""
        value = self.translate(node)
        if family(value.type) not in (wanted, NULL):
            raise refused(node, f"{name} needs a {wanted}, not {value.type}", "cast it")
        return value

    def whole(self, node: exp.Expr, name: str) -> Typed:
        """Translate an argument that must be a whole number."""
        value = self.of("number", node, name)
        if value.type not in (*INTEGERS, NULL):
            raise refused(node, f"{name} needs a whole number, not {value.type}", "CAST(x AS int)")
        return value

    def rounding(self, node: exp.Expr) -> Typed:
        """Translate ROUND, FLOOR and CEIL."""
        value = self.translate(node.this)
        if family(value.type) != "number":
            raise refused(node, f"`{shown(node.this)}` is {value.type}, not a number", "cast it")
        if isinstance(node, exp.Round):
            digits = node.args.get("decimals")
            places = self.whole(digits, "ROUND").expression if digits is not None else Literal(0)
            return fitting(Typed(Call("round", (value.expression, places)), widened(value.type)))
        result = value.type if value.type in ("decimal", "varint") else "bigint"
        name = "floor" if isinstance(node, exp.Floor) else "ceil"
        return fitting(Typed(Call(name, (value.expression,)), result))

    def simple(self, node: exp.Expr) -> Typed:
        """Translate a function of the allow-list whose arguments have fixed families."""
        name, families, result = functions.SIMPLE[type(node)]
        parts = [node.this, node.args.get("expression")]
        if len(families) == 1 and parts.pop() is not None:
            raise refused(node, f"`{shown(node)}`: {name} takes one argument", "leave the second out")
        values = [
            self.of(wanted, part, name)
            for part, wanted in zip(parts, families, strict=True)
            if part is not None
        ]
        found = folded(Typed(Call(name, tuple(v.expression for v in values)), result))
        if result != functions.SAME:
            return found
        if isinstance(found.expression, Literal):
            return Typed(found.expression, _kept_type(found.expression.value, values[0].type))
        return fitting(Typed(found.expression, widened(values[0].type)))

    def cast(self, node: exp.Cast) -> Typed:
        """Translate CAST; a constant is converted now."""
        wanted = functions.CASTS.get(
            node.to.this.name if hasattr(node.to.this, "name") else str(node.to.this)
        )
        if wanted is None:
            raise refused(
                node, f"no cast to {node.to.sql(dialect='spark')}", f"one of {', '.join(functions.CASTS)}"
            )
        value = self.translate(node.this)
        sizes = [int(part.name) for part in node.to.expressions if part.name.isdigit()]
        if isinstance(value.expression, Literal) and family(value.type) != family(wanted):
            value = literal_as(node, value, wanted)
        elif value.type != wanted:
            if value.type != NULL and family(wanted) not in functions.CASTABLE.get(family(value.type), ()):
                raise refused(node, f"no cast from {value.type} to {wanted}", "compute it when writing")
            value = Typed(Call(f"cast_{wanted}", (value.expression,)), wanted)
        return _sized(value, sizes) if wanted == "decimal" and sizes else value

    def _compared(self, node: exp.Expr, name: str, left: Typed, right: Typed) -> Typed:
        left, right = meeting(node, left, right), meeting(node, right, left)
        if not comparable(left.type, right.type):
            raise refused(
                node, f"{left.type} cannot be compared with {right.type}", castable(left.type, right.type)
            )
        if name not in ("=", "<>", "<=>") and not (ordered(left.type) and ordered(right.type)):
            raise refused(node, f"{left.type} has no order", "compare with = or <> only")
        return Typed(Call(name, (left.expression, right.expression)), "boolean")

    def _when(self, node: exp.Case, branch: exp.If) -> Typed:
        if node.this is None:
            return self.predicate(branch.this)
        return self._compared(node, "=", self.translate(node.this), self.translate(branch.this))

    def _case(self, node: exp.Expr, arguments: list[Typed]) -> Typed:
        values = [*arguments[1:-1:2], arguments[-1]]
        result = self._common(node, values)
        flat = [
            a.expression if i % 2 == 0 and i < len(arguments) - 1 else as_type(a, result).expression
            for i, a in enumerate(arguments)
        ]
        return Typed(Call("case", tuple(flat)), result)

    def _common(self, node: exp.Expr, values: list[Typed]) -> str:
        result = common([v.type for v in values])
        if result is None:
            kinds = ", ".join(v.type for v in values)
            raise refused(node, f"`{shown(node)}` mixes {kinds}", "cast them to one type")
        return result


def _kept_type(value: Any, kind: str) -> str:
    """Return the type of a constant's negation or size."""
    return integer_type(value) if isinstance(value, int) and kind in INTEGERS else kind


def _sized(value: Typed, sizes: list[int]) -> Typed:
    """DECIMAL(10, 2): rounded to its scale, null where it has more digits before the point."""
    digits, scale = (*sizes, 0)[:2]
    rounded = Call("round", (value.expression, Literal(scale)))
    small = Call("<", (Call("abs", (rounded,)), Literal(Decimal(10) ** (digits - scale))))
    return folded(Typed(Call("case", (small, rounded)), "decimal"))


_METHODS: tuple[tuple[tuple[type[exp.Expr], ...], Callable[[Scalars, Any], Typed]], ...] = (
    ((exp.Column,), Scalars.column),
    ((exp.Paren,), Scalars.paren),
    ((exp.Literal,), Scalars.literal),
    ((exp.Null, exp.Boolean), Scalars.constant),
    ((exp.And, exp.Or), Scalars.connective),
    ((exp.Not,), Scalars.negation),
    (tuple(functions.COMPARISONS), Scalars.comparison),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), Scalars.null_safe),
    ((exp.Is,), Scalars.is_),
    ((exp.Between,), Scalars.between),
    ((exp.In,), Scalars.in_list),
    (tuple(functions.ARITHMETIC), Scalars.arithmetic),
    ((exp.Case,), Scalars.case),
    ((exp.If,), Scalars.if_),
    ((exp.Nullif,), Scalars.nullif),
    (tuple(functions.CHOICES), Scalars.chosen),
    ((exp.Round, exp.Floor, exp.Ceil), Scalars.rounding),
    (tuple(functions.SIMPLE), Scalars.simple),
    *texts.METHODS,
    *dates.METHODS,
    ((exp.Cast, exp.TryCast), Scalars.cast),
)
