"""Everything the driver can raise has an outcome with a reason; nothing surely wrong is called certain."""

import inspect
from io import BytesIO
from types import ModuleType

import cassandra
import pytest
from cassandra import (
    InvalidRequest,
    OperationTimedOut,
    Unavailable,
    WriteTimeout,
    WriteType,
    cluster,
    connection,
    pool,
    protocol,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.pool import NoConnectionsAvailable

from cvs.model.outcome import OutcomeKind
from cvs.store.outcomes import ERRORS, UNANSWERED, CasWriteUnknown, outcome_of_error, words

MODULES: tuple[ModuleType, ...] = (cassandra, cluster, connection, pool, protocol)


def driver_errors() -> list[type[BaseException]]:
    """Return every exception class the driver's modules define."""
    found = {
        kind
        for module in MODULES
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and issubclass(kind, BaseException)
        and kind.__module__.startswith("cassandra")
    }
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def bare(kind: type[BaseException]) -> BaseException:
    """Return an instance without its constructor's demands: only the class decides here."""
    error = kind.__new__(kind)
    error.errors = {}  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize("kind", driver_errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_is_in_the_table(kind: type[BaseException]) -> None:
    """A class that a new driver brings fails here until somebody decides what it means."""
    assert any(rule.fits(bare(kind)) for rule in ERRORS), f"{kind.__module__}.{kind.__name__}"


def test_no_error_is_ever_applied_or_rejected() -> None:
    """An error says nothing about the state: only an answer can be applied or rejected."""
    assert {rule.kind for rule in ERRORS} == {OutcomeKind.NOT_SENT, OutcomeKind.UNKNOWN}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (WriteTimeout("x", write_type=WriteType.CAS), OutcomeKind.UNKNOWN),
        (WriteTimeout("x", write_type=WriteType.SIMPLE), OutcomeKind.UNKNOWN),
        (OperationTimedOut(), OutcomeKind.UNKNOWN),
        (Unavailable("x"), OutcomeKind.UNKNOWN),
        (CasWriteUnknown(0x1700, "unknown", {}), OutcomeKind.UNKNOWN),
        (protocol.OverloadedErrorMessage(0x1001, "busy", {}), OutcomeKind.UNKNOWN),
        (ConnectionShutdown("gone"), OutcomeKind.UNKNOWN),
        (NoHostAvailable("none", {"a": NoConnectionsAvailable("full")}), OutcomeKind.NOT_SENT),
        (NoHostAvailable("none", {}), OutcomeKind.NOT_SENT),
        (NoHostAvailable("none", {"a": ConnectionShutdown("gone")}), OutcomeKind.UNKNOWN),
        (InvalidRequest("no such table"), OutcomeKind.NOT_SENT),
        (ValueError("new"), OutcomeKind.UNKNOWN),
    ],
)
def test_each_kind_of_error_means_what_the_table_says(error: BaseException, kind: OutcomeKind) -> None:
    """The cases that matter, by name, with a reason each."""
    outcome = outcome_of_error(error)
    assert (outcome.kind, bool(outcome.reason)) == (kind, True)


def test_what_no_node_took_is_told_in_words() -> None:
    """The driver's own text of it is a tuple, which `cvs run` ended with."""
    refused = NoHostAvailable("none", {"10.0.0.1:9042": ConnectionShutdown("gone")})
    assert words(refused) == "no node takes a request; 10.0.0.1:9042: gone"
    assert words(NoHostAvailable("none", {})) == "no node takes a request"
    assert words(ConnectionShutdown("gone")) == "ConnectionShutdown: gone"


def test_the_driver_reads_the_answer_of_a_node_that_does_not_know() -> None:
    """It made an error of no family of it, which ended whoever waits for answers and asks again."""
    sent = BytesIO()
    protocol.write_int(sent, 0x1700)
    protocol.write_string(sent, "CAS operation result is unknown - proposal accepted by 1 but not a quorum.")
    sent.seek(0)
    read = protocol.ErrorMessage.recv_body(sent, 5)
    assert isinstance(read, CasWriteUnknown)
    assert isinstance(read.to_exception(), UNANSWERED)
