"""The control row as a reader sees it: which epoch is committed, and how far the base is in it."""

from cassandra import InvalidRequest

from cvs.errors import StoreError
from cvs.model.layout import quoted
from cvs.model.signature import Signature
from cvs.programs.epoch import CONTROL_BUCKET, CONTROL_TABLE, Control, control_of
from cvs.programs.stage_bucket import SENTINEL, BucketRead, decode_state
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession


def read_control(session: CassandraSession, keyspace: str, *, serial: bool = False) -> Control:
    """Read the control row of the pipeline that keeps its state in a keyspace."""
    table = f"{quoted(keyspace)}.{CONTROL_TABLE}"
    text = f"SELECT incarnation, epoch, chunk, last, row, stored FROM {table} WHERE bucket = ?"
    try:
        rows = session.execute(text, (CONTROL_BUCKET,), serial=serial)
    except InvalidRequest as refusal:
        if "Undefined column" in str(refusal):
            raise of_an_older_cvs(table) from refusal
        raise StoreError(
            f"there is no pipeline in keyspace {keyspace}",
            where=table,
            next_step="start one with `cvs run`, or name its state keyspace",
        ) from refusal
    except UNANSWERED as failure:  # also: a table that is just being made
        raise StoreError(
            "the cluster does not answer for the control row",
            where=keyspace,
            next_step="try again in a moment",
        ) from failure
    if not rows or rows[0][1] is None:
        raise StoreError(
            f"the pipeline in keyspace {keyspace} has not begun", next_step="wait for its first epoch"
        )
    incarnation, version, chunk, last = rows[0][:4]
    found = {
        row[4]: decode_state(row[5]) for row in rows if row[4] not in (None, SENTINEL) and row[5] is not None
    }
    signature = Signature(incarnation=incarnation, version=version, chunk=chunk, last=last)
    return control_of(BucketRead(signature=signature, rows=found))


def control_if_any(session: CassandraSession, keyspace: str) -> Control | None:
    """Read the control row; None where no pipeline has begun, or none can be asked."""
    try:
        return read_control(session, keyspace)
    except StoreError:
        return None


def of_an_older_cvs(table: str) -> StoreError:
    """Return the refusal of state whose rows this cvs cannot read."""
    return StoreError(
        "the state was written by an older cvs, whose rows this one cannot read",
        where=table,
        next_step="`cvs dump` the views, `cvs uninstall`, then `cvs apply`: they are built anew from the base tables",
    )
