"""A cluster of one to three real nodes on loopback addresses of its own, so that many can run at once."""

import random
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType

from cvs.embedded.configuration import NodeConfiguration
from cvs.embedded.node import Node
from cvs.errors import MissingEnvironmentError

NATIVE_PORT = 9042
STORAGE_PORT = 7000
ADDRESS_ATTEMPTS = 50


class EmbeddedCluster:
    """Nodes that start and end together; without a folder of its user's, its data goes with it."""

    def __init__(
        self, *, size: int = 1, folder: Path | None = None, detached: bool = False, **options: str
    ) -> None:
        """Lay out `size` nodes; `options` are those of `NodeConfiguration` (heap, paxos_variant, …)."""
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="cvs-cassandra-"))
        prefix = _free_prefix(size)
        addresses = [f"{prefix}.{number}" for number in range(1, size + 1)]
        self.nodes = [
            Node(
                configuration=NodeConfiguration(
                    folder=self.folder / f"node{number}",
                    cluster_name="cvs",
                    address=address,
                    seeds=(addresses[0],),
                    native_port=NATIVE_PORT,
                    storage_port=STORAGE_PORT,
                    jmx_port=_free_port(),
                    **options,
                ),
                detached=detached,
            )
            for number, address in enumerate(addresses, start=1)
        ]

    @property
    def contact_points(self) -> tuple[str, ...]:
        """Return the addresses a driver connects to."""
        return tuple(node.address for node in self.nodes)

    def start(self) -> "EmbeddedCluster":
        """Start the seed, then the others side by side; return when all answer."""
        try:
            self.nodes[0].start()
            self.nodes[0].wait_ready()
            for node in self.nodes[1:]:
                node.start()
                node.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every node; remove the data if the folder is ours."""
        for node in self.nodes:
            if self._own_folder:
                node.kill()
            else:
                node.stop()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "EmbeddedCluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_prefix(size: int) -> str:
    """Find a 127.a.b in which nobody listens where our nodes will."""
    chooser = random.SystemRandom()
    for _ in range(ADDRESS_ATTEMPTS):
        prefix = f"127.{chooser.randint(1, 254)}.{chooser.randint(0, 254)}"
        if all(
            _free(f"{prefix}.{number}", port)
            for number in range(1, size + 1)
            for port in (NATIVE_PORT, STORAGE_PORT)
        ):
            return prefix
    raise MissingEnvironmentError(
        "no free loopback addresses for a cluster",
        where=f"127.a.b.1..{size}, ports {NATIVE_PORT} and {STORAGE_PORT}",
        next_step="end servers that listen on all addresses",
    )


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
