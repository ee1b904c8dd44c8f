"""Which of the kept views the base tables can still make: one whose column was dropped is no reason to refuse others.

A new incarnation leaves such views *aside*: the catalog and their tables stay as they are, nothing follows them, and
once what is missing is back the next `cvs rebuild --all` takes them in again.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cvs.errors import SpecificationError
from cvs.plan.sql import DeclaredView
from cvs.sidecar.catalog import Change

Parse = Callable[[str], tuple[DeclaredView, ...]]
_HEAD = re.compile(r"(?m)^(?=CREATE MATERIALIZED VIEW (\S+)$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Soundness:
    """The views that can be made, and why others cannot, by name."""

    views: tuple[DeclaredView, ...]
    broken: Mapping[str, str] = field(default_factory=dict)

    def refusal(self) -> SpecificationError:
        """Say which views cannot be made, and what to do about them."""
        told = ", ".join(f"{name} ({why})" for name, why in self.broken.items())
        return SpecificationError(
            f"views that the base tables cannot make any more: {told}",
            next_step=f"bring back what is missing, then cvs rebuild --all; or cvs drop {' or '.join(self.broken)}; "
            "cvs rebuild --all without it leaves them aside, as they stand",
        )


def told_aside(broken: Mapping[str, str]) -> str:
    """Say which views a new incarnation leaves aside, and what to do about them."""
    told = ", ".join(f"{name} ({why})" for name, why in broken.items())
    return (
        f"left aside as they stand, the base tables cannot make them any more: {told}. "
        f"bring back what is missing, then cvs rebuild --all, or cvs drop {' or '.join(broken)}"
    )


def statements_in(text: str) -> dict[str, str]:
    """Return the statements of a text that the catalog keeps, by the names of their views."""
    parts = _HEAD.split(text)[1:]  # name, statement, name, statement, ...
    return {name: rest.strip() for name, rest in zip(parts[::2], parts[1::2], strict=True)}


def soundness(parse: Parse, statements: Mapping[str, str]) -> Soundness:
    """Find what can be made of statements in their order; each that cannot costs a search, not a parse of each."""
    able, broken = list(statements), dict[str, str]()

    def reason(count: int) -> str:
        try:
            parse("\n".join(statements[name] for name in able[:count]))
        except SpecificationError as refusal:
            return refusal.what
        return ""

    while True:
        try:
            return Soundness(views=parse("\n".join(statements[name] for name in able)), broken=broken)
        except SpecificationError as refusal:
            good, bad, why = 0, len(able), refusal.what
        while bad - good > 1:
            middle = (good + bad) // 2
            if found := reason(middle):
                bad, why = middle, found
            else:
                good = middle
        broken[able.pop(good)] = why


def settled(
    found: Iterable[Change], *, aside: Iterable[str], wanted: Iterable[str], gone: str = ""
) -> tuple[Change, ...]:
    """Return changes as they are where views stood aside: made again where they can be, told where they cannot.

    `gone`: a view that is dropped.
    """
    away, made = {*aside}, {*wanted}

    def kind(change: Change) -> Change:
        if change.name == gone:
            return replace(change, kind="drop")
        if change.kind == "kept" and change.name not in made:
            return replace(change, kind="aside")
        if change.kind in ("kept", "unchanged") and change.name in away:
            return replace(change, kind="create", after=change.after or change.before)
        return change

    return tuple(map(kind, found))
