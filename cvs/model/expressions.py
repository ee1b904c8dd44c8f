"""Scalar expressions: the tree that SQL is translated into, and the one evaluator of it.

Three nodes only. Functions are a table by name (`model/functions.py`); each follows SQL null logic (null in,
null out, unless said). A column that a row does not have is null: unset and null are one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from cvs.errors import SpecificationError
from cvs.model.functions import STRICT, Strict, equal, greatest, least, ordered

Value = Any  # because a column may hold any CQL value; `model/types.py` is the table of them
Row = Mapping[str, Value]
Compiled = Callable[[Row], Value]


@dataclass(frozen=True, slots=True)
class Column:
    """The value of one column of the row at hand, by its full name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator, by its name in the table, of arguments."""

    function: str
    arguments: tuple["Expression", ...]


Expression = Column | Literal | Call


def compile_expression(expression: Expression) -> Compiled:
    """Return a callable that computes the expression over a row; unknown functions are refused now."""
    match expression:
        case Column():
            name = expression.name
            return lambda row: row.get(name)
        case Literal():
            value = expression.value
            return lambda _: value
        case Call():
            return _call(expression)
        case _:
            assert_never(expression)


def compile_predicate(expression: Expression) -> Callable[[Row], bool]:
    """Return a callable that says whether the expression is true (not false, not null)."""
    compiled = compile_expression(expression)
    return lambda row: compiled(row) is True


def columns_of(expression: Expression) -> Iterator[str]:
    """Yield the columns an expression reads, each as often as it stands there."""
    if isinstance(expression, Column):
        yield expression.name
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns_of(argument)


def function_names() -> tuple[str, ...]:
    """Return every name the evaluator knows."""
    return tuple(sorted({*STRICT, *_LAZY}))


def _call(call: Call) -> Compiled:
    arguments = [compile_expression(a) for a in call.arguments]
    if call.function in _LAZY:
        form = _LAZY[call.function]
        _check_count(call, form.least, form.most)
        return form.make(arguments)
    strict = STRICT.get(call.function)
    if strict is None:
        raise SpecificationError(
            f'the evaluator has no function "{call.function}"',
            next_step=f"it has {', '.join(function_names())}",
        )
    _check_count(call, strict.least, strict.most)
    last = call.arguments[-1]
    if len(arguments) == 2 and isinstance(last, Literal) and last.value is not None:
        return _strict_with_constant(strict, arguments[0], last.value)
    return _strict(strict, arguments)


def _check_count(call: Call, least: int, most: int | None) -> None:
    count = len(call.arguments)
    if count < least or (most is not None and count > most):
        wanted = str(least) if least == most else f"{least} to {most if most is not None else 'any'}"
        raise SpecificationError(f'function "{call.function}" takes {wanted} arguments, not {count}')


def _strict_with_constant(strict: Strict, first: Compiled, constant: Value) -> Compiled:
    apply = strict.prepare(constant) if strict.prepare is not None else None
    if apply is not None:
        return lambda row: None if (value := first(row)) is None else apply(value)
    apply_two = strict.apply
    return lambda row: None if (value := first(row)) is None else apply_two(value, constant)


def _strict(strict: Strict, arguments: list[Compiled]) -> Compiled:
    apply = strict.apply
    if len(arguments) == 1:
        (only,) = arguments
        return lambda row: None if (value := only(row)) is None else apply(value)
    if len(arguments) == 2:
        first, second = arguments

        def of_two(row: Row) -> Value:
            left = first(row)
            if left is None:
                return None
            right = second(row)
            return None if right is None else apply(left, right)

        return of_two

    def of_many(row: Row) -> Value:
        values = [argument(row) for argument in arguments]
        return None if any(value is None for value in values) else apply(*values)

    return of_many


def _and(arguments: list[Compiled]) -> Compiled:
    def run(row: Row) -> Value:
        unknown = False
        for argument in arguments:
            value = argument(row)
            if value is False:
                return False
            unknown = unknown or value is None
        return None if unknown else True

    return run


def _or(arguments: list[Compiled]) -> Compiled:
    def run(row: Row) -> Value:
        unknown = False
        for argument in arguments:
            value = argument(row)
            if value is True:
                return True
            unknown = unknown or value is None
        return None if unknown else False

    return run


def _case(arguments: list[Compiled]) -> Compiled:
    """Build CASE from condition, value, condition, value, ..., default (null if the count is even)."""
    pairs = tuple(zip(arguments[0::2], arguments[1::2], strict=False))
    default = arguments[-1] if len(arguments) % 2 else None

    def run(row: Row) -> Value:
        for condition, value in pairs:
            if condition(row) is True:
                return value(row)
        return default(row) if default is not None else None

    return run


def _coalesce(arguments: list[Compiled]) -> Compiled:
    def run(row: Row) -> Value:
        for argument in arguments:
            value = argument(row)
            if value is not None:
                return value
        return None

    return run


def _nullif(arguments: list[Compiled]) -> Compiled:
    first, second = arguments

    def run(row: Row) -> Value:
        left, right = first(row), second(row)
        return None if left is not None and right is not None and equal(left, right) else left

    return run


def _in(arguments: list[Compiled]) -> Compiled:
    """Build IN: true if equal to one; null if not, and the value or any choice is null."""
    first, *choices = arguments

    def run(row: Row) -> Value:
        value = first(row)
        if value is None:
            return None
        unknown = False
        for choice in choices:
            other = choice(row)
            if other is None:
                unknown = True
            elif equal(value, other):
                return True
        return None if unknown else False

    return run


def _between(arguments: list[Compiled]) -> Compiled:
    """Build BETWEEN as two comparisons: one false side decides, even beside a null."""
    value, low, high = arguments
    from_low = _strict(STRICT[">="], [value, low])
    to_high = _strict(STRICT["<="], [value, high])
    return _and([from_low, to_high])


def _same(arguments: list[Compiled]) -> Compiled:
    """Build `<=>`: equal, or both null; never null."""
    first, second = arguments

    def run(row: Row) -> Value:
        left, right = first(row), second(row)
        if left is None or right is None:
            return left is right
        return equal(left, right)

    return run


def _chosen(choose: Callable[[list[Value]], Value]) -> Callable[[list[Compiled]], Compiled]:
    def make(arguments: list[Compiled]) -> Compiled:
        def run(row: Row) -> Value:
            values = [value for argument in arguments if (value := argument(row)) is not None]
            return choose(values) if values else None

        return run

    return make


def _tuple(arguments: list[Compiled]) -> Compiled:
    """Build a tuple of values, nulls kept."""
    return lambda row: tuple(argument(row) for argument in arguments)


@dataclass(frozen=True, slots=True)
class _Lazy:
    """A function that decides by itself which arguments it looks at, and what null means."""

    make: Callable[[list[Compiled]], Compiled]
    least: int
    most: int | None


def _is_null(arguments: list[Compiled]) -> Compiled:
    (only,) = arguments
    return lambda row: only(row) is None


def _is_not_null(arguments: list[Compiled]) -> Compiled:
    (only,) = arguments
    return lambda row: only(row) is not None


_LAZY: dict[str, _Lazy] = {
    "and": _Lazy(_and, 1, None),
    "or": _Lazy(_or, 1, None),
    "case": _Lazy(_case, 2, None),
    "coalesce": _Lazy(_coalesce, 1, None),
    "nullif": _Lazy(_nullif, 2, 2),
    "in": _Lazy(_in, 2, None),
    "between": _Lazy(_between, 3, 3),
    "is_null": _Lazy(_is_null, 1, 1),
    "is_not_null": _Lazy(_is_not_null, 1, 1),
    "<=>": _Lazy(_same, 2, 2),
    "greatest": _Lazy(_chosen(greatest), 1, None),
    "least": _Lazy(_chosen(least), 1, None),
    "tuple": _Lazy(_tuple, 0, None),
}

__all__ = [
    "Call",
    "Column",
    "Compiled",
    "Expression",
    "Literal",
    "Row",
    "Value",
    "columns_of",
    "compile_expression",
    "compile_predicate",
    "function_names",
    "ordered",
]
