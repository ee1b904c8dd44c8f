"""Rebuilds under load, in Spark's tasks, the driver killed again and again: at the scan, at the take-over, after it."""

import random
from pathlib import Path

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.store.session import ClusterAddress
from cvs.stream.demo import Load, on_stage
from cvs.stream.shop import VIEWS
from tests.campaigns.crash import Campaign, wrong_rows
from tests.campaigns.test_crash import SEED
from tests.campaigns.views import MORE

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]


def test_views_are_right_however_often_a_rebuild_is_killed(tmp_path: Path) -> None:
    """Two rebuilds in the driver's process, then one in tasks; each ends served, and at rest all views are right."""
    chance = random.Random(SEED)
    with EmbeddedCluster(size=1, quick=True) as cluster:
        address = ClusterAddress(contact_points=cluster.contact_points, port=cluster.native_port)
        with on_stage(tmp_path, address, views=VIEWS + MORE) as stage:
            with Campaign(stage, cluster.nodes) as campaign:
                campaign.live()
                load = Load(stage, pause=0.02, seed=SEED)
                try:
                    campaign.rebuild(chance, kills=5)
                    campaign.rebuild(chance, kills=5)
                    campaign.under_spark()
                    campaign.rebuild(chance, kills=3)
                finally:
                    load.stop()
                campaign.live()
            print(dict(campaign.killed), load.writer.written, "writes")
            assert campaign.killed["driver while rebuilding"] > 0
            wrong = wrong_rows(address, stage)
            assert len(wrong) == 11
            assert not any(wrong.values()), wrong
