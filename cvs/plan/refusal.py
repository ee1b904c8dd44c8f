"""Refusals: every "no" of the planner has a place in the text, a reason and the nearest thing that works."""

from collections.abc import Iterable
from difflib import get_close_matches

from sqlglot import ErrorLevel, exp

from cvs.errors import SpecificationError
from cvs.plan.nearest import CLAUSES, NEAREST_PARTS


def place(node: exp.Expr | None) -> str:
    """Return `line:column` of the first name or star inside a node, or nothing if none has a place."""
    if node is None:
        return ""
    for part in node.walk(bfs=False):
        if "line" in part.meta:
            width = part.meta["end"] - part.meta["start"]
            return f"line {part.meta['line']}:{max(1, part.meta['col'] - width)}"
    return place(node.parent) if node.parent is not None else ""


def refused(node: exp.Expr | None, what: str, nearest: str) -> SpecificationError:
    """Return the refusal of what stands at a node, to be raised."""
    return SpecificationError(what, where=place(node), next_step=nearest)


def nearest_of(wanted: str, known: Iterable[str]) -> str:
    """Return what a mistyped word may have meant, as the beginning of a hint; empty if nothing is near."""
    by_end = {name.split(".")[-1].lower(): name for name in known}
    found = get_close_matches(wanted.split(".")[-1].lower(), by_end, n=1)
    return f"did you mean `{by_end[found[0]]}`? " if found else ""


def shown(node: exp.Expr) -> str:
    """Return a node as SQL, cut to what fits a message."""
    try:
        text = node.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE)
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):  # parts that it needs are not there
        text = f"{node.key.upper()}(...)"
    return text if len(text) <= 60 else text[:57] + "..."


_HARMLESS = {"this", "expression", "expressions", "big_int", "safe", "typed", "coalesce", "requires_string"}


def refuse_extras(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a node with a part nobody reads: the parser adds such parts silently (`negate`, `symmetric`)."""
    for name, value in node.args.items():
        if value and name not in allowed and name not in _HARMLESS:
            instead = NEAREST_PARTS.get((type(node), name), "leave it out")
            raise refused(node, f"`{name.rstrip('_').upper()}` in `{shown(node)}`", instead)


def refuse_lacks(node: exp.Expr) -> None:
    """Refuse a node without a part that it must have: the parser counts the arguments of few functions."""
    for name, needed in node.arg_types.items():
        given = node.args.get(name)
        inner = given.this if isinstance(given, exp.TsOrDsToDate) else given  # the parser's own wrapping
        if needed and inner in (None, []):
            instead = NEAREST_PARTS.get((type(node), name), "write them all")
            raise refused(node, f"`{shown(node)}` has not all arguments that it takes", instead)


def refuse_clauses(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse clauses a query, a table or a join has beside the allowed ones."""
    for name, value in node.args.items():
        if value and name not in allowed:
            part = value[0] if isinstance(value, list) else value
            called, instead = CLAUSES.get(name, (name.rstrip("_").upper(), "leave it out"))
            raise refused(
                part if isinstance(part, exp.Expr) else node,
                f"`{called.format(value)}` is not in the language of views",
                instead,
            )
