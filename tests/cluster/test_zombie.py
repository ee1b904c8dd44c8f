"""A driver stopped in mid-epoch and woken long after: nothing of what others did since changes."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cvs.embedded.node import Node
from cvs.embedded.processes import RunningProcess
from cvs.store.session import ClusterAddress
from tests.campaigns.driver import command
from tests.cluster.test_pipeline import Shop

pytestmark = pytest.mark.cluster


@pytest.fixture
def shop(cassandra_node: Node, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(cassandra_node, tmp_path)
    yield shop
    shop.session.close()


def everything(shop: Shop) -> dict[str, list[Any]]:
    """Every row of every table of the pipeline, and the write times of what is published."""
    space = f"{shop.space}_cvs"
    names = shop.session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", (space,)
    )
    tables = [f"{space}.{name}" for (name,) in names]
    assert len(tables) == 4, "control, quarantine, one DELTA, one zone"
    found = {table: shop.session.execute(f"SELECT * FROM {table}") for table in tables}
    found["shown"] = shop.session.execute(
        f"SELECT city, orders, total, WRITETIME(orders), WRITETIME(total) FROM {shop.space}.by_city"
    )
    return found


def sleeping(shop: Shop, node: Node, folder: Path) -> RunningProcess:
    """A driver process that stops itself after its first round of test-and-sets."""
    words = {"views": shop.sql, "base": shop.space, "state": f"{shop.space}_cvs", "feed": str(shop.feed.root)}
    address = ClusterAddress(contact_points=(node.address,), port=node.native_port)
    process = RunningProcess.owned(command(address, **words, stop_at=1), output=folder / "zombie.log")
    end = time.monotonic() + 60
    while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        assert process.alive, (folder / "zombie.log").read_text()
        assert time.monotonic() < end, "it never came to its first test-and-set"
        time.sleep(0.02)
    return process


def test_a_woken_driver_changes_nothing(shop: Shop, cassandra_node: Node, tmp_path: Path) -> None:
    """It had written state of its epoch and published nothing; others finished that epoch and five more."""
    for identity in range(6):
        shop.write(identity, "Graz", identity)
    zombie = sleeping(shop, cassandra_node, tmp_path)
    try:
        driver = shop.pipeline()
        started = driver.start()
        assert started.pinned
        assert not shop.shown(), "it stopped before it published"
        for identity in range(5):
            driver.drain()
            shop.write(identity, ("Linz", None, "Graz")[identity % 3], 50 + identity)
        driver.drain()
        after = everything(shop)
        assert shop.shown() == {"Graz": (2, 57), "Linz": (2, 103)}
        assert driver.start().committed >= started.pin.epoch + 5
        os.kill(zombie.pid, signal.SIGCONT)
        said, end = tmp_path / "zombie.log", time.monotonic() + 60
        while "overtaken" not in said.read_text():
            assert time.monotonic() < end, said.read_text()
            time.sleep(0.05)
        time.sleep(0.5)  # because it goes on, from the control row, and finds nothing to do
        assert everything(shop) == after
        assert zombie.alive
    finally:
        zombie.kill()
