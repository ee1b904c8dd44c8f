"""View records that no table of Cassandra can hold: their key is too long, or lacks a part. They are in quarantine.

They contribute nothing to the view, so a recording is judged without them; one that was shown all the same is judged
like any other.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as replace_fields

from cvs.checker.meaning import Base, DefinitionMeaning
from cvs.checker.provenance import Near, Versioned
from cvs.checker.reach import Reach
from cvs.checker.replay import BaseRecord, Key
from cvs.history import events as ev
from cvs.model.definitions import is_defined, view_from_json
from cvs.model.expressions import Column
from cvs.model.identity import key_identity
from cvs.model.keys import KEY_BYTES_MAX, refusal, size
from cvs.model.views import Aggregate, Join, Project, Relation, Scan, SetOperation

Columns = set[tuple[str, str]]


def too_long(key: Sequence[Any], partition: int = 0) -> bool:
    """Say whether no table can hold a key; where it is not known which part is which, whether one might not."""
    return bool(refusal(key, partition)) if partition else size(key) > KEY_BYTES_MAX


def parts_of(events: Iterable[Any]) -> dict[str, int]:
    """Return how many columns of each view's key are the partition key, as far as headers say it."""
    views = [it for event in events if isinstance(event, ev.RunStarted) for it in event.views]
    return {str(it.get("name")): it["partition"] for it in views if isinstance(it.get("partition"), int)}


def has_unheld(events: Sequence[Any]) -> bool:
    """Say whether a view record is there, or a base row could give one, that no table can hold."""
    parts, columns = parts_of(events), _in_keys(events)
    for event in events:
        if isinstance(event, ev.BaseUpdateCalled) and _may_not_fit(event.table, event.row, columns):
            return True
        if isinstance(event, ev.TestAndSetCalled) and too_long(event.view_key, parts.get(event.view, 0)):
            return True
        if isinstance(event, ev.Checkpoint) and (
            any(_may_not_fit(table, row, columns) for table, _, _, row in event.base)
            or any(too_long(key, parts.get(view, 0)) for view, key, *_ in event.views)
        ):
            return True
    return False


def _may_not_fit(table: str, row: ev.Row | None, columns: Columns | None) -> bool:
    if row is None:
        return False
    return too_long([v for name, v in row.items() if columns is None or (table, name) in columns])


def _in_keys(events: Iterable[Any]) -> Columns | None:
    """Name the base columns that stand in keys of views; None: any may, because some key is computed."""
    found: Columns = set()
    for view in (it for event in events if isinstance(event, ev.RunStarted) for it in event.views):
        if not is_defined(view):
            continue
        definition = view_from_json(view)
        for name in definition.key:
            columns = _behind(definition.relation, name)
            if not columns:
                return None
            found |= columns
    return found


def _behind(relation: Relation, name: str) -> Columns | None:
    """Name the base columns that a column only shows; none: it is not there, None: it is computed."""
    match relation:
        case Scan():
            alias = relation.alias + "."
            return {(relation.table, name.removeprefix(alias))} if name.startswith(alias) else set()
        case Project() | Aggregate():
            shown = relation.columns if isinstance(relation, Project) else relation.group
            expressions = [it.expression for it in shown if it.name == name]
            if isinstance(relation, Aggregate) and any(it.name == name for it in relation.aggregates):
                return None
            if not expressions:
                return set()
            (expression,) = expressions
            return _behind(relation.source, expression.name) if isinstance(expression, Column) else None
        case Join():
            sides = _behind(relation.left, name), _behind(relation.right, name)
            return None if None in sides else {column for side in sides for column in side or ()}
        case SetOperation():
            return None
        case _:
            return _behind(relation.source, name)


def without_them(events: Sequence[Any]) -> list[Any]:
    """Leave such records out of checkpoints, which are computed from the base: nobody saw them there."""
    parts = parts_of(events)
    return [
        replace_fields(
            event, views=tuple(it for it in event.views if not too_long(it[1], parts.get(it[0], 0)))
        )
        if isinstance(event, ev.Checkpoint)
        else event
        for event in events
    ]


def shown_anyway(events: Iterable[Any], view: str, partition: int) -> frozenset[Key]:
    """Return the keys that are too long and were given a row all the same."""
    return frozenset(
        key_identity(event.view_key)
        for event in events
        if isinstance(event, ev.TestAndSetCalled)
        and event.view == view
        and event.row is not None
        and too_long(event.view_key, partition)
    )


@dataclass(slots=True)
class HeldMeaning(DefinitionMeaning):
    """What a view means as far as its table can hold it."""

    shown: Collection[Key] = frozenset()

    def holds(self, key: Key) -> bool:
        """Say whether a record can be there."""
        return key in self.shown or not too_long(key, self.definition.partition)

    def view(self, base: Base) -> Mapping[Key, Any]:
        """Leave out what cannot be there."""
        return {key: row for key, row in DefinitionMeaning.view(self, base).items() if self.holds(key)}

    def contribution(self, record: BaseRecord, row: Any) -> Mapping[Key, Any]:
        """Leave out what cannot be there."""
        told = DefinitionMeaning.contribution(self, record, row)
        return {key: rows for key, rows in told.items() if self.holds(key)}

    def near(self, versions: Iterable[tuple[Versioned, Any]]) -> dict[Key, Near] | None:
        """Leave out what cannot be there."""
        found = DefinitionMeaning.near(self, versions)
        return None if found is None else {key: near for key, near in found.items() if self.holds(key)}

    def reach(self, timelines: Mapping[BaseRecord, Sequence[Any]]) -> Reach | None:
        """Leave out what cannot be there."""
        found = DefinitionMeaning.reach(self, timelines)
        if found is None:
            return None
        return replace(found, near={key: near for key, near in found.near.items() if self.holds(key)})
