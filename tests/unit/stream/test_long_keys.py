"""Keys of DELTA of any length are stored within what Cassandra takes, and found again by key and by prefix."""

import pytest

from cvs.programs.stage_codec import NAME_MAX, framed
from cvs.stream.long_keys import images_of, slice_of, stored_image, stored_key

CASSANDRA_TAKES = 65_535
LONG, LONGER = b"p" * 65_535, b"q" * 65_534 + b"a"


def stored(*keys: bytes) -> dict[bytes, bytes]:
    return {stored_key(key): stored_image(key, b"image of " + key[-9:]) for key in keys}


@pytest.mark.parametrize("size", [0, 1, NAME_MAX - 1, NAME_MAX, NAME_MAX + 1, NAME_MAX + 32, 140_000])
def test_a_key_comes_back_whole(size: int) -> None:
    key = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    ((name, image),) = stored(key).items()
    assert len(name) <= CASSANDRA_TAKES
    assert list(images_of([(name, image)], b"")) == [(key, b"image of " + key[-9:])]


def test_keys_that_differ_at_their_ends_differ_as_they_are_stored() -> None:
    keys = [framed(LONG, LONG[:-1] + bytes([end])) for end in range(50)]
    assert len(stored(*keys)) == len(keys)


@pytest.mark.parametrize("partition", [b"p", LONG, LONGER, LONGER[:-1] + b"b", LONG[:-1]])
def test_a_partition_is_found_by_its_prefix_and_no_other(partition: bytes) -> None:
    clusterings = (b"", b"a", LONG)
    keys = [framed(p, c) for p in (b"p", LONG, LONGER, LONGER[:-1] + b"b", LONG[:-1]) for c in clusterings]
    keys += [framed(p) for p in (b"p", LONG, LONGER)]
    begin, end = slice_of(framed(partition))
    assert len(begin) <= CASSANDRA_TAKES
    found = [(key, image) for key, image in stored(*keys).items() if begin <= key < end]
    expected = {key for key in keys if key.startswith(framed(partition))}
    assert {key for key, _ in images_of(found, framed(partition))} == expected
