"""What one Cassandra node is told: its yaml, its JVM flags, its log pattern. Nothing is started here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.embedded.certificates import KEY_STORE_PASSWORD, key_store

STORAGE_PORT = 7000
TOKENS_END = 2**63

EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/java.lang.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
OPENS = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "jdk.management/com.sun.management.internal",
)
# How soon an acknowledged change is on disk, hence visible to capture (measured: README).
COMMIT_LOG_SYNC: Mapping[str, Mapping[str, str]] = {
    "group": {"commitlog_sync": "group", "commitlog_sync_group_window": "2ms"},
    "batch": {"commitlog_sync": "batch"},
    "periodic": {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"},
    "periodic-fast": {"commitlog_sync": "periodic", "commitlog_sync_period": "100ms"},
}
LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a caller may choose; everything else follows from reference and measurement (README)."""

    heap: str = "512M"
    native_port: int = 9042
    cdc: bool = True
    paxos_variant: str = "v2"
    commitlog_sync: str = "group"
    authentication: bool = False
    yaml: Mapping[str, Any] = field(default_factory=dict)
    jvm: tuple[str, ...] = ()
    tls: bool = False  # clients must use TLS; each node makes a certificate of its own (`Node.ca_file`)
    disk_size: str = ""  # such as 200m: storage on a small disk of its own, which `Node.fill_disk` can fill
    quick: bool = False  # start with less than two thirds of the CPU time, run slower later: for tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node lives: its number among how many, address, management port and folder."""

    number: int
    cluster_size: int
    address: str
    seeds: tuple[str, ...]
    management_port: int
    folder: Path

    @property
    def cdc_raw(self) -> Path:
        """Where the node links the commit-log segments that carry changes of CDC tables."""
        return self.storage / "cdc_raw"

    @property
    def storage(self) -> Path:
        """Everything the node keeps; its configuration and log stand outside."""
        return self.folder / "storage"

    @property
    def log(self) -> Path:
        """What the node said."""
        return self.folder / "system.log"


def node_yaml(place: Place, settings: NodeSettings, cluster_name: str) -> str:
    """Write cassandra.yaml (JSON is YAML)."""
    storage = place.storage
    content: dict[str, Any] = {
        "cluster_name": cluster_name,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": ",".join(place.seeds)}],
            }
        ],
        "listen_address": place.address,
        "rpc_address": place.address,
        "storage_port": STORAGE_PORT,
        "native_transport_port": settings.native_port,
        "num_tokens": 1,
        "initial_token": str(initial_token(place.number, place.cluster_size)),
        # because every node of a new cluster has its token and no data: all may join at once
        "auto_bootstrap": False,
        "data_file_directories": [str(storage / "data")],
        "commitlog_directory": str(storage / "commitlog"),
        "hints_directory": str(storage / "hints"),
        "saved_caches_directory": str(storage / "saved_caches"),
        "cdc_raw_directory": str(place.cdc_raw),
        "cdc_enabled": settings.cdc,
        "cdc_total_space": "1024MiB",
        "commitlog_segment_size": "8MiB",
        "paxos_variant": settings.paxos_variant,
        "paxos_state_purging": "repaired" if settings.paxos_variant == "v2" else "legacy",
        "materialized_views_enabled": True,
        "auto_snapshot": False,
        "disk_failure_policy": "stop",
        "commit_failure_policy": "stop",
        **COMMIT_LOG_SYNC[settings.commitlog_sync],
    }
    if settings.authentication:
        content["authenticator"] = "PasswordAuthenticator"
        content["authorizer"] = "CassandraAuthorizer"
    if settings.tls:
        content["client_encryption_options"] = {
            "enabled": True,
            "optional": False,
            "keystore": str(key_store(place.folder / "conf")),
            "keystore_password": KEY_STORE_PASSWORD,
            "store_type": "PKCS12",
        }
    return json.dumps({**content, **settings.yaml}, indent=1) + "\n"


def initial_token(number: int, nodes: int) -> int:
    """Give node `number` of `nodes` an equal share of the ring."""
    return -TOKENS_END + number * (2 * TOKENS_END // nodes) - 1


def jvm_flags(place: Place, settings: NodeSettings, jamm: Path) -> list[str]:
    """List the flags of Cassandra's own start script for Java 17, with a small heap and quick joining."""
    flags = [f"-Xmx{settings.heap}", "-Xms128M", "-XX:+UseParallelGC", "-XX:MaxDirectMemorySize=256M"]
    flags += ["-XX:TieredStopAtLevel=1"] if settings.quick else []
    flags += ["-XX:+ExitOnOutOfMemoryError", "-ea", "-Xss512k", "-XX:-UsePerfData", f"-javaagent:{jamm}"]
    flags += module_flags()
    conf = place.folder / "conf"
    properties = {
        "cassandra.config": (conf / "cassandra.yaml").as_uri(),
        "logback.configurationFile": str(conf / "logback.xml"),
        "cassandra.storagedir": str(place.storage),
        "cassandra.logdir": str(place.folder),
        "cassandra.triggers_dir": str(conf),
        "cassandra-foreground": "yes",
        "cassandra.jmx.local.port": str(place.management_port),
        "cassandra.skip_wait_for_gossip_to_settle": "0",
        "cassandra.ring_delay_ms": "2000",
        "cassandra.broadcast_interval_ms": "5000",  # because a node that replaces another waits it out, 60 s
        "cassandra.superuser_setup_delay_ms": "0",
        "cassandra.consistent.rangemovement": "false",
        "jdk.attach.allowAttachSelf": "true",
        "io.netty.tryReflectionSetAccessible": "true",
        "java.net.preferIPv4Stack": "true",
        "java.awt.headless": "true",
    }
    return flags + [f"-D{name}={value}" for name, value in properties.items()] + list(settings.jvm)


def module_flags() -> list[str]:
    """Open the parts of Java 17 that Cassandra's classes reach into (its server and its tools)."""
    exports = [word for pair in EXPORTS for word in ("--add-exports", f"{pair}=ALL-UNNAMED")]
    return exports + [word for pair in OPENS for word in ("--add-opens", f"{pair}=ALL-UNNAMED")]


def write_configuration(place: Place, settings: NodeSettings, cluster_name: str) -> None:
    """Put the node's files into its folder; what is there from an earlier start is replaced."""
    conf = place.folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    place.storage.mkdir(exist_ok=True)
    (conf / "cassandra.yaml").write_text(node_yaml(place, settings, cluster_name))
    (conf / "logback.xml").write_text(LOGBACK)
    (conf / "logback-tools.xml").write_text(LOGBACK.replace("INFO", "ERROR"))
