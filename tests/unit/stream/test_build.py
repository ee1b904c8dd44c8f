"""A build begins when every node that still speaks has confirmed that it is captured."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cvs.capture.feed import ENDED, Head
from cvs.capture.folder import FolderFeed
from cvs.store.session import ClusterAddress
from cvs.stream.build import ALWAYS, Build


def built(folder: Path, *datacentres: str) -> Build:
    """Make the build of somebody in the east, where nodes are in these datacentres."""
    hosts = SimpleNamespace(all_hosts=lambda: [SimpleNamespace(datacenter=it) for it in datacentres])
    session: Any = SimpleNamespace(
        address=ClusterAddress(contact_points=("nowhere",), local_datacenter="east"),
        driver=SimpleNamespace(cluster=SimpleNamespace(metadata=hosts)),
    )
    return Build(session, FolderFeed(folder), {}, stream="build-x")


def test_nodes_of_another_datacentre_need_no_capture(tmp_path: Path) -> None:
    """A build waited for their clocks for ever, and `docker/README.md` says that nobody captures them."""
    build = built(tmp_path, "east", "west")
    assert not build.confirmed({"n1": Head(1, 10)})
    assert build.confirmed({"n1": Head(1, 11)})


def test_streams_of_no_living_node_are_not_waited_for(tmp_path: Path) -> None:
    """A node that left, a repair and another build have clocks that never move; they count as no node either."""
    build = built(tmp_path, "east", "east")
    others = {"left": Head(9, ENDED), "repair-cvs": Head(3, ALWAYS), "build-x": Head(0, ALWAYS)}
    assert not build.confirmed({**others, "n1": Head(1, 10)}), "a node is missing"
    assert not build.confirmed({**others, "n1": Head(1, 10), "n2": Head(1, 10)}), "none has moved"
    assert not build.confirmed({**others, "n1": Head(1, 11), "n2": Head(1, 10)}), "one has not"
    assert build.confirmed({**others, "n1": Head(1, 11), "n2": Head(1, 12)})
