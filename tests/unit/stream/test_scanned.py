"""A scan and captured writes, absorbed in any order, give the base row: what CQL hides is read again in doubt."""

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from msgspec import structs

from cvs.capture.changes import (
    Cell,
    Change,
    Column,
    ColumnKind,
    Deletion,
    Kind,
    Liveness,
    TableDefinition,
    UserType,
)
from cvs.model.cql_bytes import encode_cql
from cvs.programs.delta import NEVER, Doubt, RowImage, live, merge, visible
from cvs.programs.epoch_run import RowInDoubt
from cvs.programs.stored import StoredRow, absorb
from cvs.stream.bases import PATH, base_reader, base_table, delta_input
from cvs.stream.build import answer
from cvs.stream.scanned import ASKED_AGAIN_SECONDS, Selection, items

DEFINITION = TableDefinition(
    id="1",
    keyspace="home",
    name="things",
    columns=(
        Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
        Column(name="amount", type="int", kind=ColumnKind.REGULAR),
        Column(name="fixed", type="frozen<list<int>>", kind=ColumnKind.REGULAR),
        Column(name="limits", type="map<text, int>", kind=ColumnKind.REGULAR),
        Column(name="spot", type='"Place"', kind=ColumnKind.REGULAR),
        Column(name="steps", type="list<int>", kind=ColumnKind.REGULAR),
        Column(name="tags", type="set<text>", kind=ColumnKind.REGULAR),
    ),
    user_types=(UserType(name="Place", fields=(("street", "text"), ("floor", "int"))),),
)
SELECTION = Selection(definition=DEFINITION, reference="d")
READER = base_reader(DEFINITION, base_table(DEFINITION), delta="d", buckets=1)
KEY = b"\x00\x00\x00\x01"
SPLIT = ("limits", "spot", "steps", "tags")


