"""Texts as numbers: each different one is kept, decoded and looked at once, however often it stands there."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from cvs.errors import HistoryError
from cvs.history import kernels
from cvs.history.kernels import Bytes
from cvs.history.packing import Integers
from cvs.model.values import from_json

Places = tuple[Bytes, Integers, Integers]
"""Texts: the bytes they stand in, where each begins and where it ends."""

SMALL = 1 << 20
"""Whole numbers from 0 on that have a place in a table are below this."""

_UNSET = -(1 << 63)
_DECODE = msgspec.json.Decoder(list[Any]).decode
_DECODE_KEYS = msgspec.json.Decoder(list[tuple[Any, ...]]).decode


class Texts:
    """Numbers texts in the order of their first appearance."""

    def __init__(self) -> None:
        self.many = 0
        self._table = np.zeros(1 << 10, dtype=np.int64)
        self._hashes = np.zeros(1 << 9, dtype=np.uint64)
        self._offsets = np.zeros((1 << 9) + 1, dtype=np.int64)
        self._store = np.zeros(1 << 13, dtype=np.uint8)

    def of(self, places: Places) -> Integers:
        """Return the number of each text."""
        data, begins, ends = places
        self._grow(len(begins), int((ends - begins).sum()))
        known = (self._table, self._hashes, self._offsets, self._store)
        found, self.many = kernels.intern(data, begins, ends, known, self.many)
        numbers: Integers = found
        return numbers

    def since(self, number: int) -> list[bytes]:
        """Return the texts from a number on."""
        ends = self._offsets[number : self.many + 1].tolist()
        whole = self._store[ends[0] : ends[-1]].tobytes()
        return [whole[a - ends[0] : b - ends[0]] for a, b in pairwise(ends)]

    def _grow(self, more: int, size: int) -> None:
        wanted = self.many + more
        if wanted > len(self._hashes):
            room = max(wanted, 2 * len(self._hashes))
            self._hashes, self._offsets = _longer(self._hashes, room), _longer(self._offsets, room + 1)
        if 2 * wanted > len(self._table):
            self._table = kernels.table_of(self._hashes[: self.many], 1 << (2 * wanted).bit_length())
        wanted = int(self._offsets[self.many]) + size
        if wanted > len(self._store):
            self._store = _longer(self._store, max(wanted, 2 * len(self._store)))


def _longer(values: Any, room: int) -> Any:
    found = np.zeros(room, dtype=values.dtype)
    found[: len(values)] = values
    return found


class Numbered:
    """Gives each text the number that a function says for its value; the function is asked once a text."""

    def __init__(self, values: Callable[[Sequence[bytes]], list[Any]], number: Callable[[Any], int]) -> None:
        self._texts, self._values, self._number = Texts(), values, number
        self._numbers = np.zeros(1 << 9, dtype=np.int64)
        self._known = 0

    def of(self, places: Places) -> Integers:
        """Return the number of each text's value."""
        found = self._texts.of(places)
        known, self._known = self._known, self._texts.many
        if self._known > known:
            if self._known > len(self._numbers):
                self._numbers = _longer(self._numbers, max(self._known, 2 * len(self._numbers)))
            fresh = map(self._number, self._values(self._texts.since(known)))
            self._numbers[known : self._known] = np.fromiter(fresh, dtype=np.int64, count=self._known - known)
        return self._numbers[found]


class Table:
    """What a function says of small whole numbers: it is asked once for each, and a table has a place for it."""

    def __init__(self, ask: Callable[[int], int]) -> None:
        self._ask = ask
        self._known: Integers = np.full(1 << 9, _UNSET)

    def of(self, small: Integers) -> Integers:
        """Look them up."""
        room = int(small.max(initial=0)) + 1
        if room > len(self._known):
            longer = np.full(max(room, 2 * len(self._known)), _UNSET)
            longer[: len(self._known)] = self._known
            self._known = longer
        found = self._known[small]
        unset = small[found == _UNSET].tolist()
        for value in dict.fromkeys(unset):
            self._known[value] = self._ask(value)
        return self._known[small] if unset else found


class Keys:
    """Numbers keys; those that are one small whole number, as most are, by a table."""

    def __init__(self, number: Callable[[Any], int]) -> None:
        self._texts = Numbered(key_values, number)
        self._small = Table(lambda value: number((value,)))

    def of(self, places: Places) -> Integers:
        """Return the number of each key."""
        small, all_are = kernels.small_keys(*places, SMALL)
        return self._small.of(small) if all_are else self._texts.of(places)


def json_values(texts: Sequence[bytes]) -> list[Any]:
    """Return the values of JSON texts, in their types; no text is null."""
    whole = b"[%s]" % b",".join(text or b"null" for text in texts)
    try:
        values = _DECODE(whole)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"not JSON: {error}") from error
    if len(values) != len(texts):
        raise HistoryError("not JSON: more than one value where one belongs")
    return [from_json(value) if type(value) in (dict, list) else value for value in values]


def key_values(texts: Sequence[bytes]) -> list[Any]:
    """Return the keys of JSON texts."""
    whole = b"[%s]" % b",".join(texts)
    if b'"$' in whole or whole.count(b"[") != len(texts) + 1:
        return json_values(texts)
    try:
        keys: list[Any] = _DECODE_KEYS(whole)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HistoryError(f"not a key: {error}") from error
    return keys


def plain_values(texts: Sequence[bytes]) -> list[Any]:
    """Return texts that stand there without quotes."""
    try:
        return [text.decode() for text in texts]
    except UnicodeDecodeError as damage:
        raise HistoryError(f"not text: {damage.reason}") from damage
