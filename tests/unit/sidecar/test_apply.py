"""What applying a text finds out of the cluster before it claims anything."""

import pytest

from cvs.sidecar.apply import replicas_of


@pytest.mark.parametrize(
    ("replication", "replicas"),
    [
        ({"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"}, 1),
        ({"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "dc1": "3", "dc2": "2/1"}, 5),
        ({"class": "org.apache.cassandra.locator.LocalStrategy"}, 0),
    ],
)
def test_replicas_count_over_all_data_centers(replication: dict[str, str], replicas: int) -> None:
    assert replicas_of(replication) == replicas
