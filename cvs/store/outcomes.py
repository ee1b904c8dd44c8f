"""Outcomes: one total table from everything the driver can return or raise to what is known.

Most specific first; the first row that fits decides. What fits none is *unknown*, because unknown is always sound
and only costs precision: it is resolved by a SERIAL read and one's own signature, never by asking again.

Cassandra applies a conditional write possibly after it told the client of a failure (reference, section 3e), so
everything a coordinator says *after* it took the request is unknown, "unavailable" and "overloaded" included when
they could come from a later phase of Paxos.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cassandra
from cassandra import cluster, connection, pool, protocol, query, segment

from cvs.model.outcome import Outcome, OutcomeKind


class CasWriteUnknown(protocol.RequestExecutionException):  # type: ignore[misc]  # because the driver has no types
    """What a node says that does not know whether a test-and-set took effect (Paxos v1).

    It is in the server's protocol 5 and not in the driver, which raised an error of no family; its registry takes it.
    """

    summary = "Test-and-set of unknown outcome"
    error_code = 0x1700


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: which errors it is about, what they mean, and why."""

    fits: Callable[[BaseException], bool]
    kind: OutcomeKind
    reason: str


def _is(*kinds: type) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, kinds)


def _no_host_was_asked(error: BaseException) -> bool:
    """Say whether every host was given up before the request was handed to a connection."""
    return isinstance(error, cluster.NoHostAvailable) and all(
        isinstance(cause, BEFORE_SENDING) for cause in (error.errors or {}).values()
    )


BEFORE_SENDING = (pool.NoConnectionsAvailable, connection.ConnectionBusy)

UNANSWERED = (
    cassandra.DriverException,
    cluster.NoHostAvailable,
    connection.ConnectionException,
    OSError,
    protocol.ServerError,  # a node that is starting, or a table that is just being made anew
    protocol.RequestExecutionException,  # overloaded, bootstrapping, truncating, 0x1700
)
"""What the driver raises where no answer came: what means the same however often it is asked may be asked again."""

UNKNOWN_TO_US = Rule(
    fits=lambda _error: True,
    kind=OutcomeKind.UNKNOWN,
    reason="not in the table: unknown is always sound",
)

ERRORS: tuple[Rule, ...] = (
    Rule(fits=_no_host_was_asked, kind=OutcomeKind.NOT_SENT, reason="no host could be asked"),
    Rule(fits=_is(cluster.NoHostAvailable), kind=OutcomeKind.UNKNOWN, reason="a host may have been asked"),
    Rule(fits=_is(*BEFORE_SENDING), kind=OutcomeKind.NOT_SENT, reason="no connection had room"),
    Rule(
        fits=_is(protocol.PreparedQueryNotFound),
        kind=OutcomeKind.NOT_SENT,
        reason="refused before execution: the statement is not prepared there",
    ),
    Rule(
        fits=_is(
            cassandra.RequestValidationException,
            protocol.RequestValidationException,
            cassandra.AuthenticationFailed,
            cassandra.UnsupportedOperation,
            cassandra.UnresolvableContactPoints,
            cassandra.DependencyException,
            cluster.UserTypeDoesNotExist,
            connection.ProtocolVersionUnsupported,
            protocol.NotSupportedError,
            protocol.BadCredentials,
            protocol.ProtocolException,
        ),
        kind=OutcomeKind.NOT_SENT,
        reason="refused by validation, before any phase of Paxos",
    ),
    Rule(fits=_is(CasWriteUnknown), kind=OutcomeKind.UNKNOWN, reason="the server says it does not know"),
    Rule(
        fits=_is(cassandra.WriteTimeout, cassandra.ReadTimeout, cassandra.Timeout),
        kind=OutcomeKind.UNKNOWN,
        reason="a phase of Paxos did not finish; somebody else's round may finish it",
    ),
    Rule(
        fits=_is(cassandra.OperationTimedOut),
        kind=OutcomeKind.UNKNOWN,
        reason="the client stopped waiting; the request is on its way",
    ),
    Rule(
        fits=_is(cassandra.Unavailable),
        kind=OutcomeKind.UNKNOWN,
        reason="too few replicas at some phase, maybe after a proposal was accepted",
    ),
    Rule(
        fits=_is(cassandra.CoordinationFailure, cassandra.CDCWriteFailure, cassandra.FunctionFailure),
        kind=OutcomeKind.UNKNOWN,
        reason="some replicas failed, others may have accepted",
    ),
    Rule(
        fits=_is(cassandra.RequestExecutionException, cassandra.DriverException, protocol.ErrorMessage),
        kind=OutcomeKind.UNKNOWN,
        reason="the coordinator failed while or after executing",
    ),
    Rule(
        fits=_is(
            segment.CrcException,
            query.TraceUnavailable,
            connection.ConnectionException,
            connection.ProtocolError,
            protocol.InternalError,
            cluster.QueryExhausted,
        ),
        kind=OutcomeKind.UNKNOWN,
        reason="the connection was lost with the request in flight",
    ),
)


def words(failure: BaseException) -> str:
    """Say what a request ended in; of one that no node took the driver says it as a tuple."""
    if not isinstance(failure, cluster.NoHostAvailable):
        return f"{type(failure).__name__}: {failure}"
    causes = failure.errors if isinstance(failure.errors, dict) else {}
    return "; ".join(["no node takes a request", *(f"{host}: {cause}" for host, cause in causes.items())])


def outcome_of_error(error: BaseException) -> Outcome:
    """Return what is known after the driver raised `error` for a test-and-set."""
    rule = next((rule for rule in ERRORS if rule.fits(error)), UNKNOWN_TO_US)
    return Outcome(kind=rule.kind, reason=f"{type(error).__name__}: {rule.reason}")
