"""Crash campaigns on three nodes, with clocks that disagree, and through rebuilds."""

import os
import random
from pathlib import Path

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.store.session import ClusterAddress
from cvs.stream.demo import Load, on_stage
from cvs.stream.shop import VIEWS
from tests.campaigns.crash import Campaign, wrong_rows
from tests.campaigns.test_crash import SEED, chosen, survives
from tests.campaigns.views import MORE
from tests.nightly import NOTE

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]


def shuffled(**victims: int) -> list[str]:
    """Return one of each, then the others in the seed's order, CVS_EXAMPLES at most; none under Spark."""
    others = [victim for victim, count in victims.items() for _ in range(count - 1)]
    random.Random(SEED).shuffle(others)
    many = [*victims, *others]
    return many[: int(os.environ.get("CVS_EXAMPLES", len(many)))]


def test_one_of_three_nodes_is_killed(tmp_path: Path) -> None:
    """Every row is on each node, and two go on without the third.

    Each write is one mutation of a whole row and the writer sends one after the other, so what DELTA merges of three
    logs are prefixes of the writer's own: the stronger reference of H12 may be asked for.
    """
    survives(tmp_path, size=3, seed=SEED, kills=shuffled(node=4, driver=3, tail=2))


def test_nodes_are_cut_apart(tmp_path: Path) -> None:
    """Who is cut off misses writes and gets them late, by hints; requests through it end unknown."""
    kills = shuffled(cut=4, driver=3, tail=1, node=1)
    survives(tmp_path, size=3, seed=SEED, kills=kills, private_network=True)


def test_clocks_disagree_by_seconds(tmp_path: Path) -> None:
    """Write times go back and forth by 3 s: base equals views, and each view is strong in the order of write times."""
    survives(tmp_path, seed=SEED, kills=chosen(SEED), skew_seconds=3.0)


def test_views_are_right_however_often_a_rebuild_is_killed(tmp_path: Path) -> None:
    """Killed at the scan, at the take-over, after it: two in the driver's process, then one in Spark's tasks."""
    chance = random.Random(SEED)
    with EmbeddedCluster(size=1, quick=True) as cluster:
        address = ClusterAddress(contact_points=cluster.contact_points, port=cluster.native_port)
        with on_stage(tmp_path, address, views=VIEWS + MORE) as stage:
            with Campaign(stage, cluster) as campaign:
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
            print(f"{NOTE}{load.writer.written} writes; killed {dict(campaign.killed)}")
            assert campaign.killed["driver while rebuilding"] > 0
            wrong = wrong_rows(address, stage)
            assert len(wrong) == 11
            assert not any(wrong.values()), wrong
