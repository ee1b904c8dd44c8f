"""The door in memory answers as Cassandra would: tests and the simulator stand on it."""

from typing import Any

import pytest

from cvs.model.outcome import APPLIED, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.stage_bucket import ReadBucket, SetBucket, StateRow
from cvs.programs.stage_delta import DropBucket, PutImages, ReadImages
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PutRows


def row(now: bytes) -> StateRow:
    return StateRow(now, 1, True)


def test_a_test_and_set_is_applied_only_to_the_signature_it_expects() -> None:
    door = MemoryDoor(incarnation=4)
    untouched, one = Signature(incarnation=4), Signature(incarnation=4, version=1)
    puts = ((b"a", row(b"1")), (b"b", row(b"2")))
    first = SetBucket(table="s", bucket=2, expected=untouched, new=one, puts=puts)
    assert door([first]) == [APPLIED]
    (refused,) = door([first])
    assert (refused.kind, refused.returned) == (OutcomeKind.REJECTED, one)
    two = Signature(incarnation=4, version=2)
    assert (
        door.answer(
            SetBucket(
                table="s",
                bucket=2,
                expected=one,
                new=two,
                puts=((b"a", row(b"3")),),
                deletes=(b"a", b"b", b"c"),
            )
        )
        == APPLIED
    )
    assert door.rows == {("s", 2): {b"a": row(b"3")}}
    assert door.signatures == {("s", 2): two}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"keys": (b"pa", b"none")}, [b"pa"]),
        ({"prefixes": (b"p",)}, [b"pa", b"pb"]),
        ({"keys": (b"q",), "prefixes": (b"pb", b"r")}, [b"pb", b"q"]),
        ({"everything": True}, [b"a", b"pa", b"pb", b"q"]),
        ({}, []),
    ],
)
def test_a_bucket_is_read_by_key_by_prefix_or_whole(more: dict[str, Any], found: list[bytes]) -> None:
    door = MemoryDoor()
    door.rows["s", 0] = {key: row(key) for key in (b"a", b"pa", b"pb", b"q")}
    door.signatures["s", 0] = Signature(incarnation=1, version=9)
    answer = door.answer(ReadBucket(table="s", bucket=0, **more))
    assert answer.signature == Signature(incarnation=1, version=9)
    assert {key: it.now for key, it in sorted(answer.rows.items())} == {key: key for key in found}
    elsewhere = door.answer(ReadBucket(table="s", bucket=1, **more))
    assert (elsewhere.signature, elsewhere.rows) == (Signature(incarnation=1), {})


def images(door: MemoryDoor, *keys: bytes, prefixes: tuple[bytes, ...] = ()) -> Any:
    return door.answer(ReadImages(table="d", bucket=3, keys=keys, prefixes=prefixes))


def put(door: MemoryDoor, write_time: int, **values: bytes | None) -> None:
    found = tuple((key.encode(), image) for key, image in values.items())
    assert door.answer(PutImages(table="d", bucket=3, images=found, write_time=write_time)) is None


def test_the_latest_image_stays_of_one_time_a_deletion_then_the_larger_bytes() -> None:
    door = MemoryDoor()
    put(door, 5, a=b"5", b=b"5", c=b"5", d=None)
    put(door, 4, a=b"9", b=None, d=b"9")
    assert images(door, b"a", b"b", b"d") == {b"a": b"5", b"b": b"5"}
    put(door, 5, a=b"4", b=None, c=b"6", d=b"9")
    assert images(door, b"a", b"b", b"c", b"d") == {b"a": b"5", b"c": b"6"}
    put(door, 6, a=b"1", d=b"1")
    assert images(door, b"a", b"d", prefixes=(b"c", b"b")) == {b"a": b"1", b"c": b"6", b"d": b"1"}
    assert list(images(door, prefixes=(b"",))) == [b"a", b"c", b"d"]
    assert images(MemoryDoor(), b"a") == {}
    put(door, 0, z=b"")
    assert images(door, b"z") == {b"z": b""}, "the first put of all, whatever its time"


def test_a_bucket_that_is_dropped_loses_what_was_put_until_then() -> None:
    door = MemoryDoor()
    put(door, 5, a=b"1")
    put(door, 7, b=b"1")
    put(door, 6, c=b"1")
    assert door(
        [DropBucket(table="d", bucket=3, write_time=6), DropBucket(table="d", bucket=4, write_time=6)]
    ) == [
        None,
        None,
    ]
    assert images(door, b"a", b"b", b"c") == {b"b": b"1"}
    put(door, 5, a=b"late")
    put(door, 7, c=b"new")
    assert images(door, b"a", b"c") == {b"c": b"new"}


def test_published_rows_are_of_the_latest_write_and_of_one_time_the_last() -> None:
    door = MemoryDoor(keys={"v": (1, 0)})

    def publish(write_time: int, *puts: Any, deletes: Any = ()) -> None:
        door.answer(PutRows(publication="v", puts=puts, deletes=deletes, write_time=write_time))

    publish(5, ("a", 1, "x"), ("b", 2, "x"))
    publish(4, ("a", 1, "old"), deletes=((2, "b"),))
    assert door.showing("v") == {(1, "a"): ("a", 1, "x"), (2, "b"): ("b", 2, "x")}
    publish(5, ("a", 1, "same"), deletes=((2, "b"),))
    publish(0, ("c", 3, "first"))
    assert door.showing("v") == {(1, "a"): ("a", 1, "same"), (3, "c"): ("c", 3, "first")}
    assert door.showing("other") == {}


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(AssertionError):
        MemoryDoor().answer("no request")  # type: ignore[arg-type]
