"""Why a cluster did not let us in: one cause, one thing to mend, nothing that was sent."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import (
    AuthenticationFailed,
    DriverException,
    InvalidRequest,
    OperationTimedOut,
    UnresolvableContactPoints,
    WriteTimeout,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.protocol import ServerError

from cvs.embedded.certificates import ca_file, make_certificate
from cvs.errors import StoreError
from cvs.sidecar.views import unanswered
from cvs.store import session
from cvs.store.session import ClusterAddress, elsewhere, refusal, tls_context

DISTRUST = OSError(1, "Last error: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: IP address mismatch, "
                      "certificate is not valid for '127.0.0.1'. (_ssl.c:1006)")  # fmt: skip


@pytest.mark.parametrize(
    ("cause", "tls", "what", "mend"),
    [
        (AuthenticationFailed("bad secret"), True, "user name or password were refused", "password"),
        (DISTRUST, True, "the node's certificate is not trusted: IP address mismatch", "ca_file"),
        (OSError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version"), True, "no TLS could be agreed", "is TLS on"),
        (ConnectionShutdown("closed"), False, "the node closed the connection", "set ca_file"),
        (ConnectionShutdown("closed"), True, "no host answered (ConnectionShutdown)", "does it run?"),
        (ConnectionRefusedError(111, "refused"), False, "no host answered (ConnectionRefusedError)", "does it run?"),
    ],
)  # fmt: skip
def test_each_cause_has_its_own_words(cause: Exception, tls: bool, what: str, mend: str) -> None:
    """The causes the driver knows, and the words of TLS faults it passes on."""
    said, next_step = refusal(NoHostAvailable("none", {"127.0.0.1:9042": cause}), tls=tls)
    assert said.startswith(what)
    assert mend in next_step
    assert "secret" not in said


def test_no_cause_at_all_is_still_a_sentence() -> None:
    """A driver that gives up without saying why."""
    assert refusal(NoHostAvailable("none", {}), tls=False)[0] == "no host answered"


def test_a_client_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The CA file, which was well, was named for it."""
    make_certificate(tmp_path, "127.0.0.1")
    ca = str(ca_file(tmp_path))
    with pytest.raises(StoreError) as error:
        tls_context(ClusterAddress(contact_points=("a",), ca_file=ca, certificate_file="mine.pem"))
    assert error.value.where == "certificate_file mine.pem, or its key_file"


def test_threads_that_ask_at_once_share_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """One session a process, also when its first users come together; a fork opens its own."""
    opened: list[object] = []

    def slow(_address: ClusterAddress) -> object:
        time.sleep(0.05)
        opened.append(object())
        return opened[-1]

    monkeypatch.setattr(session, "_open", slow)
    ours = session.CassandraSession(ClusterAddress(contact_points=("127.0.0.1",)))
    with ThreadPoolExecutor(8) as crew:
        found = set(crew.map(lambda _: id(ours.driver), range(8)))
    assert len(found) == len(opened) == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert id(ours.driver) not in found


