"""The session: one driver session a process, set so that every answer is honest.

Nothing is retried behind our back: the driver's default policy asks the next host after a lost connection,
whether or not the statement may be repeated, and turns an applied test-and-set into a refused one (style
reference 4.1; `tests/cluster/test_default_policy.py` shows it).
"""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cassandra import AuthenticationFailed, ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    NoSpeculativeExecutionPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.query import PreparedStatement, tuple_factory

from cvs.errors import StoreError

CONNECT_SECONDS_MAX = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """Where a cluster is and how to enter it; plain data, so it travels to worker processes."""

    contact_points: tuple[str, ...]
    port: int = 9042
    local_datacenter: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = field(default="", repr=False)
    verify_hostname: bool = True
    serial_consistency: str = "SERIAL"
    request_timeout_s: float = 10.0


class CassandraSession:
    """A driver session bound to the process that opened it; a fork opens its own."""

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self.serial = ConsistencyLevel.name_to_value[address.serial_consistency]
        self._pid = 0
        self._session: Session | None = None
        self._prepared: dict[str, PreparedStatement] = {}

    def __reduce__(self) -> tuple[Callable[[ClusterAddress], "CassandraSession"], tuple[ClusterAddress]]:
        """Travel as an address: a session never crosses a process."""
        return (CassandraSession, (self.address,))

    @property
    def driver(self) -> Session:
        """Return the driver's session of this process, opening it at the first use."""
        if self._session is None or self._pid != os.getpid():
            self._session, self._pid, self._prepared = _open(self.address), os.getpid(), {}
        return self._session

    def prepared(self, statement: str) -> PreparedStatement:
        """Return a prepared statement, prepared once a process."""
        found = self._prepared.get(statement)
        if found is None or self._pid != os.getpid():
            driver = self.driver
            found = self._prepared[statement] = driver.prepare(statement)
            found.consistency_level = ConsistencyLevel.QUORUM
            found.serial_consistency_level = self.serial
        return found

    def execute(self, statement: str, values: tuple[Any, ...] = (), *, serial: bool = False) -> list[Any]:
        """Execute one statement with bound values and return all rows as tuples."""
        bound = self.prepared(statement).bind(values)
        if serial:
            bound.consistency_level = self.serial
        return list(self.driver.execute(bound))

    def define(self, statement: str) -> None:
        """Execute a definition (no values can be bound in it); names in it are checked by who makes it."""
        self.driver.execute(statement, timeout=60.0)

    def close(self) -> None:
        """Close the session of this process, if there is one."""
        if self._session is not None and self._pid == os.getpid():
            self._session.cluster.shutdown()
        self._session = None


def _open(address: ClusterAddress) -> Session:
    local = (
        DCAwareRoundRobinPolicy(address.local_datacenter) if address.local_datacenter else RoundRobinPolicy()
    )
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(local),
        retry_policy=FallthroughRetryPolicy(),
        speculative_execution_policy=NoSpeculativeExecutionPolicy(),
        consistency_level=ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.name_to_value[address.serial_consistency],
        request_timeout=address.request_timeout_s,
        row_factory=tuple_factory,
    )
    cluster = Cluster(
        contact_points=list(address.contact_points),
        port=address.port,
        auth_provider=_authentication(address),
        ssl_context=_tls(address),
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=CONNECT_SECONDS_MAX,
        protocol_version=5,
    )
    try:
        return cluster.connect()
    except (NoHostAvailable, OSError, AuthenticationFailed) as fault:
        cluster.shutdown()
        raise StoreError(
            f"the cluster cannot be entered: {_kinds_of_fault(fault)}",
            where=f"{', '.join(address.contact_points)}, port {address.port}",
            next_step="check contact points, port, TLS files and credentials with `cvs doctor`",
        ) from None  # because the driver's message may repeat what was sent


def _kinds_of_fault(fault: BaseException) -> str:
    """Name the kinds of failure, host by host, without anything that was sent."""
    if isinstance(fault, NoHostAvailable):
        causes = {type(cause).__name__ for cause in (fault.errors or {}).values()}
        return "no host answered" + (f" ({', '.join(sorted(causes))})" if causes else "")
    return type(fault).__name__


def _authentication(address: ClusterAddress) -> PlainTextAuthProvider | None:
    if not address.username:
        return None
    return PlainTextAuthProvider(username=address.username, password=address.password)


def _tls(address: ClusterAddress) -> ssl.SSLContext | None:
    if not address.ca_file:
        return None
    try:
        context = ssl.create_default_context(cafile=address.ca_file)
        if address.certificate_file:
            context.load_cert_chain(address.certificate_file, address.key_file or None)
    except (OSError, ssl.SSLError) as fault:
        raise StoreError(
            f"the TLS files cannot be used: {fault.strerror or type(fault).__name__}",
            where=address.ca_file,
            next_step="check that the files are readable PEM files",
        ) from fault
    context.check_hostname = address.verify_hostname
    return context
