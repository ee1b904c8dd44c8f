"""Captured changes become DELTA's input, and DELTA's images become rows, for every kind of column."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from cvs.capture.changes import (
    Bound,
    Cell,
    Change,
    Column,
    ColumnKind,
    Deletion,
    Kind,
    Liveness,
    Range,
    TableDefinition,
)
from cvs.capture.decode import TableDecoder
from cvs.errors import SpecificationError
from cvs.model.cql_bytes import decode_cql, encode_cql
from cvs.programs import stage_codec
from cvs.programs.delta import RangeDeletion
from cvs.programs.epoch_run import BaseReader, row_of
from cvs.programs.stage_codec import pack
from cvs.programs.stored import absorb
from cvs.stream import clusterings
from cvs.stream.bases import FAST, PATH, base_reader, base_table, delta_input, made_anew

ROOM = ColumnKind.PARTITION_KEY
AT = ColumnKind.CLUSTERING
DEFINITION = TableDefinition(
    id="1",
    keyspace="home",
    name="readings",
    columns=(
        Column(name="room", type="text", kind=ROOM, position=0),
        Column(name="at", type="int", kind=AT, position=0, descending=True),
        Column(name="owner", type="text", kind=ColumnKind.STATIC),
        Column(name="tags", type="set<text>", kind=ColumnKind.REGULAR),
        Column(name="steps", type="list<int>", kind=ColumnKind.REGULAR),
        Column(name="limits", type="map<text, int>", kind=ColumnKind.REGULAR),
        Column(name="value", type="double", kind=ColumnKind.REGULAR),
    ),
)
FIRST, SECOND = (UUID(int=(1 << 76) + (t << 96)).bytes for t in (1, 2))


def of(kind: str, value: Any) -> bytes:
    found = encode_cql(kind, value)
    assert found is not None
    return found


def row(at: int, *cells: Cell, time: int = 5) -> Change:
    return Change(
        kind=Kind.ROW,
        definition="d",
        key=b"hall",
        clustering=(of("int", at),),
        liveness=Liveness(time),
        cells=cells,
    )


class Table:
    """One partition of DELTA, moved on change by change."""

    def __init__(self) -> None:
        self.reader: BaseReader = base_reader(DEFINITION, base_table(DEFINITION), delta="d", buckets=1)
        self.header: Any = None
        self.rows: dict[bytes, Any] = {}
        self.epoch = 0

    def take(self, *changes: Change) -> dict[int, tuple[Any, ...] | None]:
        """Absorb changes; return the rows that moved by `at`."""
        self.epoch += 1
        ((_, found),) = delta_input(changes, {"d": DEFINITION}, tables=())[0].items()
        (it,) = found.values()
        done = absorb(
            self.epoch,
            0,
            header=self.header,
            rows=self.rows,
            header_changes=it.header,
            row_changes=it.rows,
            inside=self.reader.inside,
        )
        self.header = done.header or self.header
        self.rows |= done.rows
        moved = {}
        for one in done.emitted:
            shown = one.now if one.now is not None else one.before
            assert shown is not None
            full = self.reader.decode(b"hall", one.clustering, shown)
            moved[full[1]] = None if one.now is None else full
        return moved


def test_every_kind_of_column_is_read() -> None:
    """Keys, plain cells, and the elements of non-frozen collections in their order."""
    table = Table()
    moved = table.take(
        row(
            7,
            Cell("value", of("double", 1.5), 5),
            Cell("tags", b"", 5, path=b"warm"),
            Cell("tags", b"", 5, path=b""),
            Cell("steps", of("int", 20), 5, path=SECOND),
            Cell("steps", of("int", 10), 5, path=FIRST),
            Cell("limits", of("int", 3), 5, path=b"low"),
        )
    )
    assert moved == {7: ("hall", 7, None, ("", "warm"), (10, 20), (("low", 3),), 1.5)}


def test_only_what_is_read_is_decoded() -> None:
    """The key always is; another column is null, and may hold what no view could show: the row is read all the same."""
    reader = base_reader(DEFINITION, base_table(DEFINITION), delta="d", buckets=1, read={"value"})
    at = pack((of("int", 7),))
    visible: Any = {"owner": b"ann", "value": of("double", 1.5), "steps": [(PATH + FIRST, b"no number")]}
    assert row_of(reader, b"hall", at, visible) == (("hall", 7, None, None, None, None, 1.5), "")
    everything = base_reader(DEFINITION, base_table(DEFINITION), delta="d", buckets=1)
    row, reason = row_of(everything, b"hall", at, visible)
    assert (row, reason[:22]) == (None, "b'no number' is no int")


@pytest.mark.parametrize("kind", ["empty", "'org.apache.cassandra.db.marshal.DateType'"])
def test_a_column_of_a_type_that_only_cassandra_knows_hinders_no_view_that_does_not_read_it(
    kind: str,
) -> None:
    """The first is the hidden column of a table with COMPACT STORAGE that is all key."""
    odd = Column(name="odd", type=kind, kind=ColumnKind.REGULAR)
    definition = structs.replace(DEFINITION, columns=(*DEFINITION.columns, odd))
    reader = base_reader(definition, base_table(definition), delta="d", buckets=1, read={"value"})
    visible: Any = {"value": of("double", 1.5), "odd": b""}
    found, _ = row_of(reader, b"hall", pack((of("int", 7),)), visible)
    assert found == ("hall", 7, None, None, None, None, 1.5, None)
    assert TableDecoder(definition, "d").definition is definition


def test_short_cuts_read_what_the_general_decoder_reads() -> None:
    """The same values, also of no bytes at all; and what cannot be read is refused in the same words."""
    values: dict[str, list[Any]] = {
        "text": ["", "a", "\u00e4\U0001f600"],
        "int": [0, -1, 2**31 - 1, -(2**31)],
        "bigint": [0, -1, 2**63 - 1],
        "boolean": [True, False],
        "date": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
        "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 11, 19, 5, 30, 0, 7000, tzinfo=UTC)],
        "decimal": [Decimal(it) for it in ("0", "0.00", "-1.50", "1E+5", "9" * 60, "-1E-30")],
    }  # fmt: skip
    assert {*FAST} == {*values} | {"varchar", "ascii"}
    for kind, some in values.items():
        for data in [*(of(kind, value) for value in some), b""]:
            fast, general = FAST[kind](data), decode_cql(kind, data)
            assert (repr(fast), type(fast)) == (repr(general), type(general)), kind
    unreadable = {"text": b"\xff", "date": b"\xff\xff\xff\xff", "timestamp": b"\x7f" + b"\xff" * 7}
    unreadable["decimal"] = b"\x80\x00\x00\x00\x01"  # 1E+2147483648
    unreadable["varint"] = b"\x7f" * 5000  # 12,000 digits
    for kind, data in unreadable.items():
        definition = structs.replace(
            DEFINITION, columns=(*DEFINITION.columns, Column(name="x", type=kind, kind=ColumnKind.REGULAR))
        )
        reader = base_reader(definition, base_table(definition), delta="d", buckets=1)
        _, reason = row_of(reader, b"hall", pack((of("int", 7),)), {"x": data})
        assert reason.startswith(f"{data[:32]!r} is no {kind}: "), reason
        assert len(reason) < 400, "it is shown to people"


def test_statics_change_every_row() -> None:
    """A static cell shows in each row of the partition."""
    table = Table()
    table.take(row(1), row(2))
    moved = table.take(
        Change(kind=Kind.STATIC, definition="d", key=b"hall", cells=(Cell("owner", b"Eva", 6),))
    )
    assert {at: full and full[2] for at, full in moved.items()} == {1: "Eva", 2: "Eva"}


def test_a_range_is_in_clustering_order() -> None:
    """`at` is descending: a range from 3 (inclusive) to 1 (exclusive) holds 3 and 2."""
    table = Table()
    table.take(*(row(at) for at in range(5)))
    bounds = Range(Bound((of("int", 3),), True), Bound((of("int", 1),), False))
    moved = table.take(
        Change(kind=Kind.RANGE_DELETION, definition="d", key=b"hall", range=bounds, deletion=Deletion(9, 9))
    )
    assert moved == {2: None, 3: None}
    assert table.take(row(3, time=8), row(4, time=8)) == {}, "an older write comes late: it stays hidden"
    assert list(table.take(row(3, time=10))) == [3]


def test_a_row_is_read_once_for_all_ranges_of_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch of a thousand deleted slices over thousands of rows took minutes: each was decoded for each."""
    reader = base_reader(DEFINITION, base_table(DEFINITION), delta="d", buckets=1)
    read: list[bytes] = []
    monkeypatch.setattr(clusterings, "unpack", lambda data: (read.append(data), stage_codec.unpack(data))[1])
    ranges = [
        RangeDeletion(pack((of("int", 2 * n + 1),)), True, pack((of("int", 2 * n),)), False, Deletion(5, 5))
        for n in range(20)
    ]
    for at in range(50):
        covered = [reader.inside(it, pack((of("int", at),))) for it in ranges]
        assert covered.count(True) == (at % 2 if at < 40 else 0)
    assert len(read) == len(set(read)) <= 50 + 2 * len(ranges)


