"""Where the boxes of a graph go: columns by depth, few crossings, lines that run around boxes and not behind them.

A line over several columns gets a place in each, shared by all lines of one source; boxes and places of a column
are ordered by the mean of their neighbours, forth and back (Sugiyama's method).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP_X, GAP_Y = 70.0, 18.0
SWEEPS = 8
Arrow = tuple[str, str]
Place = tuple[str, int]
"""A box, or a source's lines, in a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Left upper corners of boxes; points of each arrow, two a column it passes; the size of the whole."""

    places: Mapping[str, tuple[float, float]]
    lines: Mapping[Arrow, Sequence[tuple[float, float]]]
    width: float
    height: float


def arrange(
    names: Sequence[str], arrows: Sequence[Arrow], *, ends: Collection[str], width: float, height: float
) -> Drawing:
    """Place boxes named in an order in which sources come first; `ends` stand in the last column."""
    columns = _columns(names, arrows, ends)
    ways = {arrow: [(arrow[0], c) for c in range(columns[arrow[0]], columns[arrow[1]])] for arrow in arrows}
    for arrow, way in ways.items():
        way.append((arrow[1], columns[arrow[1]]))
    slots: dict[Place, float] = dict.fromkeys(columns.items(), height)
    for way in ways.values():
        for place in way:
            slots.setdefault(place, 0.0)
    before: dict[Place, set[Place]] = {place: set() for place in slots}
    after: dict[Place, set[Place]] = {place: set() for place in slots}
    for way in ways.values():
        for left, right in pairwise(way):
            before[right].add(left)
            after[left].add(right)
    middles = _middles(slots, before, after)
    step = width + GAP_X
    top = min((y - slots[place] / 2 for place, y in middles.items()), default=0.0) - 1
    low = max((y + slots[place] / 2 for place, y in middles.items()), default=0.0)

    def points(way: list[Place]) -> list[tuple[float, float]]:
        heights = [middles[place] - top for place in way]
        found = [(way[0][1] * step + width, heights[0])]
        for (_, column), y in zip(way[1:-1], heights[1:-1], strict=True):
            found += [(column * step, y), (column * step + width, y)]
        return [*found, (way[-1][1] * step, heights[-1])]

    return Drawing(
        places={
            name: (column * step, middles[name, column] - top - height / 2)
            for name, column in columns.items()
        },
        lines={arrow: points(way) for arrow, way in ways.items()},
        width=(max(columns.values(), default=0) + 1) * step,
        height=low - top + 2,
    )


def _columns(names: Sequence[str], arrows: Sequence[Arrow], ends: Collection[str]) -> dict[str, int]:
    """Return each box's column: one after the last of its sources."""
    sources: dict[str, list[str]] = {}
    for source, target in arrows:
        sources.setdefault(target, []).append(source)
    columns: dict[str, int] = {}
    for name in names:
        columns[name] = max((columns[source] + 1 for source in sources.get(name, ())), default=0)
    last = max(columns.values(), default=0)
    return {name: last if name in ends else column for name, column in columns.items()}


def _middles(
    slots: Mapping[Place, float], before: Mapping[Place, set[Place]], after: Mapping[Place, set[Place]]
) -> dict[Place, float]:
    """Return the middle of each place: near the mean of its neighbours, none above another."""
    layers: dict[int, list[Place]] = {}
    for place in slots:
        layers.setdefault(place[1], []).append(place)
    middles: dict[Place, float] = {}
    for layer in layers.values():
        middles.update(_stacked(layer, dict.fromkeys(layer, 0.0), slots))
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        for column in sorted(layers, reverse=not forth):
            layer, near = layers[column], before if forth else after
            wanted = {
                p: sum(middles[n] for n in near[p]) / len(near[p]) if near[p] else middles[p] for p in layer
            }
            layers[column] = sorted(layer, key=lambda place: wanted[place])
            middles.update(_stacked(layers[column], wanted, slots))
    return middles


def _stacked(
    layer: Sequence[Place], wanted: Mapping[Place, float], slots: Mapping[Place, float]
) -> dict[Place, float]:
    """Return middles in this order, as near to the wanted ones as room allows, the whole in their midst."""
    found: dict[Place, float] = {}
    low = float("-inf")
    for place in layer:
        found[place] = max(wanted[place], low + GAP_Y + slots[place] / 2)
        low = found[place] + slots[place] / 2
    shift = sum(found[p] - wanted[p] for p in layer) / len(layer)
    return {place: y - shift for place, y in found.items()}
