"""Time-lines and cuts: what a base state is (001, model).

A base record is named by table and key. Its time-line is the row at each version; version 0 is what stood
there at the start, null means absent. A cut picks one version of each record; cuts are ordered componentwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from cvs.model.expressions import Row
from cvs.model.identity import same_row

BaseKey = tuple[Any, ...]  # because a key is made of column values of any type
BaseId = tuple[str, BaseKey]
Cut = Mapping[BaseId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The versions of one base record, oldest first; there is always a version 0."""

    record: BaseId
    images: tuple[Row | None, ...] = (None,)

    @property
    def last(self) -> int:
        """Return the newest version."""
        return len(self.images) - 1

    def at(self, version: int) -> Row | None:
        """Return the row at a version; a version that never was is a mistake of the caller."""
        assert 0 <= version < len(self.images), (self.record, version)
        return self.images[version]

    def grown(self, image: Row | None) -> "Timeline":
        """Return the time-line after one more base update."""
        return Timeline(record=self.record, images=(*self.images, image))

    def versions_showing(self, image: Row | None) -> list[int]:
        """Return the versions at which the record was this row (or absent)."""
        return [version for version, own in enumerate(self.images) if same_row(own, image)]


Timelines = Mapping[BaseId, Timeline]


def initial_cut(timelines: Timelines) -> dict[BaseId, int]:
    """Return B_0: every record at its start."""
    return dict.fromkeys(timelines, 0)


def final_cut(timelines: Timelines) -> dict[BaseId, int]:
    """Return B_f: every record at its end."""
    return {record: timeline.last for record, timeline in timelines.items()}


def not_after(earlier: Cut, later: Cut) -> bool:
    """Say whether no record is newer in `earlier`: the order of base states (001, model)."""
    return all(version <= later[record] for record, version in earlier.items())


def base_state(timelines: Timelines, cut: Cut) -> dict[str, list[Row]]:
    """Return the rows of every base table at a cut, ready for `recompute`."""
    tables: dict[str, list[Row]] = {}
    for (table, key), timeline in timelines.items():
        rows = tables.setdefault(table, [])
        image = timeline.at(cut[(table, key)])
        if image is not None:
            rows.append(image)
    return tables


def all_cuts(timelines: Timelines) -> Iterator[dict[BaseId, int]]:
    """Yield every cut, an exponential number of them; for tiny worlds only."""
    records = list(timelines)
    for versions in product(*(range(timelines[record].last + 1) for record in records)):
        yield dict(zip(records, versions, strict=True))
