"""Who leads: of several sidecars on one state keyspace one drives the epochs, the others stand by.

Advisory, never a condition of safety (PROTOCOL section 1): two that both believe to lead write the same things,
and one commit counts. It only saves the work of doing everything twice. The leader's name is a row that expires;
whoever finds it gone writes its own, by test-and-set, and goes on from the control row.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cassandra import InvalidRequest

from cvs.model.layout import quoted
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession

LEASE_SECONDS = 9
RENEWALS_A_LEASE = 3


def leader_statement(keyspace: str) -> str:
    """Return the definition of the table that names the leader."""
    return f"CREATE TABLE IF NOT EXISTS {quoted(keyspace)}.catalog_leader (id int PRIMARY KEY, process text)"


def leader(session: CassandraSession, keyspace: str) -> str:
    """Return the name of the process that leads; empty: none does, or nothing is there that could be led."""
    try:
        found = session.execute(
            f"SELECT process FROM {quoted(keyspace)}.catalog_leader WHERE id = 0", serial=True
        )
    except InvalidRequest:
        return ""
    return str((found[0][0] if found else None) or "")


@dataclass(slots=True, kw_only=True)
class Leadership:
    """This process's part in it: asks again and again, and tells when its part changes."""

    session: CassandraSession
    keyspace: str
    process: str
    changed: Callable[[bool], None] = lambda _: None
    standing_by: Callable[[], None] = lambda: None
    leading: Callable[[], None] = lambda: None
    failed: Callable[[], None] = lambda: None
    lease_seconds: int = LEASE_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    leader: str = ""
    failure: Exception | None = None
    _until: float = 0.0
    _was: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def leads(self) -> bool:
        """Say whether this process leads now; never longer than its lease, whatever happens to its renewals."""
        return self.monotonic() < self._until

    def start(self) -> None:
        """Ask once, then again and again in a thread."""
        self.ask()
        self._thread = threading.Thread(target=self._follow, name="leadership", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; give the lead up, so that another need not wait for the lease to end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.leads():
            self._until = 0.0
            self._send("DELETE FROM {table} WHERE id = 0 IF process = ?", (self.process,))

    def ask(self) -> None:
        """Renew the lead, or take it if nobody has it."""
        asked = self.monotonic()
        lease = f"UPDATE {{table}} USING TTL {self.lease_seconds} SET process = ? WHERE id = 0 IF process = "
        renewed = self._send(lease + "?", (self.process, self.process))
        if renewed is not None and not renewed[0]:
            self.leader = str((renewed[1] if len(renewed) > 1 else None) or "")
            renewed = None if self.leader else self._send(lease + "null", (self.process,))
        if renewed is not None and renewed[0]:
            self.leader, self._until = self.process, asked + self.lease_seconds
        if self._was != self.leads():
            self._was = self.leads()
            self.changed(self._was)
        (self.leading if self._was else self.standing_by)()

    def _follow(self) -> None:
        try:
            while not self._stop.wait(self.lease_seconds / RENEWALS_A_LEASE):
                self.ask()
        except Exception as fault:  # noqa: BLE001 -- because a process that can never lead again must not stay
            self.failure = fault
            self.failed()

    def _send(self, statement: str, values: tuple[str, ...]) -> tuple[Any, ...] | None:
        """Send one statement; None: no answer, so nothing is known and the lease runs on to its end."""
        table = f"{quoted(self.keyspace)}.catalog_leader"
        try:
            found = self.session.execute(statement.format(table=table), values)
        except UNANSWERED:
            return None
        return tuple(found[0])
