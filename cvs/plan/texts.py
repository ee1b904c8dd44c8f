"""Functions of texts in SQL: LIKE, CONCAT, SUBSTRING, LEFT, REPLACE, INSTR, TRIM."""

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from cvs.model.expressions import Call
from cvs.plan.constants import Typed
from cvs.plan.refusal import refused, shown
from cvs.plan.types import NULL, family


class Translator(Protocol):
    """What these functions need of the translator of scalars."""

    def translate(self, node: exp.Expr) -> Typed:
        """Translate an argument."""
        ...

    def of(self, wanted: str, node: exp.Expr, name: str) -> Typed:
        """Translate an argument that must be of a family."""
        ...

    def whole(self, node: exp.Expr, name: str) -> Typed:
        """Translate an argument that must be a whole number."""
        ...


def like(scalars: Translator, node: exp.Like) -> Typed:
    """Translate LIKE with a pattern."""
    value, pattern = scalars.translate(node.this), scalars.translate(node.expression)
    if family(value.type) not in ("text", NULL) or family(pattern.type) not in ("text", NULL):
        raise refused(node, f"LIKE needs texts, not {value.type} and {pattern.type}", "cast it to text")
    found = Call("like", (value.expression, pattern.expression))
    return Typed(Call("not", (found,)) if node.args.get("negate") else found, "boolean")


def concatenation(scalars: Translator, node: exp.Expr) -> Typed:
    """Translate `||` and CONCAT of texts."""
    parts = node.expressions if isinstance(node, exp.Concat) else list(node.flatten())
    values = [scalars.translate(part) for part in parts]
    for part, value in zip(parts, values, strict=True):
        if family(value.type) not in ("text", NULL):
            raise refused(part, f"`{shown(part)}` is {value.type}, not a text", "cast it to text")
    return Typed(Call("concat", tuple(v.expression for v in values)), "text")


def substring(scalars: Translator, node: exp.Substring) -> Typed:
    """Translate SUBSTRING(text, start[, length])."""
    value = scalars.of("text", node.this, "SUBSTRING")
    if node.args.get("start") is None:
        raise refused(node, f"`{shown(node)}` has not all arguments that it takes", "SUBSTRING(x, 1, 3)")
    places = [node.args["start"], node.args.get("length")]
    numbers = [scalars.whole(place, "SUBSTRING") for place in places if place is not None]
    return Typed(Call("substring", (value.expression, *(it.expression for it in numbers))), "text")


def end(scalars: Translator, node: exp.Left | exp.Right) -> Typed:
    """Translate LEFT and RIGHT: so many letters of a text."""
    name = "left" if isinstance(node, exp.Left) else "right"
    value, count = scalars.of("text", node.this, name), scalars.whole(node.expression, name)
    return Typed(Call(name, (value.expression, count.expression)), "text")


def replacement(scalars: Translator, node: exp.Replace) -> Typed:
    """Translate REPLACE(text, old[, new])."""
    parts = [node.this, node.expression, node.args.get("replacement") or exp.Literal.string("")]
    return Typed(Call("replace", tuple(scalars.of("text", it, "REPLACE").expression for it in parts)), "text")


def position(scalars: Translator, node: exp.StrPosition) -> Typed:
    """Translate INSTR, LOCATE and POSITION: where a part begins, from 1; 0 where it is not."""
    parts = [scalars.of("text", it, "INSTR").expression for it in (node.args["substr"], node.this)]
    return Typed(Call("position", tuple(parts)), "int")


def trimmed(scalars: Translator, node: exp.Trim) -> Typed:
    """Translate TRIM, LTRIM and RTRIM of blanks."""
    if node.expression:
        raise refused(node, f"`{shown(node)}` trims more than blanks", "REPLACE(x, 'a', '')")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return Typed(Call(name, (scalars.of("text", node.this, name).expression,)), "text")


METHODS: tuple[tuple[tuple[type[exp.Expr], ...], Callable[[Any, Any], Typed]], ...] = (
    ((exp.Like,), like),
    ((exp.DPipe, exp.Concat), concatenation),
    ((exp.Substring,), substring),
    ((exp.Left, exp.Right), end),
    ((exp.Replace,), replacement),
    ((exp.StrPosition,), position),
    ((exp.Trim,), trimmed),
)
