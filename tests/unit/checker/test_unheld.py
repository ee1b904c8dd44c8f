"""Which view records no table can hold, so that none is accused of not showing them."""

from typing import Any

import pytest

from cvs.checker.unheld import has_unheld, too_long
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.suite.user_views import user_views


@pytest.mark.parametrize(
    ("key", "partition", "beyond"),
    [
        ((1, 5, "x"), 1, False),
        ((1, 5, None), 1, True),
        ((1, 5, None), 0, False),  # of a history that does not say which part is the partition key
        (("x" * 66_000,), 0, True),
    ],
)
def test_a_key_without_a_part_can_be_shown_by_no_table(
    key: tuple[object, ...], partition: int, beyond: bool
) -> None:
    """A base row of what had COMPACT STORAGE may lack a clustering column: its view was called not converged."""
    assert too_long(key, partition) == beyond


SQL = """
CREATE TABLE s.docs (id int PRIMARY KEY, region text, body text);
CREATE TABLE s.regions (region text PRIMARY KEY, name text);
CREATE MATERIALIZED VIEW s.v AS {query};
"""


@pytest.mark.parametrize(
    ("query", "column", "beyond"),
    [
        ("SELECT region, COUNT(*) AS n FROM s.docs GROUP BY region", "body", False),
        ("SELECT region, COUNT(*) AS n FROM s.docs GROUP BY region", "region", True),
        ("SELECT id, body FROM s.docs WHERE id > 3", "body", False),
        ("SELECT lower(region) AS r, COUNT(*) AS n FROM s.docs GROUP BY lower(region)", "body", True),
        ("SELECT DISTINCT body FROM s.docs", "body", True),
        (
            "SELECT n.name, COUNT(*) AS c FROM s.docs d JOIN s.regions n ON d.region = n.region GROUP BY n.name",
            "body",
            False,
        ),
        ("SELECT region FROM s.docs UNION SELECT name FROM s.regions", "body", True),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_a_large_document_that_stands_in_no_key_changes_no_way(
    query: str, column: str, beyond: bool, before: bool
) -> None:
    """A recording with texts of more than 65,000 bytes beside its keys was judged exactly, all of it: 8 s, not 0.5."""
    said = user_views(SQL.format(query=query))
    views = tuple(definition_to_json(view.definition) for view in said.views)
    row = {"id": 1, "region": "EU", "body": "", column: "x" * 66_000}
    events: list[Any] = [ev.RunStarted(process="w", time=0, run="r", views=views)]
    if before:
        events.append(ev.Checkpoint(process="w", time=1, base=(("s.docs", (1,), 0, row),), views=()))
    else:
        called = ev.BaseUpdateCalled(
            process="w", time=1, operation=1, table="s.docs", key=(1,), version=1, row=row
        )
        events.append(called)
    assert has_unheld(events) == beyond
