"""Keys by a table with a place for each small number are numbered as their texts are."""

import random

import numpy as np
import pytest

from cvs.errors import HistoryError
from cvs.history.fields import Numbering
from cvs.history.texts import Keys, Numbered, Places, key_values

SMALL = tuple(f"[{number}]".encode() for number in (0, 1, 7, 10, 99, 1_048_575))
OTHERS = (
    *(b"[1048576]", b"[-1]", b"[0,1]", b"[]", b'["7"]', b"[7.0]", b"[ 7]", b"[null]", b"[true]"),
    b"[9999999999999999999]",
)


def placed(texts: list[bytes]) -> Places:
    ends = np.cumsum([len(text) for text in texts])
    lengths = np.array([len(text) for text in texts], np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), ends - lengths, ends


def test_small_keys_are_numbered_as_their_texts_are() -> None:
    chance = random.Random(1)
    one, other = Numbering(), Numbering()
    keys = Keys(lambda key: one.number("t", key))
    plain = Numbered(key_values, lambda key: other.number("t", key))
    for block in range(60):
        texts = chance.choices(SMALL if block % 3 else SMALL + OTHERS, k=chance.randint(1, 30))
        found = keys.of(placed(texts))
        assert found.tolist() == plain.of(placed(texts)).tolist(), texts
    assert list(one.known) == list(other.known)
    assert len(one.known) == len(SMALL) + len(OTHERS) - 3, "7 stands there in three ways, and true is 1"


@pytest.mark.parametrize("text", [b"[07]", b"[7", b"7]", b"[7]]"])
def test_what_is_no_key_is_refused_as_before(text: bytes) -> None:
    with pytest.raises(HistoryError):
        Keys(lambda key: Numbering().number("t", key)).of(placed([text]))