def test_a_definition_at_which_a_node_fails_is_not_sent_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was: the second node said that all was well, the first kept another schema, and nobody was told."""
    sent: list[str] = []

    class Driver:
        def execute(self, statement: str, timeout: float, host: object) -> None:
            sent.append(statement)
            raise ServerError(0, "java.lang.IllegalArgumentException: Unknown CF 5ea7", None)

    monkeypatch.setattr(session.CassandraSession, "driver", Driver())
    ours = session.CassandraSession(ClusterAddress(contact_points=("nowhere",)))
    with pytest.raises(StoreError, match="Unknown CF 5ea7") as told:
        ours.define("DROP KEYSPACE IF EXISTS a")
    assert (sent, told.value.where) == (["DROP KEYSPACE IF EXISTS a"], "DROP KEYSPACE IF EXISTS a")


@pytest.mark.parametrize("agreed", [True, False])
def test_many_definitions_wait_once_until_all_nodes_know_them(
    monkeypatch: pytest.MonkeyPatch, agreed: bool
) -> None:
    """Each waited a second for gossip: the first `cvs apply` of three views took half a minute on three nodes."""
    sent: list[tuple[str, object, float]] = []

    def refresh() -> None:
        sent.append(("", None, cluster.max_schema_agreement_wait))
        if not agreed:
            raise DriverException("Schema metadata was not refreshed. See log for details.")

    cluster = SimpleNamespace(
        max_schema_agreement_wait=10,
        get_control_connection_host=lambda: "two",
        refresh_schema_metadata=refresh,
    )
    driver = SimpleNamespace(
        cluster=cluster,
        get_pool_state=lambda: {"one": None, "two": None},
        execute=lambda statement, timeout, host: sent.append(
            (statement, host, cluster.max_schema_agreement_wait)
        ),
    )
    monkeypatch.setattr(session.CassandraSession, "driver", driver)
    ours = session.CassandraSession(ClusterAddress(contact_points=("nowhere",)))
    with (
        nullcontext()
        if agreed
        else pytest.raises(StoreError, match="did not agree about the schema within 10 s")
    ):
        ours.define_all(["CREATE KEYSPACE a", "CREATE TABLE a.t"])
    assert sent == [("CREATE KEYSPACE a", "two", 0), ("CREATE TABLE a.t", "two", 0), ("", None, 10)]


@pytest.mark.parametrize(
    ("faults", "asked", "ends_with"),
    [
        ([WriteTimeout("busy", write_type=0), OperationTimedOut()], 3, None),
        ([WriteTimeout("busy", write_type=0)] * 3, 3, WriteTimeout),
        ([InvalidRequest("no such table")], 1, InvalidRequest),
    ],
)
def test_after_silence_it_is_asked_again_and_after_a_refusal_not(
    monkeypatch: pytest.MonkeyPatch, faults: list[Exception], asked: int, ends_with: type[Exception] | None
) -> None:
    """One write timeout of a busy node ended `cvs apply`, whose statements mean the same sent twice."""
    sent: list[tuple[str, tuple[object, ...]]] = []

    def execute(_session: object, statement: str, values: tuple[object, ...]) -> list[object]:
        sent.append((statement, values))
        if len(sent) <= len(faults):
            raise faults[len(sent) - 1]
        return ["row"]

    monkeypatch.setattr(session.CassandraSession, "execute", execute)
    monkeypatch.setattr(session, "INSISTING_SECONDS", (0.0, 0.0))
    ours = session.CassandraSession(ClusterAddress(contact_points=("nowhere",)))
    if ends_with:
        with pytest.raises(ends_with):
            ours.insist("INSERT", (1,))
    else:
        assert ours.insist("INSERT", (1,)) == ["row"]
    assert sent == [("INSERT", (1,))] * asked


def test_the_wrong_datacentre_and_a_host_without_address_are_named() -> None:
    """The driver lists hosts without causes for the one, and nothing at all for the other."""
    said = elsewhere("dc9", {"datacenter1", "dc2"})
    assert said == ('no node is in datacentre "dc9"', "set local_datacenter to datacenter1 or dc2")
    assert elsewhere("dc9", set()) is elsewhere("", {"dc2"}) is elsewhere("dc2", {"dc2"}) is None
    assert refusal(NoHostAvailable("none", ["127.0.0.1"]), tls=False)[0] == "no host answered"
    said_of_names = unanswered(UnresolvableContactPoints({}))
    assert said_of_names.what == "no contact point has an address"


def test_a_node_that_hangs_keeps_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's shutdown waits for connections that are being opened, 20 s each."""
    hanging, gone = threading.Event(), session._LEFT
    monkeypatch.setattr(session, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(session, "_LEFT", threading.Event())
    opened: Any = SimpleNamespace(cluster=SimpleNamespace(shutdown=lambda: hanging.wait(60)))
    ours = session.CassandraSession(ClusterAddress(contact_points=("127.0.0.1",)))
    ours._session, ours._pid = opened, os.getpid()
    began = time.monotonic()
    ours.close()
    hanging.set()
    assert time.monotonic() - began < 30
    assert (session.left_behind(), gone.is_set()) == (True, False)
    ours._session, ours._pid = opened, os.getpid()
    monkeypatch.setattr(session, "_LEFT", threading.Event())
    monkeypatch.setattr(session, "CLOSE_SECONDS", 30)
    ours.close()
    assert not session.left_behind()


def test_each_node_that_hangs_is_waited_for_no_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tried one by one: two of three took 40 s."""
    seen: list[float] = []

    class Noted:
        def __init__(self, *, connect_timeout: float, **_: object) -> None:
            seen.append(connect_timeout)

        def connect(self) -> str:
            return "entered"

    monkeypatch.setattr(session, "Cluster", Noted)
    for seconds in (4.0, 60.0):
        address = ClusterAddress(contact_points=("127.0.0.1",), request_timeout_s=seconds)
        assert session.CassandraSession(address).driver == "entered"
    assert seen == [4.0, session.CONNECT_SECONDS_MAX]
