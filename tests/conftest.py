"""Real parts shared by the whole test session: booted at first use, gone at the end."""

import atexit
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.namespaces import namespaces_work
from cvs.embedded.node import Node

gc.disable()  # while tests are collected: nothing of it is garbage


def pytest_collection_finish() -> None:
    """Have the modules and tests out of the way of the collections to come, each of which would walk them."""
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter end in silence where DuckDB is loaded: its binding lists, by the page, what is still held."""
    if "duckdb" in sys.modules:
        atexit.register(os.dup2, os.open(os.devnull, os.O_WRONLY), 2)


@pytest.fixture(scope="session", autouse=True)
def _own_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let what processes that are killed leave behind lie where pytest clears away."""
    folder = str(tmp_path_factory.mktemp("left-behind"))
    os.environ |= {"TMPDIR": folder, "SPARK_LOCAL_DIRS": folder}
    tempfile.tempdir = None  # asked anew


@pytest.fixture(scope="session")
def cassandra_node() -> Iterator[Node]:
    """One real node with CDC on, shared: make keyspaces of your own, leave the node running."""
    with EmbeddedCluster(size=1, quick=True) as cluster:
        yield cluster.nodes[0]


@pytest.fixture(scope="session")
def cassandra_cluster() -> Iterator[EmbeddedCluster]:
    """Three real nodes, cuttable where namespaces work: heal, resume and restart what you disturb."""
    with EmbeddedCluster(size=3, quick=True, private_network=namespaces_work()) as cluster:
        yield cluster


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say a number at the end of the run, whichever worker counted it."""
    return lambda text: request.node.user_properties.append(("told", text))


THREE_NODES = ["contract", "programs", "capture_replicas", "faults", "node", "default_policy"]
"""Files that one worker has together, so that three nodes are started once."""

LONGEST = [
    *THREE_NODES,
    "write_time",
    "build",
    "sidecar_kafka",
    "states",
    "crash",
    "sidecar",
    "capture_tail",
    "secured",
]
"""Files of tests of real parts, longest first: the others have a minute at most, and fill what is left at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several workers put minutes before milliseconds: at the end one would be alone with them.

    Tests of real parts keep the order of their file: one worker has them, and later ones go on from earlier ones.
    """
    if not hasattr(config, "workerinput"):
        return
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}

    def late(item: pytest.Item) -> int:
        return places.get(item.path.stem, len(places)) if _real(item) else not item.get_closest_marker("slow")

    items.sort(key=late)


class ByFile(LoadFileScheduling):
    """Gives each file to one worker, and files that need three nodes to the same."""

    def _split_scope(self, nodeid: str) -> str:
        name = Path(nodeid.split("::")[0]).stem.removeprefix("test_")
        return "three nodes" if name in THREE_NODES else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """Choose how files go to workers."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


def _real(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("cluster", "spark"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests told."""
    reports = [
        r for some in terminalreporter.stats.values() for r in some if isinstance(r, pytest.TestReport)
    ]
    for report in reports:
        if report.when == "call":
            for name, text in report.user_properties:
                if name == "told":
                    terminalreporter.write_line(f"{report.nodeid}: {text}")
