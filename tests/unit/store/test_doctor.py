"""What `cvs doctor` says of a cluster whose nodes are not all there."""

from types import SimpleNamespace
from typing import Any

import pytest

from cvs.store import doctor
from cvs.store.examination import Examined, Grade
from cvs.store.session import ClusterAddress

HERE, DOWN, ELSEWHERE = (
    SimpleNamespace(address=address, datacenter=datacenter, is_up=up)
    for address, datacenter, up in (
        ("127.0.0.1", "dc1", True),
        ("127.0.0.2", "dc1", False),
        ("127.0.0.3", "dc2", None),
    )
)


def examined(known: list[Any], asked: list[Any]) -> Examined:
    def execute(_statement: str, *, host: Any, timeout: float) -> list[tuple[str, str]]:
        asked.append(host)
        return [("cdc_enabled", "true")]

    cluster = SimpleNamespace(metadata=SimpleNamespace(all_hosts=lambda: known))
    driver = SimpleNamespace(execute=execute, cluster=cluster, get_pool_state=lambda: [HERE])
    address = ClusterAddress(contact_points=("127.0.0.1",), local_datacenter="dc1")
    session: Any = SimpleNamespace(driver=driver, address=address)
    return Examined(
        address=address,
        session=session,
        state_keyspace="cvs",
        published_keyspace="cvs_views",
    )


@pytest.mark.parametrize(
    ("known", "grade", "said"),
    [
        ([HERE, DOWN], Grade.PROBLEM, "1 of 2 do not answer: 127.0.0.2"),
        ([HERE, ELSEWHERE], Grade.GOOD, "1 of 1 answer; 1 in other datacentres are not asked"),
    ],
)
def test_a_node_that_is_down_or_elsewhere_is_told_and_not_asked(
    known: list[Any], grade: Grade, said: str
) -> None:
    """The command ended as a mistake of ours: the driver sends nothing to such a node."""
    asked: list[Any] = []
    looked_at = examined(known, asked)
    (finding,) = doctor.nodes(looked_at)
    assert (finding.grade, finding.found) == (grade, said)
    assert looked_at.session is not None
    assert doctor.settings_of_nodes(looked_at.session) == [{"cdc_enabled": "true"}]
    assert asked == [HERE]


def test_a_node_that_is_still_being_connected_to_is_waited_for() -> None:
    """Of three nodes two were examined, in one run of some, and well was said of all."""
    late = SimpleNamespace(address="127.0.0.4", datacenter="dc1", is_up=None)
    looked_at = examined([HERE, late, DOWN, ELSEWHERE], [])
    assert looked_at.session is not None
    driver: Any = looked_at.session.driver
    pools = [[HERE], [HERE], [HERE, late]]
    driver.get_pool_state = lambda: pools.pop(0) if len(pools) > 1 else pools[0]
    assert doctor.hosts(looked_at.session) == [HERE, late]
