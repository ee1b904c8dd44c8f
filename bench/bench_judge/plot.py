"""Draws how time and memory of an audit grow with the history."""

from collections.abc import Mapping
from pathlib import Path


def drawn(path: Path, points: Mapping[tuple[str, int], tuple[float, float]]) -> None:
    """Draw CPU seconds and peak memory (MiB) over the number of test-and-sets, by the form of the file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for place, (axis, title) in enumerate(zip(axes, ("CPU seconds", "peak memory, MiB"), strict=True)):
        for form, shape, colour in (("lines", "o-", "#0072B2"), ("parquet", "s--", "#D55E00")):
            sizes = sorted(size for name, size in points if name == form)
            axis.plot(sizes, [points[form, size][place] for size in sizes], shape, color=colour, label=form)
        axis.set(xscale="log", yscale="log", xlabel="certified test-and-sets", title=title)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
