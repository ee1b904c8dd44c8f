"""What a node is told: its yaml and its Java flags.

Every line that is not plain has its reason; facts come from Cassandra 5.0's own `conf/`.
"""

from dataclasses import dataclass
from pathlib import Path

EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
OPENS = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/jdk.internal.misc",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.nio",
    "jdk.management/com.sun.management.internal",
)

LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfiguration:
    """One node: where it lives, what it listens on, how much memory it gets."""

    folder: Path
    cluster_name: str
    address: str
    seeds: tuple[str, ...]
    native_port: int
    storage_port: int
    jmx_port: int
    heap: str = "512M"
    paxos_variant: str = "v2"
    commitlog_sync: str = "group"
    extra_yaml: str = ""

    @property
    def yaml(self) -> str:
        """Return cassandra.yaml."""
        return f"""cluster_name: '{self.cluster_name}'
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "{",".join(f"{seed}:{self.storage_port}" for seed in self.seeds)}"}}]
listen_address: {self.address}
rpc_address: {self.address}
native_transport_port: {self.native_port}
storage_port: {self.storage_port}
data_file_directories: [{self.folder}/data]
commitlog_directory: {self.folder}/commitlog
hints_directory: {self.folder}/hints
saved_caches_directory: {self.folder}/saved_caches
cdc_raw_directory: {self.folder}/cdc_raw
cdc_enabled: true
cdc_total_space: 1024MiB
commitlog_segment_size: 8MiB
{self._sync_yaml}
paxos_variant: {self.paxos_variant}
{"paxos_state_purging: repaired" if self.paxos_variant == "v2" else ""}
materialized_views_enabled: true
auto_bootstrap: false
auto_snapshot: false
hinted_handoff_enabled: true
concurrent_reads: 16
concurrent_writes: 16
memtable_heap_space: 96MiB
file_cache_size: 32MiB
{self.extra_yaml}
"""

    @property
    def _sync_yaml(self) -> str:
        # `group` makes a change durable, hence visible to capture, within its window (reference: 10/16 ms).
        windows = {
            "group": "commitlog_sync: group\ncommitlog_sync_group_window: 10ms",
            "batch": "commitlog_sync: batch",
            "periodic": "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms",
        }
        return windows[self.commitlog_sync]

    def java_flags(self, jamm: Path) -> list[str]:
        """Return the flags of the JVM, main class excluded."""
        properties = {
            "cassandra.config": (self.folder / "conf" / "cassandra.yaml").as_uri(),
            "cassandra.storagedir": str(self.folder),
            "cassandra.logdir": str(self.folder / "logs"),
            "logback.configurationFile": str(self.folder / "conf" / "logback.xml"),
            "cassandra-foreground": "yes",
            "cassandra.jmx.local.port": str(self.jmx_port),
            "cassandra.ring_delay_ms": "1000",
            "cassandra.skip_wait_for_gossip_to_settle": "0",  # because a cluster born together has no gossip yet
            "cassandra.superuser_setup_delay_ms": "0",
            "jdk.attach.allowAttachSelf": "true",
            "io.netty.tryReflectionSetAccessible": "true",
            "java.io.tmpdir": str(self.folder / "tmp"),
        }
        return [
            *(f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS),
            *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENS),
            f"-javaagent:{jamm}",
            f"-Xms{self.heap}",
            f"-Xmx{self.heap}",
            "-Xss512k",
            "-XX:+UseSerialGC" if self.heap.endswith("M") else "-XX:+UseG1GC",  # small heaps: fewer threads
            "-XX:TieredStopAtLevel=4",
            "-XX:+ExitOnOutOfMemoryError",
            *(f"-D{name}={value}" for name, value in properties.items()),
        ]

    def write(self) -> None:
        """Write the files that the node reads at its start."""
        for name in ("conf", "data", "commitlog", "hints", "saved_caches", "cdc_raw", "logs", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "conf" / "cassandra.yaml").write_text(self.yaml)
        (self.folder / "conf" / "logback.xml").write_text(LOGBACK)
