"""What changing a set of views keeps, rebuilds, drops.

A view is known by its name and is the same while its meaning is: its relation, columns, key and options. What
replaces it under its name is built beside it, in the state tables of the next incarnation, and shown when it is
whole: a reader sees the old view or the new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cvs.plan.sql import DeclaredView, base_names

Kind = Literal["kept", "added", "rebuilt", "dropped"]


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
