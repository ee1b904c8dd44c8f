"""The store on Cassandra: a record table a view, one partition a view record, one static signature each.

`schema` of a record table: partition key `record`, clustering key `row`, statics `incarnation, version, chunk,
last, absorbed`, one blob `body` a row. The first row is a sentinel with an empty key: a condition on a static
looks for the first live row, and tombstones before it would be walked (PROTOCOL H26).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from cvs.model.layout import quoted
from cvs.model.outcome import APPLIED, Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.model.values import decode_row, decode_value, encode_row, encode_value
from cvs.store.outcomes import outcome_of_error
from cvs.store.port import Body, Key, Partition, PartitionId, TestAndSet
from cvs.store.session import CassandraSession

SENTINEL = b""
READ_ATTEMPTS = 5  # a partition that changes between two pages five times is read at SERIAL in one piece

SCALARS = "incarnation, version, chunk, last"


def record_table(keyspace: str, name: str, comment: str = "") -> str:
    """Return the definition of a record table."""
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(keyspace)}.{quoted(name)} (record blob, row blob, "
        "incarnation bigint static, version bigint static, chunk int static, last boolean static, "
        "absorbed blob static, body blob, PRIMARY KEY ((record), row)) "
        f"WITH comment = '{comment}'"
    )


class CassandraStore:
    """The port on one keyspace of record tables; base tables are read where they are."""

    def __init__(self, session: CassandraSession, *, keyspace: str) -> None:
        self._session = session
        self._keyspace = keyspace

    def create(self, table: str) -> None:
        """Create the record table of a view, if it is not there."""
        self._session.define(record_table(self._keyspace, table, self._session.marked("cvs view records")))

    def read(
        self, partition: PartitionId, *, serial: bool = False, keys: Iterable[Key] | None = None
    ) -> Partition:
        """Read signature and rows; pages of different signatures are not mixed, but read again."""
        self._session.check_serial(self._keyspace, partition.table)
        for attempt in range(READ_ATTEMPTS):
            found = self._read(partition, serial or attempt == READ_ATTEMPTS - 1, keys)
            if found is not None:
                return found
        raise AssertionError("a SERIAL read of one partition answered with two signatures")

    def _read(self, partition: PartitionId, serial: bool, keys: Iterable[Key] | None) -> Partition | None:
        statement = (
            f"SELECT {SCALARS}, absorbed, row, body FROM {self._name(partition.table)} WHERE record = ?"
        )
        values: tuple[Any, ...] = (encode_value(partition.key),)
        if keys is not None:
            statement += " AND row IN ?"
            values += ([SENTINEL, *(encode_value(key) for key in keys)],)
        rows = self._session.execute(statement, values, serial=serial)
        signatures = {row[:5] for row in rows}
        if len(signatures) > 1:
            return None
        if not rows or rows[0][1] is None:
            return Partition(signature=None)
        bodies = {decode_value(row[5]): decode_row(row[6]) for row in rows if row[5] not in (None, SENTINEL)}
        return Partition(signature=_signature(rows[0]), rows=bodies)

    def test_and_set(self, request: TestAndSet) -> Outcome:
        """Ask once, as one conditional batch on one partition."""
        self._session.check_serial(self._keyspace, request.partition.table)
        try:
            result = self._session.driver.execute(self._batch(request))
            names, rows = result.column_names, list(result)
        except Exception as error:  # noqa: BLE001 -- because the table of outcomes is total
            return outcome_of_error(error)
        return _answer(dict(zip(names, rows[0], strict=True)))

    def _batch(self, request: TestAndSet) -> BatchStatement:
        record = encode_value(request.partition.key)
        table = self._name(request.partition.table)
        batch = BatchStatement(
            batch_type=BatchType.LOGGED,
            consistency_level=ConsistencyLevel.QUORUM,
            serial_consistency_level=self._session.serial,
        )
        new = (*request.new.scalars, encode_value(request.new.entries))
        if request.expected is None:
            insert = (
                f"INSERT INTO {table} (record, {SCALARS}, absorbed) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS"
            )
            batch.add(self._session.prepared(insert), (record, *new))
            sentinel = f"INSERT INTO {table} (record, row) VALUES (?, ?)"
            batch.add(self._session.prepared(sentinel), (record, SENTINEL))
        else:
            update = (
                f"UPDATE {table} SET incarnation = ?, version = ?, chunk = ?, last = ?, absorbed = ? "
                "WHERE record = ? IF incarnation = ? AND version = ? AND chunk = ? AND last = ?"
            )
            batch.add(self._session.prepared(update), (*new, record, *request.expected.scalars))
        if request.puts:
            put = self._session.prepared(f"INSERT INTO {table} (record, row, body) VALUES (?, ?, ?)")
            for key, body in request.puts:
                _add_bytes(batch, put, record, encode_value(key), encode_row(body))
        if request.deletes:
            delete = self._session.prepared(f"DELETE FROM {table} WHERE record = ? AND row = ?")
            for key in request.deletes:
                _add_bytes(batch, delete, record, encode_value(key))
        return batch

    def read_base(self, table: str, key: Key) -> Body | None:
        """Read one base record as it is now."""
        names = self._key_columns(table)
        condition = " AND ".join(f"{quoted(name)} = ?" for name in names)
        return next(iter(self._select(f"{_full_name(table)} WHERE {condition}", key)), None)

    def scan_base(self, table: str, column: str, value: object) -> list[Body]:
        """Read the base records whose column has a value; a filtering scan, as the paper's programs need."""
        return self._select(f"{_full_name(table)} WHERE {quoted(column)} = ? ALLOW FILTERING", (value,))

    def _select(self, rest: str, values: tuple[Any, ...]) -> list[Body]:
        result = self._session.driver.execute(self._session.prepared(f"SELECT * FROM {rest}").bind(values))
        names = result.column_names
        return [dict(zip(names, row, strict=True)) for row in result]

    def _key_columns(self, table: str) -> list[str]:
        keyspace, name = table.split(".", 1)
        found = self._session.driver.cluster.metadata.keyspaces[keyspace].tables[name]
        return [column.name for column in found.primary_key]

    def _name(self, table: str) -> str:
        return f"{quoted(self._keyspace)}.{quoted(table)}"


def _full_name(table: str) -> str:
    keyspace, name = table.split(".", 1)
    return f"{quoted(keyspace)}.{quoted(name)}"


def _add_bytes(batch: BatchStatement, statement: PreparedStatement, *values: bytes) -> None:
    """Add a statement all of whose values are blobs: `batch.add` would bind each again, at twice the price."""
    batch._add_statement_and_params(True, statement.query_id, values)


def _signature(row: tuple[Any, ...]) -> Signature:
    incarnation, version, chunk, last, entries = row[:5]
    return Signature(
        incarnation=incarnation,
        version=version,
        chunk=chunk,
        last=last,
        entries=decode_value(entries) if entries else (),
    )


def _answer(row: Mapping[str, Any]) -> Outcome:
    if row["[applied]"]:
        return APPLIED
    returned = None
    if row.get("version") is not None:
        returned = Signature(
            incarnation=row["incarnation"], version=row["version"], chunk=row["chunk"], last=row["last"]
        )
    return Outcome(kind=OutcomeKind.REJECTED, returned=returned, reason="the signature is another one")
