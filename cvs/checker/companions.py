"""Base records sent to the parts of a run that they touch.

All that happened to a base record goes to every part that one of its images touches, or in which a certificate
names it. Where the outcome of an update is unknown, so does what tells that it happened: that it was received, or
absorbed by whomever.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cvs.checker.parts import Parts
from cvs.history import events as ev
from cvs.history.carried import Arrow, arrowed, events_of, gather, spread, table_of, tag_of, whole_of
from cvs.history.columns import Gathered, Readers
from cvs.history.declared import declared
from cvs.history.fields import UNKNOWN
from cvs.history.packing import Integers
from cvs.history.router import TOUCH

_CALLED, _RETURNED, _RECEIVED = map(tag_of, (ev.BaseUpdateCalled, ev.BaseUpdateReturned, ev.UpdateReceived))


def companions(carried: dict[str, Arrow], parts: Parts) -> Iterator[tuple[int, str, Arrow]]:
    """Yield parts, kinds of events and their tables."""
    if _CALLED not in carried:
        return
    many = parts.facts.parts
    tables = [
        (kind, carried[kind].combine_chunks()) for kind in (_CALLED, _RETURNED, _RECEIVED) if kind in carried
    ]
    bases = [whole_of(table, "base") for _, table in tables]
    known, rank = np.unique(np.concatenate(bases), return_inverse=True)
    of_calls = rank[: len(bases[0])]
    images, unsure = _images(tables, rank, parts)
    touch = (
        [whole_of(carried[TOUCH], name) for name in ("base", "part", "version")] if TOUCH in carried else None
    )
    if touch is not None:
        place = np.minimum(np.searchsorted(known, touch[0]), len(known) - 1)
        ours = known[place] == touch[0]
        own, part, version = place[ours], touch[1][ours], touch[2][ours]
        images = np.append(images, (own * many + part)[part >= 0])
        if unsure[own].any():
            told, again = _absorbed(tables[0][1], of_calls, own[unsure[own]], version[unsure[own]])
            tables.append((_RECEIVED, told))
            rank = np.append(rank, again)
    pairs = np.unique(images)
    first = np.searchsorted(pairs, np.arange(len(known) + 1) * many)
    before = 0
    for kind, table in tables:
        own = rank[before : before + table.num_rows]
        before += table.num_rows
        counts = np.diff(first)[own]
        if kind == _RECEIVED:
            counts *= unsure[own]
        rows = np.repeat(np.arange(len(own)), counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        for to, piece in spread(table.drop_columns(["base"]), rows, pairs[first[own[rows]] + nth] % many):
            yield to, kind, piece


def _images(tables: list[tuple[str, Arrow]], rank: Integers, parts: Parts) -> tuple[Integers, Any]:
    """Return which part each image touches, with the rank of its record; and which records have unknown outcomes."""
    many, readers = parts.facts.parts, parts.touching()
    in_types, bases = declared(Readers(tables=readers), parts.tables)
    whole = Gathered(in_types, bases=bases, several=False)
    for _, table in tables:
        gather(whole, table)
    calls = whole.together(ev.BaseUpdateCalled, "number", "table")
    answers = whole.together(ev.BaseUpdateReturned, "number", "outcome")
    own, sizes = rank[calls["number"] - 1], int(rank.max()) + 1
    sure = np.bincount(rank[answers["number"] - 1][answers["outcome"] != UNKNOWN], minlength=sizes)
    found = [np.zeros(0, np.int64)]
    for number, name in enumerate(whole.tables):
        for reader in readers.get(name, ()):
            part = np.concatenate(reader.found)
            found.append((own[calls["table"] == number] * many + part)[part >= 0])
    if not parts.shaped:
        for at, event in zip(own.tolist(), events_of(tables[0][1], parts.headers), strict=True):
            found.append(
                np.array([at * many + p for p in parts.of_row(event.table, event.key, event.row)], np.int64)
            )
    return np.concatenate(found), np.bincount(own, minlength=sizes) > sure


def _absorbed(calls: Arrow, of_calls: Integers, own: Integers, version: Integers) -> tuple[Arrow, Integers]:
    """Say of versions that certificates name that they happened; return the ranks of their records too."""
    own, version = np.unique(np.stack((own, version)), axis=1)
    order = np.argsort(of_calls, kind="stable")
    first = order[np.searchsorted(of_calls[order], own)]
    some = calls.take(arrowed(first))
    told = table_of(
        [
            ev.UpdateReceived(
                process=e.process, time=e.time, stream="", entry=0, table=e.table, key=e.key, version=v
            )
            for e, v in zip(events_of(some), version.tolist(), strict=True)
        ],
        lines="line" in calls.schema.names,
    )  # fmt: skip
    for name in calls.schema.names:
        if name in ("at", "base", "latest"):
            told = told.append_column(name, some[name])
    return told, own
