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


@pytest.hookimpl(tryfirst=True)  # because the worker's own reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of two workers give both minutes before milliseconds, and what shares real parts to one of them, in its order.

    At the end one would be alone with the minutes; three nodes are booted once, whichever files use them.
    """
    if not hasattr(config, "workerinput"):
        return
    items.sort(key=lambda item: item.get_closest_marker("slow") is None or _real(item))
    for item in items:
        three = "cassandra_cluster" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("three nodes" if three else str(item.path)))


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
