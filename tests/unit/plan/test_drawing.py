"""The picture of a plan: boxes apart from each other, lines around boxes, everything a reader needs in it."""

from itertools import combinations

import pytest

from cvs.plan.cost import plan_cost
from cvs.plan.drawing import Drawing, arrange
from cvs.plan.explain import Explanation
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.picture import HEIGHT, WIDTH, page
from cvs.plan.sql import parse_views
from tests.plan.tpch.data import QUERIES
from tests.plan.tpch.schema import TABLES


def drawn(names: list[str], arrows: list[tuple[str, str]], ends: set[str]) -> Drawing:
    return arrange(names, arrows, ends=ends, width=WIDTH, height=HEIGHT)


def inside(point: tuple[float, float], place: tuple[float, float]) -> bool:
    (x, y), (left, top) = point, place
    return left < x < left + WIDTH and top < y < top + HEIGHT


def test_a_line_over_several_columns_runs_around_the_boxes_there() -> None:
    names = ["base", "a", "b", "c", "view a", "view c"]
    drawing = drawn(
        names,
        [("base", "a"), ("base", "b"), ("b", "c"), ("a", "view a"), ("c", "view c")],
        {"view a", "view c"},
    )
    long = drawing.lines["a", "view a"]
    assert len(long) == 4
    (x1, y1), (x2, y2) = long[1:3]
    assert y1 == y2
    middle = ((x1 + x2) / 2, y1)
    assert not any(inside(middle, place) for place in drawing.places.values())


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    views = parse_views(QUERIES, TABLES)
    plan = maintenance_plan(views, TABLES)
    apart = maintenance_plan(views, TABLES, Choices(share=False, merge_zones=False))
    return Explanation(views=views, plan=plan, cost=plan_cost(plan), apart=plan_cost(apart))


def test_boxes_of_a_large_plan_do_not_touch(explanation: Explanation) -> None:
    plan = explanation.plan
    names = [base.name for base in plan.bases] + [stage.name for stage in plan.stages]
    arrows = [(source, stage.name) for stage in plan.stages for source in explanation.sources(stage)]
    drawing = drawn(names, arrows, set())
    for (x, y), (to_x, to_y) in combinations(drawing.places.values(), 2):
        assert abs(x - to_x) >= WIDTH or abs(y - to_y) >= HEIGHT
    for (x, y), width, height in ((p, drawing.width, drawing.height) for p in drawing.places.values()):
        assert 0 <= x <= width - WIDTH
        assert 0 <= y <= height - HEIGHT
    for points in drawing.lines.values():
        middles = [((a + c) / 2, b) for (a, b), (c, _) in zip(points[1::2], points[2::2], strict=False)]
        assert not any(inside(middle, place) for middle in middles for place in drawing.places.values())


def test_the_page_names_tables_levels_and_costs_before_and_after_sharing(explanation: Explanation) -> None:
    text = page(explanation)
    assert text.count("<rect") == 8 + len(explanation.plan.stages) + 22
    assert "strong for each record" in text
    assert f"<td>this plan</td><td>{len(explanation.plan.stages)}</td>" in text
    assert text.count("hsl(") == sum(len(z.stages) for z in explanation.plan.zones if len(z.stages) > 1)
