"""A plan as one HTML page: the picture of its stages (SVG, no script, no network) and the tree beneath."""

from dataclasses import dataclass
from html import escape

from cvs.model.values import many
from cvs.plan.drawing import Drawing, arrange
from cvs.plan.explain import Explanation
from cvs.plan.levels import view_level
from cvs.plan.words import stage_words

WIDTH, HEIGHT = 216, 66
LETTERS = 32
_STYLE = (
    "body{font:14px system-ui;margin:2em;color:#222}pre{background:#f6f6f4;padding:1em;white-space:pre-wrap}"
    "rect{stroke:#555}text{font:11px system-ui}.name{font-weight:bold}.less{fill:#666}.base{fill:#e8e4d8}"
    ".zone{fill:#eef1f4}.view{fill:#dcebd9}path{fill:none;stroke:#888}div{overflow-x:auto}"
    "td,th{padding:.2em 1em .2em 0;text-align:left}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What stands in a box: its kind, its heading, two lines below, what is told on pointing, its colour."""

    kind: str
    heading: str
    words: str
    less: str = ""
    told: str = ""
    colour: str = ""


def page(explanation: Explanation) -> str:
    """Return the page."""
    lines = escape("\n".join(explanation.lines()))
    told = (
        "From left to right: base tables, stages with what a base update costs there, published views. "
        "Stages of one colour share one table; point at a box for the whole of it."
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>cvs plan</title><style>{_STYLE}</style>"
        f"<h1>Maintenance plan</h1><p>{told}</p>{_sharing(explanation)}<div>{picture(explanation)}</div>"
        f"<pre>{lines}</pre></html>\n"
    )


def _sharing(explanation: Explanation) -> str:
    """Return the costs before and after sharing as a table."""
    rows = (
        f"<tr><td>{name}</td><td>{stages}</td><td>{cost.total_ms:.2f}</td><td>{cost.storage_bytes / 1e6:,.0f}</td></tr>"
        for name, stages, cost in (
            ("each view by itself, a table a stage", len(explanation.apart.stages), explanation.apart),
            ("this plan", len(explanation.plan.stages), explanation.cost),
        )
    )
    head = "<tr><th></th><th>stages</th><th>CPU ms an update</th><th>MB of state and DELTA</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def picture(explanation: Explanation) -> str:
    """Return the plan as SVG: base tables left, published tables right, an arrow for each edge."""
    boxes, arrows = _graph(explanation)
    ends = frozenset(name for name, box in boxes.items() if box.kind == "view")
    drawing = arrange(list(boxes), arrows, ends=ends, width=WIDTH, height=HEIGHT)
    drawn = [_arrow(drawing, arrow) for arrow in arrows]
    drawn += [_box(drawing.places[name], box) for name, box in boxes.items()]
    return f"<svg width='{drawing.width}' height='{drawing.height}' role='img'>{''.join(drawn)}</svg>"


def _graph(explanation: Explanation) -> tuple[dict[str, Box], list[tuple[str, str]]]:
    """Return boxes by name in an order in which inputs come first, and arrows."""
    plan, cost = explanation.plan, explanation.cost
    boxes = {
        base.name: Box(
            kind="base",
            heading=base.name,
            words=f"key {', '.join(base.key)}",
            less=f"{cost.per_update_ms[base.name]:.2f} ms an update in all",
        )
        for base in plan.bases
    }
    arrows: list[tuple[str, str]] = []
    for number, zone in enumerate(plan.zones):
        colour = f"hsl({number * 67 % 360} 55% 89%)" if len(zone.stages) > 1 else ""
        for stage in zone.stages:
            words = stage_words(stage, explanation.names[stage.name])
            ms = max(cost.stage(stage.name).ms.values(), default=0.0)
            boxes[stage.name] = Box(
                kind="zone",
                heading=f"{stage.name} in {zone.name}",
                words=words,
                less=f"{many(zone.buckets, 'bucket')}, {ms:.2f} ms",
                told=f"{words}; " + "; ".join(explanation.stage_notes(stage)),
                colour=colour,
            )
            arrows += [(source, stage.name) for source in explanation.sources(stage)]
    for view in explanation.views:
        publication, name = explanation.publication(view), f"view {view.name}"
        level = view_level(view, plan)
        boxes[name] = Box(
            kind="view",
            heading=view.name,
            words="key " + ", ".join(publication.key),
            less=f"{level.record.value} for each record",
            told=level.reason,
        )
        arrows += [(edge.source, name) for edge in publication.inputs]
    return boxes, list(dict.fromkeys(arrows))


def _box(place: tuple[float, float], box: Box) -> str:
    x, y = place
    colour = f" style='fill:{box.colour}'" if box.colour else ""
    lines = (("name", box.heading), ("", box.words), ("less", box.less))
    texts = "".join(
        f"<text class='{kind}' x='{x + 8:.0f}' y='{y + 18 + 19 * number:.0f}'>{escape(_short(line))}</text>"
        for number, (kind, line) in enumerate(lines)
    )
    return (
        f"<g><title>{escape(f'{box.heading}: {box.told or box.words}')}</title>"
        f"<rect class='{box.kind}'{colour} x='{x:.0f}' y='{y:.0f}' width='{WIDTH}' height='{HEIGHT}' rx='5'/>"
        f"{texts}</g>"
    )


def _short(words: str) -> str:
    return words if len(words) <= LETTERS else words[: LETTERS - 1] + "…"


def _arrow(drawing: Drawing, arrow: tuple[str, str]) -> str:
    """Return one line through the points of an arrow: level through each column, bent between them."""
    points = drawing.lines[arrow]
    x, y = points[0]
    path = [f"M{x:.0f} {y:.0f}"]
    for number, (to_x, to_y) in enumerate(points[1:]):
        if number % 2:
            path.append(f"L{to_x:.0f} {to_y:.0f}")
        else:
            middle = (x + to_x) / 2
            path.append(f"C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, to_y
    return f"<path d='{' '.join(path)}'/>"
