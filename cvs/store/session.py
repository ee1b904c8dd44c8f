"""The session: one driver session a process, set so that every answer is honest.

Nothing is retried behind our back: the driver's default policy asks the next host after a lost connection,
whether or not the statement may be repeated, and turns an applied test-and-set into a refused one (style
reference 4.1; `tests/cluster/test_default_policy.py` shows it).
"""

import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from cassandra import AuthenticationFailed, ConsistencyLevel, DriverException, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionShutdown, ProtocolError
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    NoSpeculativeExecutionPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.pool import Host
from cassandra.protocol import ServerError
from cassandra.query import PreparedStatement, tuple_factory

from cvs.errors import StoreError
from cvs.model.outcome import OutcomeKind
from cvs.store.outcomes import UNANSWERED, outcome_of_error

CONNECT_SECONDS_MAX = 20.0
LOCAL_MARK = " [test-and-sets at LOCAL_SERIAL]"  # in a table's comment; without it they are at SERIAL
CLOSED_ON_US = (ConnectionShutdown, ConnectionResetError, BrokenPipeError, ProtocolError)
RECONNECT_SECONDS = 1.0
"""The driver's own policy waits up to ten minutes, and a node that came back would not be asked meanwhile."""
AT_ONCE = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
"""The driver sends in pieces of 4 KiB, and by itself the last of them waits 40 ms for the answer of the first."""
INSISTING_SECONDS = (1.0, 3.0)
"""What is waited before something is asked a second and a third time."""


CLOSE_SECONDS = 2.0
_LEFT = threading.Event()


def left_behind() -> bool:
    """Say whether a session was left while it opened connections: threads of the driver's would keep the process."""
    return _LEFT.is_set()


class _Opening:
    """One at a time opens a session; a forked child begins with a lock nobody holds."""

    lock = threading.Lock()