def number(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def listed(values: Iterable[bytes | None]) -> bytes:
    found = list(values)
    return number(len(found), 4) + framed(found)


def framed(values: Iterable[bytes | None]) -> bytes:
    return b"".join(number(-1, 4) if it is None else number(len(it), 4) + it for it in values)


def image_of(change: Change) -> RowImage:
    ((_, found),) = delta_input([change], {"d": DEFINITION}, tables=())[0].items()
    ((image,),) = found[KEY].rows.values()
    return image


def read(image: RowImage, clock: int) -> list[list[bytes | None]]:
    """Answer as Cassandra answers `SELECTION.select` for a row that really has this image."""
    if visible(image, RowImage(), clock) is None:
        return []
    row: list[bytes | None] = [number(0), number(clock * 1000), KEY]
    for column in SELECTION.columns:
        cells = sorted(it for it in image.cells if it[0] == column.name and live(it[2], clock))
        lives = [None if c.gone_at == NEVER else number(c.gone_at - clock, 4) for _, _, c in cells]
        times = [number(cell.written) for _, _, cell in cells]
        if not cells:
            row += [None, None, None]
        elif column.name not in SPLIT:
            row += [cells[0][2].value, times[0], lives[0]]
        else:
            row += [value_of(column.name, cells), *udt(column.name, cells, times, lives)]
    return [row]


def value_of(name: str, cells: list[Any]) -> bytes:
    if name == "tags":
        return listed(path[1:] for _, path, _ in cells)
    if name == "steps":
        ordered = sorted(cells, key=lambda it: UUID(bytes=it[1][1:]).time)
        return listed(cell.value for _, _, cell in ordered)
    if name == "limits":
        flat = [part for _, path, cell in cells for part in (path[1:], cell.value)]
        return number(len(cells), 4) + framed(flat)
    fields = {int.from_bytes(path[1:], "big"): cell.value for _, path, cell in cells}
    return framed(fields.get(i) for i in range(2))


def udt(name: str, cells: list[Any], times: list[bytes], lives: list[bytes | None]) -> list[bytes]:
    if name != "spot":
        return [listed(times), listed(lives)]
    places = [int.from_bytes(path[1:], "big") for _, path, _ in cells]
    by_place = dict(zip(places, zip(times, lives, strict=True), strict=True))
    return [listed(by_place.get(i, (None, None))[part] for i in range(2)) for part in (0, 1)]


class Base:
    """One base row: its writes, and what it really is after each."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.changes: list[Change] = []
        self.paths: list[bytes] = []
        self.ends: list[int] = []

    def write(self) -> None:
        """Write in some way; write times grow."""
        at, dice = 10 * (len(self.changes) + 1), self.chance
        ttl = dice.choice([0, 0, 0, 5, 9])
        end = 100 + ttl if ttl else None
        path = UUID(fields=(at, 0, 0x1000, 0x80, 0, 1)).bytes
        five = encode_cql("int", dice.randrange(5))

        def cell(column: str, value: bytes | None = five, where: bytes | None = None) -> Cell:
            return Cell(column, value, at, (end or 7) if value is None else end, ttl, where)

        emptied = (("steps", Deletion(at - 1, 1)),)
        parts: list[dict[str, Any]] = [
            {"liveness": Liveness(at, ttl, end), "cells": (cell("amount"), cell("tags", b"", b""))},
            {"liveness": Liveness(at)},
            {"liveness": Liveness(at, ttl, end)},
            {"cells": (cell("amount"),)},
            {"cells": (cell("amount", None),)},
            {"cells": (cell("fixed", encode_cql("list<int>", [1, 2])), cell("limits", five, b"k"))},
            {"cells": (cell("spot", b"main", b"\x00\x00"), cell("spot", None, b"\x00\x01"))},
            {"cells": (cell("spot", five, b"\x00\x01"),)},
            {"cells": (cell("steps", five, path),)},
            {"cells": (cell("steps", five, path),), "complex_deletions": emptied},
            {"cells": (cell("steps", None, dice.choice(self.paths or [path])),)},
            {"cells": (cell("tags", b"", b"x"), cell("limits", None, b"k"))},
            {"cells": tuple(cell(name, None) for name in ("amount", "fixed"))},
            {"deletion": Deletion(at, 1)},
        ]
        self.paths.append(path)
        self.changes.append(Change(kind=Kind.ROW, definition="d", key=KEY, **dice.choice(parts)))

    def image(self, count: int) -> RowImage:
        """Return the image after so many writes."""
        image = RowImage()
        for change in self.changes[:count]:
            image = merge(image, image_of(change))
        return image


class Delta:
    """DELTA of one row, and the loop that reads it again while it is in doubt."""

    def __init__(self, base: Base) -> None:
        self.base, self.epoch, self.again = base, 0, 0
        self.stored: StoredRow | None = None

    def take(self, change: Change | None, clock: int) -> None:
        """Absorb a change (None: time passed), and what is read because of it."""
        self.epoch += 1
        stored = {b"": self.stored} if self.stored is not None else {}
        images = [] if change is None else [image_of(change)]
        done = absorb(self.epoch, clock, header=None, rows=stored, row_changes={b"": images})
        self.stored = done.rows.get(b"", self.stored)
        doubts: list[Doubt] = [it.doubt for it in done.emitted if it.doubt is not None]
        for doubt in doubts:
            self.again += 1
            assert self.again < 100, "a doubt that never ends"
            found = read(self.base.image(len(self.base.changes)), clock)
            for more in answer(RowInDoubt("home.things", KEY, b"", doubt), SELECTION, found):
                self.take(more, clock)


def shown(found: dict[str, Any] | None) -> Any:
    return None if found is None else READER.decode(KEY, b"", found)


def run(seed: int) -> int:
    """Write, scan in between, absorb in some order; return how often the row was read again."""
    base = Base(seed)
    dice = base.chance
    for _ in range(dice.randrange(2, 9)):
        base.write()
    captured_from = dice.randrange(len(base.changes) + 1)
    scanned_at = dice.randrange(captured_from, len(base.changes) + 1)
    coming: list[Change] = [
        change for row in read(base.image(scanned_at), 100) for change in SELECTION.changes(row, statics=True)
    ]
    coming += base.changes[captured_from:] * dice.choice([1, 1, 2])
    dice.shuffle(coming)
    delta = Delta(base)
    for change in coming:
        delta.take(change, 100)
    for clock in (100, 104, 120, 100 + ASKED_AGAIN_SECONDS):
        delta.take(None, clock)
        found = None if delta.stored is None else visible(delta.stored.image, RowImage(), clock)
        truth = visible(base.image(len(base.changes)), RowImage(), clock)
        if clock != 120:  # because a row without live cells is asked for only now and then
            assert shown(found) == shown(truth), f"seed {seed}, clock {clock}"
    return delta.again


def test_scan_and_captured_writes_give_the_base_row() -> None:
    """H18: whatever of a row was written before capture, whenever it was scanned, in whatever order it all comes."""
    again = [run(seed) for seed in range(1500)]
    assert sum(map(bool, again)) > 50, "hardly a row was in doubt: the test lost its point"


def test_the_scan_asks_for_everything_that_a_cell_has() -> None:
    """Token, time, key, then value, write times and lives of each column."""
    assert SELECTION.select.startswith(
        "SELECT token(id), to_unix_timestamp(now()), id, amount, writetime(amount)"
    )
    assert SELECTION.select.endswith("tags, writetime(tags), ttl(tags) FROM home.things")
    assert items(listed([b"a", None])) == [b"a", None]
    assert PATH == b"."


def test_a_scan_names_no_hidden_column() -> None:
    """The value of a table with COMPACT STORAGE that is all key: naming it was refused, and ended `cvs run`."""
    hidden = Column(name="value", type="empty", kind=ColumnKind.REGULAR)
    definition = structs.replace(DEFINITION, columns=(*DEFINITION.columns[:2], hidden))
    found = Selection(definition=definition, reference="d")
    assert ('"value"' in found.select, [it.name for it in found.columns]) == (False, ["amount"])
