"""What a world of the simulator has in its tables, in the words of `Epoch.tla`; its first epoch makes state 0."""

from typing import Any

from cvs.programs.epoch import CONTROL_BUCKET, CONTROL_TABLE, control_of
from cvs.programs.stage_bucket import GRAVES, BucketRead
from cvs.programs.stage_codec import bucket_of, pack, pack_key, unpack
from cvs.programs.stage_delta import split
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_state import State
from cvs.programs.stored import decode_row
from cvs.simulate import hazards
from cvs.simulate.epochs import EpochWorld
from cvs.simulate.feeds import DELTA_BUCKETS

ROWS = {"r1": 1, "r2": 4}
"""Row of the spec -> key here: one in each bucket of DELTA, because the spec reads and puts them one by one."""

GROUPS = {"a": "a", "b": "d"}
"""Group of the spec -> its name here: one in each bucket of the state."""

FIRST = 1
"""Epochs here that are before the spec's first: the views are made by one."""


def group_of(name: str) -> str:
    """Return what a group of the spec is called here."""
    return GROUPS[name]


def delta_bucket(row: str) -> int:
    """Return the bucket of DELTA a row of the spec lies in."""
    return bucket_of(pack((ROWS[row],)), DELTA_BUCKETS)


def place_of(world: EpochWorld, bucket: str) -> tuple[str, int]:
    """Return table and number of a bucket of the spec."""
    counts, total = world.program.zones
    if bucket == "t":
        return world.program.tables[total.name], bucket_of(pack_key(()), total.zone.buckets)
    return world.program.tables[counts.name], bucket_of(pack_key((GROUPS[bucket],)), counts.zone.buckets)


def forgettable(world: EpochWorld) -> list[tuple[str, int]]:
    """Return the buckets a step `forget` chooses from."""
    return hazards.forgettable(_door(world))


def seen(world: EpochWorld) -> dict[str, Any]:
    """Return control row, DELTA, buckets and published rows as the spec's variables have them."""
    door = _door(world)
    return {
        "control": _control(door),
        "delta": {row: _image(door, row) for row in ROWS},
        "state": {bucket: _bucket(world, door, bucket) for bucket in ("a", "b", "t")},
        "published": {bucket: _shown(door, bucket) for bucket in ("a", "b", "t")},
    }


def _door(world: EpochWorld) -> MemoryDoor:
    assert isinstance(world.door, MemoryDoor)
    return world.door


def _control(door: MemoryDoor) -> dict[str, int]:
    place = (CONTROL_TABLE, CONTROL_BUCKET)
    control = control_of(BucketRead(signature=door.signatures[place], rows=door.rows[place]))
    positions = control.pin.since if control.pinned else control.pin.until
    until = sum(control.pin.until.values()) if control.pinned else 0
    return {"c": control.committed - FIRST, "since": sum(positions.values()), "until": until}


def _image(door: MemoryDoor, row: str) -> dict[str, Any]:
    images = door.images.get(("delta s.r", delta_bucket(row)), {})
    for key, (_, blob) in images.items():
        if split(key)[0] == pack((ROWS[row],)):
            stored = decode_row(blob)
            return {
                "now": _group(stored.now),
                "epoch": stored.epoch - FIRST,
                "before": _group(stored.before),
            }
    return {"now": "-", "epoch": 0, "before": "-"}


def _group(visible: Any) -> str:
    if visible is None:
        return "-"
    (name,) = unpack(visible["x"])
    return next(group for group, called in GROUPS.items() if called == name)


def _bucket(world: EpochWorld, door: MemoryDoor, bucket: str) -> dict[str, int]:
    place = place_of(world, bucket)
    zone = world.program.zones[1 if bucket == "t" else 0]

    def value(rows: dict[bytes, bytes]) -> int:
        state = State(rows=rows, keys=set(), prefixes=set(), everything=True)
        (bag,) = zone.contents(state).values()
        return sum(int(row[-1]) * count for row, count in bag)

    rows = door.rows.get(place, {})
    version = door.signatures[place].version if place in door.signatures else 0
    return {
        "signature": max(version - FIRST, 0),
        "now": value({key: row.now for key, row in rows.items() if row.alive}),
        "epoch": max([row.epoch - FIRST for key, row in rows.items() if key != GRAVES], default=0),
        "before": value({key: row.before for key, row in rows.items() if row.alive_before}),
    }


def _shown(door: MemoryDoor, bucket: str) -> dict[str, int]:
    table, key = ("s.total", (True,)) if bucket == "t" else ("s.counts", (GROUPS[bucket],))
    time, row = door.published.get(table, {}).get(key, (FIRST, None))
    value = 0 if row is None else int(row[0 if bucket == "t" else 1])
    return {"value": value, "time": time - FIRST}
