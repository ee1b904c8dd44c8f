"""A build begins when every node that still speaks has confirmed that it is captured."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cvs.capture.feed import ENDED, Head
from cvs.capture.folder import FolderFeed
from cvs.store.session import ClusterAddress
from cvs.stream.build import ALWAYS, Build


def test_streams_of_no_living_node_are_not_waited_for(tmp_path: Path) -> None:
    """A node that left, a repair and another build have clocks that never move; they count as no node either."""
    hosts = SimpleNamespace(all_hosts=lambda: ["one", "two"])
    session: Any = SimpleNamespace(
        address=ClusterAddress(contact_points=("nowhere",)),
        driver=SimpleNamespace(cluster=SimpleNamespace(metadata=hosts)),
    )
    build = Build(session, FolderFeed(tmp_path), {}, stream="build-x")
    others = {"left": Head(9, ENDED), "repair-cvs": Head(3, ALWAYS), "build-x": Head(0, ALWAYS)}
    assert not build.confirmed({**others, "n1": Head(1, 10)}), "a node is missing"
    assert not build.confirmed({**others, "n1": Head(1, 10), "n2": Head(1, 10)}), "none has moved"
    assert not build.confirmed({**others, "n1": Head(1, 11), "n2": Head(1, 10)}), "one has not"
    assert build.confirmed({**others, "n1": Head(1, 11), "n2": Head(1, 12)})
