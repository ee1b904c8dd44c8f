"""Histories without their secrets: values replaced by a keyed hash, verdicts unchanged.

Only values that views treat as names are hidden (`uses.py`); what is added up, ordered or computed with stays,
or a view would mean something else. Equal values get equal hashes, so every equality survives. Whoever has the
key can recognise a value; nobody can without it.
"""

import hashlib
import hmac
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec

from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.history.uses import Uses, with_constants
from cvs.model.definitions import definition_to_json, table_from_json, view_from_json
from cvs.model.values import encode_value
from cvs.model.views import BaseTable, ViewDefinition, output_columns

Value = Any  # because a column may hold any CQL value
Hash = Callable[[Value], Value]

_HEX_DIGITS = 24  # 96 bits: two different values of one run do not meet
_KEY_BYTES_MIN = 16


def hasher(key: bytes) -> Hash:
    """Return the function that hides a value; null stays null, because SQL treats it apart."""
    if len(key) < _KEY_BYTES_MIN:
        raise AssumptionError(
            f"a key of {len(key)} bytes can be guessed",
            next_step=f"use {_KEY_BYTES_MIN} random bytes or more",
        )

    def hidden(value: Value) -> Value:
        if value is None:
            return None
        return hmac.new(key, encode_value(_one_form(value)), hashlib.sha256).hexdigest()[:_HEX_DIGITS]

    return hidden


def _one_form(value: Value) -> Value:
    """Return one form of equal numbers of different kinds: 1, 1.0 and 1.00 must get one hash."""
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return int(value)
        return float(value) if Decimal(float(value)) == value else value.normalize()
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What to hide in one run: columns by owner, and the key columns of each table and view."""

    hide: Hash
    hidden: Mapping[str, frozenset[str]]
    keys: Mapping[str, tuple[str, ...]]
    tables: tuple[dict[str, Any], ...]
    views: tuple[dict[str, Any], ...]

    def of_event(self, event: Any) -> Any:
        """Return an event without its secrets."""
        match event:
            case ev.RunStarted():
                return _with(event, views=self.views, tables=self.tables, settings={})
            case ev.BaseUpdateCalled():
                return _with(
                    event, key=self._key(event.table, event.key), row=self._row(event.table, event.row)
                )
            case ev.UpdateReceived():
                return _with(event, key=self._key(event.table, event.key))
            case ev.TestAndSetCalled():
                row = self._row(event.view, event.row)
                key = self._key(event.view, event.view_key)
                return _with(event, view_key=key, row=row, absorbed=self._lines(event.absorbed))
            case ev.EpochCommitted():
                return _with(event, absorbed=self._lines(event.absorbed))
            case ev.ViewReadCalled() if event.view_key is not None:
                return _with(event, view_key=self._key(event.view, event.view_key))
            case ev.Checkpoint():
                base = tuple((t, self._key(t, k), v, self._row(t, r)) for t, k, v, r in event.base)
                views = tuple((w, self._key(w, k), s, self._row(w, r)) for w, k, s, r in event.views)
                return _with(event, base=base, views=views)
            case _:
                return event

    def of_read(self, event: ev.ViewReadReturned, view: str) -> Any:
        """Return what a read of a view saw, without its secrets."""
        rows = tuple((self._key(view, key), self._row(view, row)) for key, row in event.rows)
        return _with(event, rows=rows)

    def _lines(self, absorbed: Iterable[ev.Absorbed]) -> tuple[ev.Absorbed, ...]:
        return tuple(_with(line, key=self._key(line.table, line.key)) for line in absorbed)

    def _key(self, owner: str, key: ev.Key) -> ev.Key:
        names = self.keys.get(owner)
        if names is None:
            return tuple(map(self.hide, key))
        hidden = self.hidden[owner]
        return tuple(
            self.hide(value) if name in hidden else value for name, value in zip(names, key, strict=True)
        )

    def _row(self, owner: str, row: ev.Row | None) -> ev.Row | None:
        if row is None:
            return None
        hidden = self.hidden.get(owner)
        return {n: self.hide(v) if hidden is None or n in hidden else v for n, v in row.items()}


def redacted(events: Iterable[ev.AnyEvent], key: bytes) -> list[ev.AnyEvent]:
    """Return a whole run without its secrets; its verdict is the same.

    Values of views that the header knows by name only are all hidden: nothing is computed from them.
    """
    listed = list(events)
    redaction = _redaction_of(listed, hasher(key))
    reads: dict[tuple[str, int], str] = {}
    found = []
    for event in listed:
        if isinstance(event, ev.ViewReadCalled):
            reads[event.process, event.operation] = event.view
        if isinstance(event, ev.ViewReadReturned):
            found.append(redaction.of_read(event, reads.get((event.process, event.operation), "")))
        else:
            found.append(redaction.of_event(event))
    return found


def _redaction_of(events: Iterable[ev.AnyEvent], hide: Hash) -> Redaction:
    headers = [event for event in events if isinstance(event, ev.RunStarted)]
    tables = {t.name: t for h in headers for t in map(table_from_json, h.tables)}
    defined = [d for h in headers for d in h.views if set(d) != {"name"}]
    views = list({v.name: v for v in map(view_from_json, defined)}.values())
    named = tuple(
        {"name": n} for n in dict.fromkeys(d["name"] for h in headers for d in h.views if len(d) == 1)
    )
    known = dict(tables)
    for view in views:
        known[view.name] = _as_table(view, known)
    uses = Uses(tables=known)
    for view in views:
        _look_at(view, uses)
    uses.close()
    hidden = {
        name: frozenset(c for c, _ in table.columns if (name, c) not in uses.kept)
        for name, table in known.items()
    }
    return Redaction(
        hide=hide,
        hidden=hidden,
        keys={name: table.key for name, table in known.items()},
        tables=tuple(definition_to_json(_as_text(t, hidden[t.name])) for t in tables.values()),
        views=(*(definition_to_json(with_constants(v, uses.kept, hide)) for v in views), *named),
    )


def _as_table(view: ViewDefinition, known: Mapping[str, BaseTable]) -> BaseTable:
    names = output_columns(view.relation, known) or ()
    return BaseTable(name=view.name, columns=tuple((n, "text") for n in names), partition_key=view.key)


def _look_at(view: ViewDefinition, uses: Uses) -> None:
    try:
        uses.of_view(view)
    except KeyError as error:
        raise AssumptionError(
            f'view "{view.name}" reads table {error}, which the header does not declare',
            next_step="only declared columns can be told apart: declare the tables in run_started",
        ) from error


def _as_text(table: BaseTable, hidden: frozenset[str]) -> BaseTable:
    columns = tuple((name, "text" if name in hidden else kind) for name, kind in table.columns)
    return replace(table, columns=columns)


def _with(event: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(event, **changes)
