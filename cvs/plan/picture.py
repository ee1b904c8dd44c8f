"""A plan as one HTML page: the picture of its zones (SVG, no script, no network) and the tree beneath."""

from html import escape

from cvs.model.stages import inputs
from cvs.plan.explain import Explanation
from cvs.plan.words import stage_words

WIDTH, HEIGHT, GAP_X, GAP_Y = 210, 54, 60, 22
_STYLE = (
    "body{font:14px system-ui;margin:2em;color:#222}pre{background:#f6f6f4;padding:1em;overflow:auto}"
    "rect{stroke:#555}text{font:11px system-ui}.base{fill:#e8e4d8}.zone{fill:#dbe7f0}.view{fill:#dcebd9}"
    "path{fill:none;stroke:#888}@media print{pre{white-space:pre-wrap}}"
)


def page(explanation: Explanation) -> str:
    """Return the page."""
    lines = escape("\n".join(explanation.lines()))
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>cvs plan</title><style>{_STYLE}</style>"
        f"<h1>Maintenance plan</h1>{picture(explanation)}<pre>{lines}</pre></html>\n"
    )


def picture(explanation: Explanation) -> str:
    """Return the plan as SVG: base tables left, published tables right, an arrow for each edge."""
    boxes, arrows = _graph(explanation)
    columns: dict[str, int] = {}
    for name in boxes:
        columns[name] = max((columns[s] + 1 for s, t in arrows if t == name and s in columns), default=0)
    last = max(columns.values(), default=0)
    for name, (kind, _) in boxes.items():
        if kind == "view":
            columns[name] = last
    heights: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for name, column in columns.items():
        row = heights.get(column, 0)
        heights[column] = row + 1
        places[name] = (column * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y))
    width = (last + 1) * (WIDTH + GAP_X)
    height = max(heights.values(), default=1) * (HEIGHT + GAP_Y)
    drawn = [_arrow(places[source], places[target]) for source, target in arrows]
    drawn += [_box(places[name], kind, name, words) for name, (kind, words) in boxes.items()]
    return f"<svg width='{width}' height='{height}' role='img'>{''.join(drawn)}</svg>"


def _graph(explanation: Explanation) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str]]]:
    """Return boxes (kind, words) by name in an order in which inputs come first, and arrows."""
    plan = explanation.plan
    boxes = {base.name: ("base", "DELTA by " + ", ".join(base.key)) for base in plan.bases}
    arrows: list[tuple[str, str]] = []
    for stage in plan.stages:
        boxes[stage.name] = ("zone", stage_words(stage, explanation.names[stage.name]))
        arrows += [(edge.source, stage.name) for edge in inputs(stage)]
    for publication in plan.publications:
        name = f"view {publication.view}"
        boxes[name] = ("view", "key " + ", ".join(publication.key))
        arrows += [(edge.source, name) for edge in publication.inputs]
    return boxes, list(dict.fromkeys(arrows))


def _box(place: tuple[int, int], kind: str, name: str, words: str) -> str:
    x, y = place
    short = words if len(words) <= 36 else words[:35] + "…"
    return (
        f"<g><title>{escape(name)}: {escape(words)}</title>"
        f"<rect class='{kind}' x='{x + 1}' y='{y + 1}' width='{WIDTH}' height='{HEIGHT}' rx='5'/>"
        f"<text x='{x + 8}' y='{y + 20}' font-weight='bold'>{escape(name)}</text>"
        f"<text x='{x + 8}' y='{y + 40}'>{escape(short)}</text></g>"
    )


def _arrow(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + WIDTH, source[1] + HEIGHT // 2
    x2, y2 = target[0], target[1] + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"<path d='M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}'/>"