def test_a_partition_deletion_takes_all_rows() -> None:
    """And stays, for what comes late."""
    table = Table()
    table.take(row(1), row(2))
    gone = Change(kind=Kind.PARTITION_DELETION, definition="d", key=b"hall", deletion=Deletion(9, 9))
    assert table.take(gone) == {1: None, 2: None}
    assert table.take(row(3, time=8)) == {}


def test_what_cannot_be_followed_stops_its_table() -> None:
    """TRUNCATE and DROP stop their table, a gap stops all that may have lost changes; nothing is silently missed."""

    def stopped(kind: Kind, definition: str = "d") -> dict[str, str]:
        change = Change(kind=kind, definition=definition, detail="why")
        return delta_input([change], {"d": DEFINITION}, tables=["home.readings", "home.rooms"])[1]

    assert stopped(Kind.TRUNCATION) == {"home.readings": "the table was truncated: why"}
    assert stopped(Kind.DROPPED) == {"home.readings": "the table was dropped: why"}
    assert stopped(Kind.GAP, "").keys() == {"home.readings", "home.rooms"}
    assert stopped(Kind.TRUNCATION, "other") == {}


def test_a_column_that_views_read_and_that_went_is_said() -> None:
    def stopped(*read: str) -> dict[str, str]:
        change = Change(kind=Kind.SCHEMA, definition="d")
        return delta_input([change], {"d": DEFINITION}, reads={"home.readings": read})[1]

    here = [column.name for column in DEFINITION.columns]
    assert stopped(*here) == {}
    assert stopped(here[0], "gone") == {"home.readings.gone": "the column was dropped"}


