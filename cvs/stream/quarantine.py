"""What contributes nothing to views, where operators find it: `cvs quarantine`.

Rows are put, or taken out, before the epoch that found them is committed, with the epoch as write time: a replay
puts the same, and nothing is forgotten.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cvs.model.layout import quoted
from cvs.programs.epoch_run import Quarantined
from cvs.store.sending import carry_out
from cvs.store.session import CassandraSession
from cvs.stream.tables import QUARANTINE_TABLE, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row in quarantine."""

    source: str
    key: str
    reason: str
    epoch: int


def put_quarantined(
    session: CassandraSession, names: Names, epoch: int, found: Iterable[Quarantined]
) -> None:
    """Put what an epoch found, and take out what is well again."""
    entries = list(found)
    if not entries:
        return
    table = f"{quoted(names.keyspace)}.{QUARANTINE_TABLE}"
    put = session.prepared(
        f"INSERT INTO {table} (incarnation, source, key, reason, epoch) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
    )
    take = session.prepared(
        f"DELETE FROM {table} USING TIMESTAMP ? WHERE incarnation = ? AND source = ? AND key = ?"
    )
    number = names.incarnation
    puts = [(number, it.source, it.key, it.reason, epoch, epoch) for it in entries if it.reason]
    takes = [(epoch, number, it.source, it.key) for it in entries if not it.reason]
    carry_out(session.driver, (*map(put.bind, puts), *map(take.bind, takes)))


def quarantined(session: CassandraSession, keyspace: str, incarnation: int) -> list[Entry]:
    """Return what is in quarantine."""
    rows = session.execute(
        f"SELECT source, key, reason, epoch FROM {quoted(keyspace)}.{QUARANTINE_TABLE} WHERE incarnation = ?",
        (incarnation,),
    )
    return [Entry(source=source, key=key, reason=reason, epoch=epoch) for source, key, reason, epoch in rows]


def forget(session: CassandraSession, keyspace: str, incarnation: int) -> None:
    """Empty the quarantine of an incarnation that is no more."""
    session.execute(
        f"DELETE FROM {quoted(keyspace)}.{QUARANTINE_TABLE} WHERE incarnation = ?", (incarnation,)
    )
