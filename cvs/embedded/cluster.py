"""A real cluster of one to a few nodes on this machine, for tests, demos and benches."""

import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from cassandra import ReadTimeout, Unavailable
from cassandra.cluster import NoHostAvailable

from cvs.embedded.configuration import STORAGE_PORT, NodeSettings, Place
from cvs.embedded.cql import Client
from cvs.embedded.namespaces import PrivateNetwork
from cvs.embedded.node import Node
from cvs.errors import MissingEnvironmentError

JOIN_SECONDS = 120.0
MEMORY_DISK_BYTES = 3 * 2**30  # a node
REPLICAS = 3  # of the keyspace system_distributed


class EmbeddedCluster:
    """Nodes that start and end together; without a folder of its user's, its data goes with it.

    Attributes:
        nodes: the nodes, number 1 first.
        folder: where they keep everything.

    """

    def __init__(
        self,
        *,
        size: int = 1,
        folder: Path | None = None,
        detached: bool = False,
        private_network: bool = False,
        addresses: list[str] | None = None,
        **options: Any,
    ) -> None:
        """Lay out `size` nodes; `options` are those of `NodeSettings` (heap, paxos_variant, yaml, …).

        `private_network` puts each node into its own network namespace, which `cut` needs (root on Linux).
        """
        chooser = random.SystemRandom()
        settings = NodeSettings(**options)
        self._client: Client | None = None
        self._own_folder = folder is None
        self.network = PrivateNetwork.start(size, chooser=chooser) if private_network else None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="cvs-cassandra-", dir=quick_disk(size)))
        ports = (settings.native_port, STORAGE_PORT)
        if self.network:
            addresses = [f"{self.network.prefix}.{number}" for number in range(1, size + 1)]
        addresses = addresses or free_addresses(size, ports, chooser=chooser)
        places = plan_places(self.folder, addresses, free_management_ports(size, chooser=chooser))
        self.nodes = [
            Node(
                place=place,
                settings=settings,
                cluster_name="cvs",
                enter=self.network.enter(place.number) if self.network else (),
                detached=detached,
                scratch=self.folder if self._own_folder and not detached else None,
            )
            for place in places
        ]

    def start(self) -> "EmbeddedCluster":
        """Start all nodes at once; return when all take clients and see each other."""
        try:
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                node.wait_ready()
            self.wait_joined()
        except BaseException:
            self.stop()
            raise
        return self

    def wait_joined(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait until every running node takes every running node for up."""
        running = [node for node in self.nodes if node.running]
        deadline = time.monotonic() + seconds
        for node in running:
            while not sees(node, running):
                if time.monotonic() > deadline:
                    raise MissingEnvironmentError(
                        f"node {node.number} does not see the others", where=str(node.log)
                    )
                time.sleep(0.3)

    @property
    def contact_points(self) -> tuple[str, ...]:
        """Addresses to give to a driver."""
        return tuple(node.address for node in self.nodes)

    @property
    def native_port(self) -> int:
        """The CQL port, the same on every node."""
        return self.nodes[0].native_port

    @property
    def client(self) -> Client:
        """A plain CQL client to the whole cluster, made at first use."""
        if self._client is None:
            self._client = Client(
                self.contact_points,
                self.native_port,
                credentials=self.nodes[0].credentials,
                ca_file=self.nodes[0].ca_file,
            )
        return self._client

    def cql(self, statement: str, parameters: Iterable[Any] | None = None) -> list[Any]:
        """Run one statement at QUORUM and give its rows."""
        return self.client.run(statement, parameters)

    def cut(self, number: int, others: Iterable[int] | None = None) -> None:
        """Drop all packets between a node and the others (or some of them); clients still reach it."""
        for other in self._others(number, others):
            self._private().cut(number, other)

    def heal(self, number: int, others: Iterable[int] | None = None) -> None:
        """Undo `cut`."""
        for other in self._others(number, others):
            self._private().heal(number, other)

    def _others(self, number: int, others: Iterable[int] | None) -> list[int]:
        everyone = [node.number for node in self.nodes if node.number != number]
        return everyone if others is None else [other for other in others if other != number]

    def _private(self) -> PrivateNetwork:
        assert self.network is not None, "start the cluster with private_network=True to cut nodes apart"
        return self.network

    def stop(self) -> None:
        """End every node and remove the data if the folder is ours."""
        if self._client is not None:
            self._client.close()
            self._client = None
        for node in self.nodes:
            if not self._own_folder:
                node.stop()
            node.discard()
        if self.network is not None:
            self.network.close()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "EmbeddedCluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def quick_disk(size: int) -> str | None:
    """Choose where clusters without a folder of their own live: memory, if there is plenty, else the usual place.

    A test node loses nothing by it (kill -9 is no power cut) and waits for no fsync of its neighbours.
    """
    memory = Path("/dev/shm")  # noqa: S108 -- because mkdtemp makes the folder inside it
    if (
        memory.is_dir()
        and os.access(memory, os.W_OK)
        and shutil.disk_usage(memory).free > size * MEMORY_DISK_BYTES
    ):
        return str(memory)
    return None


def sees(node: Node, others: list[Node]) -> bool:
    """Say whether a node knows the others' present lives as members and, where all three replicas run, reaches them."""
    try:
        lives = {(other.address, life(other)) for other in others}
        client = open_client(node)
    except NoHostAvailable:
        return False  # its default role may not be there yet
    with client:
        rows = client.run(
            "SELECT address, generation, status_with_port FROM system_views.gossip_info", consistency="ONE"
        )
        members = {
            (row.address, row.generation) for row in rows if (row.status_with_port or "").startswith("NORMAL")
        }
        return lives <= members and (len(others) < REPLICAS or reaches_all(client))


def life(node: Node) -> int:
    """Read which life of a node this is: until gossip tells it, the others may still take its last one for up."""
    with open_client(node) as client:
        rows = client.run("SELECT gossip_generation FROM system.local", consistency="ONE")
        return int(rows[0].gossip_generation)


def open_client(node: Node) -> Client:
    """Open a client that speaks to this node alone."""
    return Client(
        [node.address], node.native_port, only_these=True, credentials=node.credentials, ca_file=node.ca_file
    )


def reaches_all(client: Client) -> bool:
    """Read something that every node of three has a copy of, at ALL: gossip status alone may be old news."""
    try:
        client.run(
            "SELECT status FROM system_distributed.view_build_status "
            "WHERE keyspace_name = '' AND view_name = ''",
            consistency="ALL",
        )
    except (Unavailable, ReadTimeout):
        return False
    return True


def plan_places(folder: Path, addresses: list[str], management_ports: list[int]) -> list[Place]:
    """Give each node its folder, address and ports; all are seeds, so that they may start at once."""
    return [
        Place(
            number=number,
            address=address,
            cluster_size=len(addresses),
            seeds=tuple(addresses),
            management_port=port,
            folder=folder / f"node{number}",
        )
        for number, (address, port) in enumerate(zip(addresses, management_ports, strict=True), start=1)
    ]


def free_addresses(nodes: int, ports: Iterable[int], *, chooser: random.Random) -> list[str]:
    """Choose loopback addresses 127.x.y.1.. on which nothing uses the ports."""
    wanted = list(ports)
    for _ in range(1000):
        prefix = f"127.{chooser.randrange(1, 255)}.{chooser.randrange(255)}"
        addresses = [f"{prefix}.{number}" for number in range(1, nodes + 1)]
        if all(port_free(address, port) for address in addresses for port in wanted):
            return addresses
    raise MissingEnvironmentError("no free loopback address was found", where="127.0.0.0/8")


def free_management_ports(nodes: int, *, chooser: random.Random) -> list[int]:
    """Choose free ports for JMX, which listens on 127.0.0.1 whatever the node's address is."""
    ports: list[int] = []
    while len(ports) < nodes:
        port = chooser.randrange(10_000, 32_000)  # below the range that outgoing connections take
        if port not in ports and port_free("127.0.0.1", port):
            ports.append(port)
    return ports


def port_free(address: str, port: int) -> bool:
    """Say whether something could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