def test_what_was_truncated_before_a_build_began_stops_nothing() -> None:
    """The scan saw what was left, and the captured changes are younger; one that came later stops the table."""

    def stopped(moment: int) -> dict[str, str]:
        change = Change(kind=Kind.TRUNCATION, definition="d", deletion=Deletion(moment, 0))
        return delta_input([change], {"d": DEFINITION}, tables=["home.readings"], begun=5_000)[1]

    assert stopped(4_000) == {}
    assert stopped(4_001).keys() == {"home.readings"}


@pytest.mark.parametrize("kind", [Kind.ROW, Kind.DROPPED, Kind.TRUNCATION, Kind.SCHEMA])
def test_another_table_of_the_same_name_is_another_table(kind: Kind) -> None:
    """What is left in a log of a table that was dropped before the build: its rows would be phantoms."""
    change = row(1) if kind is Kind.ROW else Change(kind=kind, definition="d")
    for id_, nothing in ((DEFINITION.id, False), ("another", True)):
        found, stopped = delta_input(
            [change], {"d": DEFINITION}, reads={"home.readings": ["gone"]}, identities={"home.readings": id_}
        )
        assert (not found and not stopped) is nothing


def test_a_table_made_anew_under_its_name_is_not_the_one_that_was_built_from() -> None:
    now = {"home.readings": DEFINITION.id}
    assert made_anew({"home.readings": DEFINITION.id, "home.rooms": "r"}, now) == {}
    assert made_anew({"home.readings": "before"}, now) == {
        "home.readings": "the table was dropped and made anew"
    }
    assert made_anew({}, now) == {}


def test_a_row_too_large_for_views_says_so_and_is_whole_again_when_it_shrinks() -> None:
    """What was written is remembered, whatever else of the row was large."""
    table = Table()
    table.take(row(1, Cell("limits", of("int", 3), 5, path=b"low")))
    large = row(1, *(Cell("tags", b"", 6, path=b"%d" % n + bytes(200_000)) for n in range(6)))
    with pytest.raises(SpecificationError, match=r"1,200,0\d\d bytes are in the columns that views read"):
        table.take(large)
    (stored,) = table.rows.values()
    assert len(stored.now) == 1, "what is emitted holds none of it"
    emptied = structs.replace(row(1), complex_deletions=(("tags", Deletion(7, 7)),))
    assert table.take(emptied) == {1: ("hall", 1, None, None, None, (("low", 3),), None)}


def test_of_columns_that_no_view_reads_only_their_times_are_kept() -> None:
    """A document of megabytes beside what views read costs nothing; that it is there says that the row is."""
    change = row(1, Cell("value", bytes(5_000_000), 5), Cell("tags", b"", 5, path=b"warm"))
    reads = {"home.readings": frozenset({"tags"})}
    found, _ = delta_input([change], {"d": DEFINITION}, reads=reads)
    ((image,),) = found["home.readings"][b"hall"].rows.values()
    assert [(name, path, cell.written, cell.value) for name, path, cell in image.cells] == [
        ("tags", b".warm", 5, b""),
        ("value", b"", 5, b""),
    ]
    gone = row(1, Cell("value", None, 6, expires_at=9))
    found, _ = delta_input([gone], {"d": DEFINITION}, reads=reads)
    ((image,),) = found["home.readings"][b"hall"].rows.values()
    assert image.cells[0][2].value is None
