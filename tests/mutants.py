"""The mutants of a module: its source with one operator, constant or statement changed."""

import ast
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
LEFT_ALONE = ("annotation", "returns", "decorator_list", "exc", "bases")


@dataclass(frozen=True)
class Mutant:
    """One changed module; its name does not move when lines do."""

    name: str  # function, change, and which of the same
    lines: range  # from the first line of the statement to the last of what is changed
    function: str  # the outermost function it lies in; empty: it is run when the module is loaded
    within: int  # checksum of that function, or of the module
    tree: ast.Module


@dataclass(frozen=True)
class _Place:
    node: ast.AST
    parent: ast.AST
    statement: ast.stmt
    path: tuple[str, ...]  # classes and functions around it
    function: str
    text: str  # of the outermost function, or of the module


def mutants(source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module; assertions, annotations and messages of refusals are left alone."""
    same: Counter[str] = Counter()
    for number in range(len(list(_places(ast.parse(source))))):
        tree = ast.parse(source)
        place = next(islice(_places(tree), number, None))
        node = place.node
        before = ast.unparse(node)
        lines = range(place.statement.lineno, _last_line(node) + 1)
        after = _change(node, place.parent)
        name = f"{'.'.join(place.path) or 'module'}: {before.splitlines()[0]} -> {after.splitlines()[0]}"
        same[name] += 1
        name += f" ({same[name]})" if same[name] > 1 else ""
        within = zlib.crc32(place.text.encode())
        yield Mutant(name, lines, place.function, within, ast.fix_missing_locations(tree))


def _last_line(node: ast.AST) -> int:
    """Return where what is changed ends: of an `if` that is its condition, not its body."""
    last: int = (node.test if isinstance(node, ast.If | ast.While) else node).end_lineno  # type: ignore[attr-defined]
    return last


def _places(tree: ast.Module) -> Iterator[_Place]:
    """Yield the nodes that can be changed, in order."""
    yield from _below(tree, tree.body[0], (), ("", ast.unparse(tree)))


def _below(
    parent: ast.AST, statement: ast.stmt, path: tuple[str, ...], function: tuple[str, str]
) -> Iterator[_Place]:
    for name, value in ast.iter_fields(parent):
        if name in LEFT_ALONE or (isinstance(parent, ast.ClassDef) and name == "keywords"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _left_alone(child, path):
                continue
            at = child if isinstance(child, ast.stmt) else statement
            if _changeable(child, parent):
                yield _Place(child, parent, at, path, *function)
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            inner = (*path, child.name) if named else path
            entered = isinstance(child, ast.FunctionDef) and not function[0]
            around = (".".join(inner), ast.unparse(child)) if entered else function
            yield from _below(child, at, inner, around)


def _left_alone(node: ast.AST, path: tuple[str, ...]) -> bool:
    """Say whether nothing in it is worth a mutant: an assertion, `zip`'s too, or a bound, tag or type with a name."""
    if isinstance(node, ast.Assign) and not path:
        parts = (
            *(ast.Constant, ast.BinOp, ast.Name, ast.Subscript, ast.Tuple),
            *(ast.operator, ast.expr_context),
        )
        return all(isinstance(part, parts) for part in ast.walk(node.value))
    return isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "strict")


def _changeable(node: ast.AST, parent: ast.AST) -> bool:
    return any(isinstance(node, kind) and fits(node, parent) for kind, fits, _ in CHANGES)


def _change(node: ast.AST, parent: ast.AST) -> str:
    change = next(do for kind, fits, do in CHANGES if isinstance(node, kind) and fits(node, parent))
    return change(node, parent)


def _operator(node: ast.AST, parent: ast.AST) -> str:
    node.op = SWAPPED[type(node.op)]()  # type: ignore[attr-defined]
    return ast.unparse(node)


def _comparison(node: ast.AST, parent: ast.AST) -> str:
    node.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[attr-defined]
    return ast.unparse(node)


def _constant(node: ast.AST, parent: ast.AST) -> str:
    value = node.value  # type: ignore[attr-defined]
    node.value = (not value) if isinstance(value, bool) else value + 1  # type: ignore[attr-defined]
    return ast.unparse(node)


def _branches(node: ast.AST, parent: ast.AST) -> str:
    node.body, node.orelse = node.orelse, node.body  # type: ignore[attr-defined]
    return ast.unparse(node)


def _affirmed(node: ast.AST, parent: ast.AST) -> str:
    """Take a `not` away; negated twice, as a node cannot be replaced from below."""
    node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)  # type: ignore[attr-defined]
    return ast.unparse(node)


def _negated(node: ast.AST, parent: ast.AST) -> str:
    node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)  # type: ignore[attr-defined]
    return ast.unparse(node)


def _ended(node: ast.AST, parent: ast.AST) -> str:
    node.__class__ = ast.Break
    return "break"


def _left_out(node: ast.AST, parent: ast.AST) -> str:
    node.value = ast.Constant(value=None)  # type: ignore[attr-defined]
    return "pass"


def _swappable(node: ast.AST, parent: ast.AST) -> bool:
    """An operator with a neighbour; but no union of types, which is nothing but an annotation."""
    of_types = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _type(node.right)
    return type(node.op) in SWAPPED and not of_types  # type: ignore[attr-defined]


def _type(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id[0].isupper()) or ast.unparse(node) == "None"


def _plain_condition(node: ast.AST, parent: ast.AST) -> bool:
    return isinstance(node.test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)  # type: ignore[attr-defined]


def _number(node: ast.AST, parent: ast.AST) -> bool:
    return type(node.value) in (bool, int)  # type: ignore[attr-defined]


CHANGES: tuple[tuple[type | tuple[type, ...], Callable[..., bool], Callable[..., str]], ...] = (
    (ast.Compare, lambda node, _: type(node.ops[0]) in SWAPPED, _comparison),
    ((ast.BoolOp, ast.BinOp, ast.AugAssign), _swappable, _operator),
    (ast.Constant, _number, _constant),
    (ast.IfExp, lambda *_: True, _branches),
    (ast.UnaryOp, lambda node, _: isinstance(node.op, ast.Not), _affirmed),
    ((ast.If, ast.While), _plain_condition, _negated),
    (ast.Continue, lambda *_: True, _ended),
    (ast.Expr, lambda node, _: isinstance(node.value, ast.Call), _left_out),
)
"""What may be changed: a kind of node, when, and how; the change is made in place and says what stands there now."""
