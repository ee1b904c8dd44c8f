"""A real Kafka broker (KRaft, one node) from artifacts, for tests; it ends with its test process, however that goes."""

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cvs.embedded.artifacts import jars
from cvs.embedded.java import java
from cvs.embedded.processes import RunningProcess

SECONDS_MAX = 60

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run a broker; yields its bootstrap address."""
    port, settings = free_port(), folder / "server.properties"
    settings.write_text(PROPERTIES.format(port=port, control=free_port(), folder=folder))
    command = [java(), "-Xmx256M", "-cp", os.pathsep.join(map(str, jars("kafka")))]
    identity = str(uuid.uuid4())
    format_command = [*command, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)]
    subprocess.run(format_command, check=True, capture_output=True, timeout=SECONDS_MAX)
    log = folder / "broker.log"
    process = RunningProcess.owned([*command, "kafka.Kafka", str(settings)], output=log)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not _answers(port):
            assert process.alive, log.read_text()[-2000:]
            assert time.monotonic() < deadline, "the broker did not come up"
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
