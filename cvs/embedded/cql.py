"""A plain CQL client for nodes of this machine: what tests, demos and `cvs node cql` ask with.

Not the door to storage (that is `store`): it interprets nothing, it retries nothing.
"""

import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from cassandra import ConsistencyLevel, DriverException, RequestExecutionException, RequestValidationException
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy, WhiteListRoundRobinPolicy
from cassandra.protocol import ErrorMessage
from cassandra.protocol import RequestValidationException as ValidationMessage
from cassandra.query import SimpleStatement

from cvs.errors import SpecificationError, StoreError

TIMEOUT_SECONDS = 60.0


@contextmanager
def describe_failure(where: str) -> Iterator[None]:
    """Turn what the driver raises into one message."""
    try:
        yield
    except NoHostAvailable as problem:
        raise StoreError("no node answers", where=where, next_step="`cvs node status`") from problem
    except (RequestValidationException, ValidationMessage) as problem:
        said = getattr(problem, "message", None) or str(problem)
        raise SpecificationError(f"Cassandra refuses the statement: {said}", where=where) from problem
    except (RequestExecutionException, DriverException, ErrorMessage) as problem:
        raise StoreError(f"Cassandra failed: {problem}", where=where) from problem


class Client:
    """A driver session with nothing clever in it."""

    def __init__(
        self,
        contact_points: Sequence[str],
        port: int,
        *,
        only_these: bool = False,
        credentials: tuple[str, str] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """Connect; `only_these` keeps the driver from talking to nodes it learns of."""
        hosts = list(contact_points)
        balance = WhiteListRoundRobinPolicy(hosts) if only_these else RoundRobinPolicy()
        profile = ExecutionProfile(
            load_balancing_policy=balance,
            retry_policy=FallthroughRetryPolicy(),
            consistency_level=ConsistencyLevel.QUORUM,
            serial_consistency_level=ConsistencyLevel.SERIAL,
            request_timeout=TIMEOUT_SECONDS,
        )
        self.cluster = Cluster(
            hosts,
            port=port,
            protocol_version=5,
            connect_timeout=30,
            control_connection_timeout=30,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            auth_provider=PlainTextAuthProvider(*credentials) if credentials else None,
            ssl_context=ssl.create_default_context(cafile=str(ca_file)) if ca_file else None,
        )
        self.session = self.cluster.connect()

    def run(
        self, statement: str, parameters: Iterable[Any] | None = None, *, consistency: str = "QUORUM"
    ) -> list[Any]:
        """Run one statement and give its rows."""
        level = ConsistencyLevel.name_to_value[consistency]
        asked = SimpleStatement(statement, consistency_level=level)
        return list(self.session.execute(asked, tuple(parameters) if parameters is not None else None))

    def table(self, statement: str, *, consistency: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run one statement and give column names and rows; both empty if it answers nothing."""
        if consistency.upper() not in ConsistencyLevel.name_to_value:
            known = ", ".join(ConsistencyLevel.name_to_value)
            raise SpecificationError(f"{consistency} is not a consistency level", next_step=f"known: {known}")
        level = ConsistencyLevel.name_to_value[consistency.upper()]
        result = self.session.execute(SimpleStatement(statement, consistency_level=level))
        return list(result.column_names or []), [tuple(row) for row in result]

    def close(self) -> None:
        """Let the driver's threads and connections go."""
        self.cluster.shutdown()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
