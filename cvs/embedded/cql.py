"""A plain CQL client for nodes of this machine: what tests, demos and `cvs node cql` ask with.

Not the door to storage (that is `store`): it interprets nothing, it retries nothing.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy, WhiteListRoundRobinPolicy
from cassandra.query import SimpleStatement

TIMEOUT_SECONDS = 60.0


class Client:
    """A driver session with nothing clever in it."""

    def __init__(
        self,
        contact_points: Sequence[str],
        port: int,
        *,
        only_these: bool = False,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        """Connect; `only_these` keeps the driver from talking to nodes it learns of."""
        from cassandra.auth import PlainTextAuthProvider

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
        )
        self.session = self.cluster.connect()

    def run(
        self, statement: str, parameters: Iterable[Any] | None = None, *, consistency: str = "QUORUM"
    ) -> list[Any]:
        """Run one statement and give its rows."""
        level = ConsistencyLevel.name_to_value[consistency]
        asked = SimpleStatement(statement, consistency_level=level)
        return list(self.session.execute(asked, tuple(parameters) if parameters is not None else None))

    def close(self) -> None:
        """Let the driver's threads and connections go."""
        self.cluster.shutdown()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
