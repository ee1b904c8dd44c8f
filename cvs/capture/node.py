"""What capture asks of its node over CQL: identity, the settings that matter, `system_schema`.

One connection to this one node: settings and schema of another would be those of another log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import dict_factory

from cvs.capture.schema import QUERIES
from cvs.errors import StoreError
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CONNECT_SECONDS_MAX, ClusterAddress, not_granted, refusal, tls_context

FULL_ALARM = 0.7  # of cdc_total_space: time to act before the node does
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node says of itself, as far as capture depends on it."""

    host_id: str
    cdc_raw: Path
    cdc_enabled: bool
    blocks_writes: bool
    on_repair: bool
    cdc_total_space: int
    sync: str
    compressed: bool
    encrypted: bool
    access_mode: str

    def complaints(self) -> list[tuple[str, str]]:
        """Return (what is wrong, what to do) for every setting under which capture cannot be right."""
        found = []
        if not self.cdc_enabled:
            found.append(("cdc_enabled is false", "set cdc_enabled: true and restart the node"))
        if self.compressed:
            found.append(("the commit log is compressed", "remove commitlog_compression, restart the node"))
        if self.encrypted:
            found.append(("the commit log is encrypted", "disable transparent data encryption for it"))
        if self.access_mode in (
            "direct",
            "auto",
        ):  # the node does not say what auto became: direct, where it can
            what = f"commitlog_disk_access_mode is {self.access_mode}"
            found.append((what, "set it to mmap or standard, restart the node"))
        return found


def node_settings(said: Mapping[str, str | None], *, host_id: str = "") -> NodeSettings:
    """Read what a node's table of settings says."""
    return NodeSettings(
        host_id=host_id,
        cdc_raw=Path(said.get("cdc_raw_directory") or "cdc_raw"),
        cdc_enabled=said.get("cdc_enabled") == "true",
        blocks_writes=said.get("cdc_block_writes", "true") == "true",
        on_repair=said.get("cdc_on_repair_enabled", "true") == "true",
        cdc_total_space=_bytes(said.get("cdc_total_space") or "0B"),
        sync=said.get("commitlog_sync") or "periodic",
        compressed=bool(said.get("commitlog_compression.class_name")),
        encrypted=said.get("transparent_data_encryption_options.enabled") == "true",
        access_mode=said.get("commitlog_disk_access_mode") or "",
    )


def fullness(settings: NodeSettings, taken: int) -> str:
    """Say that cdc_raw fills up, and what the node does when it is full; nothing while there is room."""
    if not settings.cdc_total_space or taken <= FULL_ALARM * settings.cdc_total_space:
        return ""
    then = (
        "refuses writes to captured tables"
        if settings.blocks_writes
        else "deletes the oldest changes, and every view must be rebuilt"
    )
    return f"cdc_raw is {taken / settings.cdc_total_space:.0%} full: at 100% the node {then}"


class NodeConnection:
    """A CQL connection to one node."""

    def __init__(self, address: str, port: int, *, entry: ClusterAddress | None = None) -> None:
        """Remember where the node is; connect at the first question. `entry`: its cluster's user and TLS."""
        self._address, self._port = address, port
        self._user = entry.username if entry else ""
        self._auth = PlainTextAuthProvider(self._user, entry.password) if entry and self._user else None
        self._tls = tls_context(entry) if entry else None
        self._cluster: Any = None
        self._session: Any = None

    def settings(self) -> NodeSettings:
        """Ask for identity and settings."""
        me = self._rows("SELECT host_id FROM system.local")[0]
        said = {row["name"]: row["value"] for row in self._rows("SELECT * FROM system_views.settings")}
        return node_settings(said, host_id=str(me["host_id"]))

    def peers(self) -> int:
        """Return how many other nodes this one knows."""
        return len(self._rows("SELECT peer FROM system.peers_v2"))

    def schema(self) -> dict[str, list[dict[str, Any]]]:
        """Ask for the rows of `system_schema`."""
        return {name: self._rows(query) for name, query in QUERIES.items()}

    def truncations(self) -> dict[bytes, bytes]:
        """Ask for `system.local.truncated_at`: table id -> place in the log and moment."""
        (row,) = self._rows("SELECT truncated_at FROM system.local")
        return {table.bytes: value for table, value in (row["truncated_at"] or {}).items()}

    def close(self) -> None:
        """End the connection."""
        if self._cluster:
            self._cluster.shutdown()
            self._cluster = self._session = None

    def _rows(self, query: str) -> list[dict[str, Any]]:
        try:
            if self._session:
                return list(self._session.execute(query))
        except UNANSWERED:
            self.close()  # the node may have been restarted since: once more, over a new connection
        try:
            if not self._session:
                self._connect()
            return list(self._session.execute(query))
        except Unauthorized as refused:
            self.close()
            raise not_granted(refused, self._user) from refused
        except UNANSWERED as fault:
            self.close()
            why, mend = refusal(fault, tls=self._tls is not None)
            raise StoreError(
                f"the node does not answer: {why}",
                where=f"{self._address}:{self._port}",
                next_step=f"capture runs beside its own node, at its native address; {mend}",
            ) from None  # because the driver's message may repeat what was sent

    def _connect(self) -> None:
        profile = ExecutionProfile(
            load_balancing_policy=WhiteListRoundRobinPolicy([self._address]), row_factory=dict_factory
        )
        self._cluster = Cluster(
            [self._address],
            port=self._port,
            auth_provider=self._auth,
            ssl_context=self._tls,
            connect_timeout=CONNECT_SECONDS_MAX,
            control_connection_timeout=CONNECT_SECONDS_MAX,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        self._session = self._cluster.connect()


def _bytes(text: str) -> int:
    digits = "".join(character for character in text if character.isdigit())
    return int(digits or 0) * UNITS.get(text[len(digits) :], 1)
