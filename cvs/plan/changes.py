"""What changing a set of views, or the base tables under it, keeps, rebuilds, drops or breaks.

A view is known by its name and is the same while its meaning is: its relation, columns, key and options. What
replaces it under its name is built beside it, in the state tables of the next incarnation, and shown when it is
whole: a reader sees the old view or the new one. State is known by what it holds, not by its name: a zone whose
stages, inputs down to the base tables and buckets are the same holds the same rows in both plans.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from cvs.errors import SpecificationError
from cvs.model.stages import Edge, Plan
from cvs.model.views import BaseTable
from cvs.plan.sql import DeclaredView, base_names, parse_views

Kind = Literal["kept", "added", "rebuilt", "dropped", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """What becomes of one view, and why."""

    view: str
    kind: Kind
    because: str = ""


def difference(before: Sequence[DeclaredView], after: Sequence[DeclaredView]) -> tuple[ViewChange, ...]:
    """Compare two sets of views; what reads a rebuilt view is compared by its own meaning down to the base tables."""
    old, new = {view.name: view for view in before}, {view.name: view for view in after}
    found = [
        ViewChange(view=name, kind="dropped", because="it is not declared any more")
        for name in old.keys() - new
    ]
    rebuilt: set[str] = set()
    for name, view in new.items():
        if name not in old:
            found.append(ViewChange(view=name, kind="added"))
            continue
        why = _other(old[name], view) or next(
            (
                f"it reads {below}, which is rebuilt"
                for below in sorted(base_names(view.definition) & rebuilt)
            ),
            "",
        )
        if why:
            rebuilt.add(name)
        found.append(ViewChange(view=name, kind="rebuilt" if why else "kept", because=why))
    return tuple(sorted(found, key=lambda change: change.view))


def under(
    views: Sequence[DeclaredView], tables: Mapping[str, BaseTable]
) -> tuple[tuple[DeclaredView, ...], tuple[ViewChange, ...]]:
    """Declare views anew over changed base tables: those that still can be, and what becomes of each.

    An added column changes a view only where `SELECT *` takes it in; a column or table that went breaks the views
    that read it, and the views that read those.
    """
    known, kept, changes = dict(tables), [], []
    broken: dict[str, str] = {}
    for view in views:
        reads = sorted(base_names(view.definition) & broken.keys())
        if reads:
            broken[view.name] = f"it reads {reads[0]}, which is broken"
        else:
            try:
                again = _again(view, known)
            except SpecificationError as refusal:
                broken[view.name] = refusal.what
            else:
                kept.append(again)
                known[again.name] = again.table
        if view.name in broken:
            changes.append(ViewChange(view=view.name, kind="broken", because=broken[view.name]))
    alive = {view.name for view in kept}
    changes += difference([view for view in views if view.name in alive], kept)
    return tuple(kept), tuple(sorted(changes, key=lambda change: change.view))


def same_state(before: Plan, after: Plan) -> dict[str, str]:
    """Return, for zones of the new plan, the zone of the old one whose rows it can take over as they are."""
    old = {form: name for name, form in _forms(before).items()}
    return {name: old[form] for name, form in _forms(after).items() if form in old}


def _other(old: DeclaredView, new: DeclaredView) -> str:
    """Say what is different about a view, most visible first; empty if nothing is."""
    if old.columns != new.columns:
        gone = [name for name, _ in old.columns if name not in dict(new.columns)]
        come = [name for name, _ in new.columns if name not in dict(old.columns)]
        typed = [f"{n} is {t}" for n, t in new.columns if dict(old.columns).get(n, t) != t]
        said = [*(f"{n} is gone" for n in gone), *(f"{n} is new" for n in come), *typed]
        return f"other columns: {', '.join(said) or 'their order'}"
    if old.key != new.key:
        return f"other key: ({', '.join(new.key.columns)}) instead of ({', '.join(old.key.columns)})"
    if old.definition != new.definition:
        return "another query"
    if old.options != new.options:
        return "other properties"
    return ""


def _again(view: DeclaredView, tables: Mapping[str, BaseTable]) -> DeclaredView:
    """Parse a view's query once more, over other tables."""
    visible = {name: table for name, table in tables.items() if name != view.name}
    (again,) = parse_views(view.statement, visible)
    return again


def _forms(plan: Plan) -> dict[str, str]:
    """Return zone -> a name for what it holds."""
    held: dict[str, str] = {base.name: base.name for base in plan.bases}
    forms: dict[str, str] = {}
    for zone in plan.zones:
        for stage in zone.stages:
            parts = [type(stage).__name__]
            parts += [
                repr(_form(getattr(stage, part.name), held)) for part in fields(stage) if part.name != "name"
            ]
            held[stage.name] = _digest(parts)
        forms[zone.name] = _digest([str(zone.buckets), *(held[stage.name] for stage in zone.stages)])
    return forms


def _form(value: Any, held: Mapping[str, str]) -> Any:
    if isinstance(value, Edge):
        return (held[value.source], value.columns, value.where)
    if isinstance(value, tuple):
        return tuple(_form(part, held) for part in value)
    return value


def _digest(parts: Sequence[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
