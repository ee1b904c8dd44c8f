"""Real parts shared by the whole test session: booted at first use, gone at the end."""

from collections.abc import Callable, Iterator

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.namespaces import namespaces_work
from cvs.embedded.node import Node


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of two workers put minutes before milliseconds: at the end one would be alone with them.

    Tests of real parts keep the order of their file: one worker has them, and later ones go on from earlier ones.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None or _real(item))


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
