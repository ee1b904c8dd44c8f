"""What applying a text refuses before it asks the cluster anything."""

from typing import Any

import pytest

from cvs.errors import SpecificationError
from cvs.plan.cql import tables_of_schema
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import parse_views
from cvs.sidecar.apply import check_timeline
from cvs.sidecar.settings import Settings, settings_from

TABLES = tables_of_schema("USE s; CREATE TABLE t (id int PRIMARY KEY, a int);")
VIEW = "CREATE MATERIALIZED VIEW s.{} TBLPROPERTIES ({}) AS SELECT id, a FROM s.t;"
ORDERED = "'cvs.timeline' = 'write-time'"


def said(properties: str, text: str = "") -> str:
    (view,) = parse_views(VIEW.format("v", properties), TABLES)
    settings: Any = settings_from(text, {}, where="") if text else Settings()
    try:
        check_timeline(view, settings)
    except SpecificationError as refusal:
        return str(refusal)
    return ""


def test_the_write_time_line_is_not_fresher_than_clocks_are_exact() -> None:
    assert "is to be 1 s fresh" in said(f"{ORDERED}, 'cvs.freshness' = '1 s'")
    assert not said(f"{ORDERED}, 'cvs.freshness' = '1 s'", "[pipeline]\nskew_ms = 200\n")
    assert not said("'cvs.freshness' = '1 s'")
    assert not said(ORDERED)


def test_the_write_time_line_needs_clocks_of_nodes() -> None:
    feed = '[feed]\nname = "debezium+kafka://127.0.0.1:9092/shop?cql=127.0.0.1"\n'
    assert "are no nodes' clocks" in said(ORDERED, feed)
    assert not said("'cvs.timeline' = 'absorbed'", feed)


def test_the_views_of_one_pipeline_have_one_time_line() -> None:
    both = VIEW.format("one", ORDERED) + VIEW.format("other", "'cvs.level' = 'strong'")
    with pytest.raises(SpecificationError, match="other declares absorbed and"):
        maintenance_plan(parse_views(both, TABLES), TABLES)
