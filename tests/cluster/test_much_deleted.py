"""A bucket in which more is deleted than a replica reads: its rows are read all the same."""

from pathlib import Path

import pytest
from cassandra import ReadFailure

from cvs.client.snapshot import ViewReader
from cvs.embedded.cluster import EmbeddedCluster
from cvs.programs.stage_bucket import ReadBucket
from cvs.programs.stage_codec import framed
from cvs.stream.tables import Names
from tests.cluster.test_pipeline import Shop

pytestmark = pytest.mark.cluster

MOST = 500
"""Cassandra's own is 100,000; a statement of the pipeline reads up to 400 rows by their keys."""
BUCKETS = 16


def test_groups_that_died_hide_none_that_live(tmp_path: Path) -> None:
    """Cassandra gives the plain read up; snapshot and pipeline read the same bucket in halves."""
    limits = {"tombstone_warn_threshold": MOST // 2, "tombstone_failure_threshold": MOST}
    with EmbeddedCluster(size=1, quick=True, yaml=limits) as cluster:
        shop = Shop(cluster.nodes[0], tmp_path)
        pipeline, cities = shop.pipeline(), range(2 * MOST * BUCKETS)
        shop.write_all((number, f"city {number}", 1) for number in cities)
        pipeline.drain()
        shop.write_all((number, None, 0) for number in cities)
        pipeline.drain()
        shop.write_all((number, f"town {number}", 2) for number in range(20 * BUCKETS))
        pipeline.drain()  # because the dead are deleted when a bucket is next written
        expected = {f"town {number}": (1, 2) for number in range(20 * BUCKETS)}
        (zone,) = shop.recipe.plan.zones
        space, table = f"{shop.space}_cvs", Names(keyspace="x").state(zone.name)
        groups = ReadBucket(table=table, bucket=0, prefixes=(framed(b"0", b"g"),))
        with pytest.raises(ReadFailure):
            shop.session.execute(f"SELECT row FROM {space}.{table} WHERE bucket = ?", (0,))
        (found,) = pipeline.door([groups])
        assert 0 < len(found.rows) < len(expected)
        views = ViewReader(shop.session, keyspace=space, plan_of=lambda _: shop.recipe.plan)
        rows = views.scan(f"{shop.space}.by_city").rows.values()
        assert {row["city"]: (row["orders"], row["total"]) for row in rows} == expected == shop.shown()
        shop.session.close()