def _forget_lock() -> None:
    _Opening.lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


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
        self._of_our_level: set[tuple[str, str]] = set()

    def __reduce__(self) -> tuple[Callable[[ClusterAddress], "CassandraSession"], tuple[ClusterAddress]]:
        """Travel as an address: a session never crosses a process."""
        return (CassandraSession, (self.address,))

    @property
    def driver(self) -> Session:
        """Return the driver's session of this process, opening it at the first use."""
        if self._session is None or self._pid != os.getpid():
            with _Opening.lock:  # because threads that ask at once must share one
                if self._session is None or self._pid != os.getpid():
                    self._session, self._prepared, self._pid = _open(self.address), {}, os.getpid()
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

    def marked(self, comment: str) -> str:
        """Return the comment of a table made by this session: it says at which serial level, for ever."""
        return comment + (LOCAL_MARK if self.serial == ConsistencyLevel.LOCAL_SERIAL else "")

    def check_serial(self, keyspace: str, table: str) -> None:
        """Refuse a table made for the other serial level: rounds of the two do not see each other's promises."""
        if (keyspace, table) in self._of_our_level:
            return
        cluster = self.driver.cluster
        found = cluster.metadata.keyspaces.get(keyspace)
        if found is None or table not in found.tables:
            cluster.refresh_table_metadata(keyspace, table)
            found = cluster.metadata.keyspaces.get(keyspace)
        if found is None or table not in found.tables:
            return  # because the request itself will say that the table is not there
        marked = found.tables[table].options.get("comment", "").endswith(LOCAL_MARK)
        theirs = ConsistencyLevel.LOCAL_SERIAL if marked else ConsistencyLevel.SERIAL
        if theirs != self.serial:
            names = ConsistencyLevel.value_to_name
            raise StoreError(
                f"the table takes test-and-sets at {names[theirs]}, this session is set to {names[self.serial]}: "
                "mixed on one table they lose updates",
                where=f"{keyspace}.{table}",
                next_step=f'set serial_consistency = "{names[theirs]}", or begin with new tables',
            )
        self._of_our_level.add((keyspace, table))

    def execute(self, statement: str, values: tuple[Any, ...] = (), *, serial: bool = False) -> list[Any]:
        """Execute one statement with bound values and return all rows as tuples."""
        bound = self.prepared(statement).bind(values)
        if serial:
            bound.consistency_level = self.serial
        return list(self.driver.execute(bound))

    def insist(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Execute a read, or a write that means the same however often it is asked: after silence, again."""
        for pause in INSISTING_SECONDS:
            try:
                return self.execute(statement, values)
            except UNANSWERED as silence:
                if outcome_of_error(silence).kind is not OutcomeKind.UNKNOWN:
                    raise
                time.sleep(pause)
        return self.execute(statement, values)

    def define(self, statement: str) -> None:
        """Execute a definition (no values can be bound in it); names in it are checked by who makes it.

        A node that fails at one may have done half of it: sent again, it goes to another node, which knows nothing of
        that (seen: all said well, and the one that failed kept another schema).
        """
        self._define(statement)

    def define_all(self, statements: Iterable[str]) -> None:
        """Execute definitions one by one on one node, and wait once, after the last, until all nodes know them.

        Nodes tell each other by gossip, once a second, so each wait takes one. The node is the one that the driver's
        own knowledge comes from.
        """
        cluster, hosts = self.driver.cluster, list(self.driver.get_pool_state())
        told = cluster.get_control_connection_host()
        host = told if told in hosts or not hosts else hosts[0]
        waits, cluster.max_schema_agreement_wait = cluster.max_schema_agreement_wait, 0
        try:
            for statement in statements:
                self._define(statement, host=host)
        finally:
            cluster.max_schema_agreement_wait = waits
        try:
            cluster.refresh_schema_metadata()
        except DriverException as silence:
            raise StoreError(
                f"the nodes did not agree about the schema within {waits:g} s",
                next_step="see which `nodetool describecluster` shows apart; restart those, then again",
            ) from silence

    def _define(self, statement: str, *, host: Any = None) -> None:
        try:
            self.driver.execute(statement, timeout=60.0, host=host)
        except ServerError as failure:
            raise StoreError(
                f"a node failed at a definition: {failure.message}",
                where=statement.split(" WITH ")[0],
                next_step="restart the nodes that `nodetool describecluster` shows with another schema, then again",
            ) from failure

    def close(self) -> None:
        """Close the session of this process, if there is one.

        The driver waits for each connection that it is opening, 20 s for one to a node that hangs: that is left behind.
        """
        if self._session is not None and self._pid == os.getpid():
            closing = threading.Thread(target=self._session.cluster.shutdown, name="close", daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)
            if closing.is_alive():
                _LEFT.set()
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
        ssl_context=tls_context(address),
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=min(
            CONNECT_SECONDS_MAX, address.request_timeout_s
        ),  # for each node that hangs, one by one
        control_connection_timeout=CONNECT_SECONDS_MAX,  # by itself 2 s, too few to hear the schema of a busy node
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_SECONDS, max_attempts=None),
        protocol_version=5,
        sockopts=AT_ONCE,
    )
    try:
        return cluster.connect()
    except (NoHostAvailable, OSError, AuthenticationFailed) as fault:
        cluster.shutdown()
        found = {host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter}
        what, next_step = elsewhere(address.local_datacenter, found) or refusal(
            fault, tls=bool(address.ca_file)
        )
        raise StoreError(
            f"the cluster cannot be entered: {what}",
            where=f"{', '.join(address.contact_points)}, port {address.port}",
            next_step=next_step,
        ) from None  # because the driver's message may repeat what was sent


def nodes_in(driver: Session, datacentre: str) -> list[Host]:
    """Return the nodes of a datacentre, those that are down too; all of them where none is named."""
    return [it for it in driver.cluster.metadata.all_hosts() if not datacentre or it.datacenter == datacentre]


def elsewhere(local: str, found: set[str]) -> tuple[str, str] | None:
    """Say it if the nodes answered and none is where we were told to ask."""
    if not local or not found or local in found:
        return None
    return f'no node is in datacentre "{local}"', f"set local_datacenter to {' or '.join(sorted(found))}"


def refusal(fault: BaseException, *, tls: bool) -> tuple[str, str]:
    """Say why no host let us in and what to mend, without anything that was sent."""
    errors = fault.errors if isinstance(fault, NoHostAvailable) else {"": fault}
    causes = [*errors.values()] if isinstance(errors, dict) else []  # else names of hosts, without causes
    kinds = ", ".join(sorted({type(cause).__name__ for cause in causes}))
    for cause in causes:
        if isinstance(cause, AuthenticationFailed):
            return "user name or password were refused", "check username and password"
        # the driver keeps the words of a TLS fault, not its class
        if distrust := re.search(r"certificate verify failed: ([^(]+)", str(cause)):
            said = distrust[1].strip().rstrip(".")
            return (
                f"the node's certificate is not trusted: {said}",
                "check ca_file, or the name it was made for",
            )
        if fault_of_tls := re.search(r"\[SSL: (\w+)\]|\[SSL\] (\w+)", str(cause)):
            said = fault_of_tls[1] or fault_of_tls[2]
            return f"no TLS could be agreed ({said})", "is TLS on at this port? then check the files"
    if causes and not tls and all(isinstance(cause, CLOSED_ON_US) for cause in causes):
        return f"the node closed the connection ({kinds})", "it may ask for TLS: set ca_file"
    return "no host answered" + (
        f" ({kinds})" if kinds else ""
    ), "check contact points and port; does it run?"


def _authentication(address: ClusterAddress) -> PlainTextAuthProvider | None:
    if not address.username:
        return None
    return PlainTextAuthProvider(username=address.username, password=address.password)


def not_granted(refused: Unauthorized, username: str) -> StoreError:
    """Return what to say where a role may not do what was asked of it."""
    said = re.search(r'message="(.*)"', str(refused))
    return StoreError(
        f"the role may not do this: {said[1] if said else refused}",
        where=username,
        next_step="grant it what docker/role.cql grants",
    )


def tls_context(address: ClusterAddress) -> ssl.SSLContext | None:
    """Return how TLS is spoken to a cluster, None without; a certificate file names the authorities trusted."""
    if not address.ca_file:
        return None
    where = address.ca_file
    try:
        context = ssl.create_default_context(cafile=address.ca_file)
        if address.certificate_file:
            where = f"certificate_file {address.certificate_file}, or its key_file"
            context.load_cert_chain(address.certificate_file, address.key_file or None)
    except (OSError, ssl.SSLError) as fault:
        raise StoreError(
            f"the TLS files cannot be used: {fault.strerror or type(fault).__name__}",
            where=where,
            next_step="check that the files are readable PEM files, and the key that of its certificate",
        ) from fault
    context.check_hostname = address.verify_hostname
    return context
