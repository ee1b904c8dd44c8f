"""The crash campaign on three nodes, every row on each: one of them is killed while the other two go on.

Each write is one mutation of a whole row and the writer sends one after the other, so what DELTA merges of three
logs are prefixes of the writer's own: the stronger reference of H12 may be asked for.
"""

from pathlib import Path

import pytest

from tests.campaigns.test_crash import SEED, chosen, survives

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]


def test_every_view_is_strong_when_one_of_three_nodes_is_killed(tmp_path: Path) -> None:
    seed = SEED * 1000
    kills = chosen(seed)
    kills[1] = kills[3] = "node"
    survives(tmp_path, size=3, seed=seed, kills=kills)
