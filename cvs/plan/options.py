"""The options of a view: TBLPROPERTIES 'cvs.*', parsed and refused one by one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cvs.errors import SpecificationError

LEVELS = ("converged", "weak", "strong", "complete")
TIMELINES = ("absorbed", "write-time")
GRANULARITIES = ("record", "view")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """What a view declares beside its query; None means the default of the pipeline."""

    level: str = "strong"
    granularity: str = "record"
    timeline: str = "absorbed"
    freshness_s: float | None = None
    partition_key: tuple[str, ...] = ()
    clustering: tuple[tuple[str, bool], ...] = ()
    buckets: int | None = None
    keyspace: str | None = None
    rows: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Return the declared key columns, or nothing."""
        return self.partition_key + tuple(name for name, _ in self.clustering)

    @property
    def properties(self) -> dict[str, str]:
        """Return the options as TBLPROPERTIES has them: always the same for the same options."""
        found = {"cvs.level": self.level, "cvs.granularity": self.granularity, "cvs.timeline": self.timeline}
        if self.freshness_s is not None:
            found["cvs.freshness"] = f"{self.freshness_s:g} s"
        if self.key:
            order = ", ".join(f"{name}{' DESC' if down else ''}" for name, down in self.clustering)
            found["cvs.key"] = f"({', '.join(self.partition_key)})" + (f", {order}" if order else "")
        if self.buckets is not None:
            found["cvs.buckets"] = str(self.buckets)
        if self.rows:
            found["cvs.rows"] = ", ".join(f"{table} {count}" for table, count in self.rows)
        return found


def view_options(properties: Mapping[str, str], where: str) -> ViewOptions:
    """Parse the properties of one view."""
    unknown = [name for name in properties if name not in _NAMES]
    if unknown:
        raise SpecificationError(
            f"unknown property `{unknown[0]}`", where=where, next_step=f"known: {', '.join(_NAMES)}"
        )
    partition, clustering = _key(properties.get("cvs.key", ""), where)
    return ViewOptions(
        level=_one_of(properties, "cvs.level", LEVELS, "strong", where),
        granularity=_one_of(properties, "cvs.granularity", GRANULARITIES, "record", where),
        timeline=_one_of(properties, "cvs.timeline", TIMELINES, "absorbed", where),
        freshness_s=_seconds(properties.get("cvs.freshness"), where),
        partition_key=partition,
        clustering=clustering,
        buckets=_count(properties.get("cvs.buckets"), where),
        keyspace=properties.get("cvs.keyspace"),
        rows=_rows(properties.get("cvs.rows", ""), where),
    )


_NAMES = {
    "cvs.level": "converged, weak, strong or complete",
    "cvs.granularity": "record, or view with snapshot reads",
    "cvs.timeline": "absorbed or write-time",
    "cvs.freshness": "for example 500 ms, 2 s or 1 min",
    "cvs.key": "for example (region), day DESC, id",
    "cvs.buckets": "a whole number of state buckets",
    "cvs.keyspace": "the keyspace of the published table",
    "cvs.rows": "about how many rows tables have, for example countries 200, orders 5000000",
}

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


def _one_of(
    properties: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str, where: str
) -> str:
    value = properties.get(name, default)
    if value not in allowed:
        raise SpecificationError(
            f"{name} is {value!r}", where=where, next_step=f"one of {', '.join(allowed)}"
        )
    return value


def _seconds(text: str | None, where: str) -> float | None:
    if text is None:
        return None
    parts = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h)\s*", text)
    if parts is None:
        raise SpecificationError(f"cvs.freshness is {text!r}", where=where, next_step=_NAMES["cvs.freshness"])
    return float(parts[1]) * _UNITS[parts[2]]


def _count(text: str | None, where: str) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or not 1 <= int(text) <= 65_536:
        raise SpecificationError(f"cvs.buckets is {text!r}", where=where, next_step="1 to 65536")
    return int(text)


def _rows(text: str, where: str) -> tuple[tuple[str, int], ...]:
    """Parse `countries 200, shop.orders 5000000`."""
    found: dict[str, int] = {}
    for part in filter(str.strip, text.split(",")):
        pair = re.fullmatch(r"\s*(\w+(?:\.\w+)?)\s+([0-9]+)\s*", part)
        if pair is None:
            raise SpecificationError(f"cvs.rows is {text!r}", where=where, next_step=_NAMES["cvs.rows"])
        found[pair[1]] = int(pair[2])
    return tuple(sorted(found.items()))


def _key(text: str, where: str) -> tuple[tuple[str, ...], tuple[tuple[str, bool], ...]]:
    """Parse `(a, b), c DESC, d` as CQL writes primary keys; a bare first column partitions."""
    if not text.strip():
        return (), ()
    parts = re.fullmatch(r"\s*(?:\(([^()]*)\)|([^(),]+))\s*(?:,(.*))?", text)
    if parts is None:
        raise SpecificationError(f"cvs.key is {text!r}", where=where, next_step=_NAMES["cvs.key"])
    partition = tuple(_name(part, text, where)[0] for part in (parts[1] or parts[2]).split(","))
    rest = tuple(_name(part, text, where) for part in parts[3].split(",")) if parts[3] else ()
    return partition, rest


def _name(part: str, text: str, where: str) -> tuple[str, bool]:
    found = re.fullmatch(r"\s*(\w+)(?:\s+(asc|desc))?\s*", part, re.IGNORECASE)
    if found is None:
        raise SpecificationError(f"cvs.key is {text!r}", where=where, next_step=_NAMES["cvs.key"])
    return found[1], (found[2] or "asc").lower() == "desc"
