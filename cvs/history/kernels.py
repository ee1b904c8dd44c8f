"""The loops over bytes, compiled: texts cut into numbers and texts by their form, and texts numbered.

Imported only where a history is large, because the compiler takes half a second to load.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from cvs.history.packing import Integers

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Templates = tuple[Bytes, Integers, Integers, Hashes]
Function = TypeVar("Function", bound=Callable[..., Any])

_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
_TEXT, _WHOLE, _BROKEN = np.uint64(256), np.uint64(257), np.uint64(258)  # no byte looks like these
_ODD, _HALF = np.uint64(0), np.uint64(32)
_DIGITS_MOST = 18  # because they always fit 64 bits


def _compiled(function: Function) -> Function:
    """Compile; what was compiled is kept beside the source, if that may be written."""
    try:
        made: Function = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder to keep it in
        made = numba.njit(nogil=True)(function)
    return made


def _inlined(function: Function) -> Function:
    """Compile into whoever calls it: a call passes its arrays at the cost of a short text."""
    made: Function = numba.njit(inline="always", nogil=True)(function)
    return made


@_compiled
def _end_of_digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@_compiled
def _end_of_number(data: Bytes, at: int, stop: int) -> tuple[int, bool]:
    """Return where a number ends and whether it is whole; 0 where JSON has no such number, or it is huge."""
    begin = at + (data[at] == 45)
    end = _end_of_digits(data, begin, stop)
    digits = end - begin
    if digits == 0 or digits > _DIGITS_MOST or (data[begin] == 48 and (digits > 1 or begin > at)):
        return 0, False
    whole = True
    if end < stop and data[end] == 46:
        whole, begin = False, end + 1
        end = _end_of_digits(data, begin, stop)
        if end == begin:
            return 0, False
    if end < stop and (data[end] == 69 or data[end] == 101):
        whole, begin = False, end + 1
        if begin < stop and (data[begin] == 43 or data[begin] == 45):
            begin += 1
        end = _end_of_digits(data, begin, stop)
        if end == begin or end - begin > 2:
            return 0, False
    return end, whole


@_compiled
def _end_of_text(data: Bytes, at: int, stop: int) -> int:
    """Return the place after a quoted text; 0 where it has escapes, or no end."""
    at += 1
    while at < stop and data[at] != 34 and data[at] != 92 and data[at] >= 32:
        at += 1
    return at + 1 if at < stop and data[at] == 34 else 0


@_compiled
def _is_name(data: Bytes, at: int, stop: int) -> bool:
    while at < stop and (data[at] == 32 or data[at] == 9 or data[at] == 13 or data[at] == 10):
        at += 1
    return at < stop and data[at] == 58


@_compiled
def _is_event(data: Bytes, at: int, end: int) -> bool:
    """Say whether a name is `"event"`."""
    return (
        end - at == 7
        and data[at + 1] == 101
        and data[at + 2] == 118
        and data[at + 3] == 101
        and data[at + 4] == 110
        and data[at + 5] == 116
    )


@_compiled
def _number(data: Bytes, at: int, end: int) -> int:
    value = 0
    for place in range(at + (data[at] == 45), end):
        value = value * 10 + (data[place] - 48)
    return -value if data[at] == 45 else value


@_inlined
def _of_form(
    data: Bytes,
    text: tuple[int, int],
    form: int,
    templates: Templates,
    slots: tuple[Integers, Integers, Integers, int],
) -> int:
    """Cut a text that is expected to be of a form; returns the next free slot, or -1 where it is not."""
    (at, stop), (literals, parts, firsts, _) = text, templates
    begins, ends, values, slot = slots
    for part in range(firsts[form], firsts[form + 1]):
        begin, length, kind = parts[part, 0], parts[part, 1], parts[part, 2]
        if length > stop - at:
            return -1
        here, there = np.uint64(at), np.uint64(begin)  # because a signed place might count from the end
        differs = 0
        for place in range(np.uint64(length)):
            differs |= data[here + place] ^ literals[there + place]
        if differs:
            return -1
        at += length
        if kind == 0:
            break
        begins[slot], values[slot] = at, 0
        if at >= stop:
            return -1
        if kind == 1:
            end = _end_of_text(data, at, stop) if data[at] == 34 else 0
        elif kind == 2:
            sign = data[at] == 45
            end = begin = at + sign
            value = 0
            while end < stop and 48 <= data[end] <= 57:
                value = value * 10 + (data[end] - 48)
                end += 1
            if (
                end == begin
                or end - begin > _DIGITS_MOST
                or (data[begin] == 48 and (end - begin > 1 or sign))
            ):
                return -1
            values[slot] = -value if sign else value
        else:
            end, whole = _end_of_number(data, at, stop)
            if whole:
                return -1
        if end == 0:
            return -1
        ends[slot] = at = end
        slot += 1
    return slot if at == stop else -1


@_compiled
def scan(
    data: Bytes, starts: Integers, stops: Integers, templates: Templates
) -> tuple[Integers, Integers, Integers, Integers, Hashes]:
    """Cut JSON texts at their numbers and texts, the *slots*; what is between them is the *form*.

    Returns where slots begin and end, their values if they are whole numbers, the first slot of each text,
    and each text's form as a hash: names of members, the value of `event`, brackets, true, false, null, and
    of which kind each slot is. So a text is valid if another of its form is. A form of 0 is none: escapes, numbers
    beyond 18 digits, what is no JSON; it has no slots.

    `templates` are the forms known already: the bytes between slots; where each piece of them begins, its length
    and the kind of the slot after it (0: none); the first piece of each form; their hashes. A text is first
    compared with the form that followed the form of the text before it the last time.
    """
    room = len(starts) + 1
    for line in range(len(starts)):
        room += (stops[line] - starts[line]) // 2
    begins, ends, values = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    first, forms = np.empty(len(starts) + 1, np.int64), np.empty(len(starts), np.uint64)
    known = len(templates[3])
    after = np.zeros(known + 1, np.int64)
    slot, before = 0, known
    for line in range(len(starts)):
        first[line] = slot
        if known:
            text, slots = (starts[line], stops[line]), (begins, ends, values, slot)
            cut = _of_form(data, text, after[before], templates, slots)
            if cut >= 0:
                before, slot = after[before], cut
                forms[line] = templates[3][before]
                continue
        forms[line], slot = _cut(data, starts[line], stops[line], (begins, ends, values, slot))
        number = 0
        while number < known and templates[3][number] != forms[line]:
            number += 1
        if number < known:
            after[before] = before = number
    first[len(starts)] = slot
    return begins[:slot], ends[:slot], values[:slot], first, forms


@_compiled
def _cut(data: Bytes, at: int, stop: int, slots: tuple[Integers, Integers, Integers, int]) -> tuple[Any, int]:
    """Cut a text of any form; returns the form's hash and the next free slot."""
    begins, ends, values, slot = slots
    first, depth, tag, form = slot, 0, False, _SEED
    while at < stop:
        byte = data[at]
        if byte == 34:
            end = _end_of_text(data, at, stop)
            if end == 0:
                return _ODD, first
            name = _is_name(data, end, stop)
            if name or (tag and depth == 1):
                for place in range(at, end):
                    form = (form ^ np.uint64(data[place])) * _PRIME
            else:
                begins[slot], ends[slot], values[slot] = at, end, 0
                slot += 1
                form = (form ^ _TEXT) * _PRIME
            tag = name and _is_event(data, at, end)
            at = end
        elif byte == 45 or 48 <= byte <= 57:
            end, whole = _end_of_number(data, at, stop)
            if end == 0:
                return _ODD, first
            begins[slot], ends[slot] = at, end
            values[slot] = _number(data, at, end) if whole else 0
            slot += 1
            form = (form ^ (_WHOLE if whole else _BROKEN)) * _PRIME
            at = end
        else:
            depth += (byte == 123 or byte == 91) - (byte == 125 or byte == 93)
            form = (form ^ np.uint64(byte)) * _PRIME
            at += 1
    return form, slot


@_compiled
def intern(
    data: Bytes, begins: Integers, ends: Integers, known: tuple[Integers, Hashes, Integers, Bytes], many: int
) -> tuple[Integers, int]:
    """Number texts in the order of their first appearance; returns the numbers, and how many there are now.

    `known` is a hash table of numbers from 1 (its size a power of two), the hash of each, where each begins
    in the store of texts (and the next ends), and that store. All are large enough; see `texts.py`.
    """
    table, hashes, offsets, store = known
    mask = np.uint64(len(table) - 1)
    found = np.empty(len(begins), np.int64)
    for line in range(len(begins)):
        begin, length = begins[line], ends[line] - begins[line]
        if line and length == ends[line - 1] - begins[line - 1]:
            here, before = data[begin : begin + length], data[begins[line - 1] : ends[line - 1]]
            differs = 0
            for place in range(length):
                differs |= here[place] ^ before[place]
            if differs == 0:
                found[line] = found[line - 1]
                continue
        text = _SEED
        for place in range(begin, begin + length):
            text = (text ^ np.uint64(data[place])) * _PRIME
        text ^= text >> _HALF
        at = text & mask
        while True:
            number = table[at] - 1
            if number < 0:
                table[at], hashes[many] = many + 1, text
                for place in range(length):
                    store[offsets[many] + place] = data[begin + place]
                offsets[many + 1] = offsets[many] + length
                number = many
                many += 1
                break
            if hashes[number] == text and offsets[number + 1] - offsets[number] == length:
                place = 0
                while place < length and store[offsets[number] + place] == data[begin + place]:
                    place += 1
                if place == length:
                    break
            at = (at + np.uint64(1)) & mask
        found[line] = number
    return found, many


@_compiled
def small_keys(data: Bytes, begins: Integers, ends: Integers, least: int) -> tuple[Integers, bool]:
    """Read texts that are lists of one whole number from 0 on and below `least`; says whether all are."""
    found = np.empty(len(begins), np.int64)
    for line in range(len(begins)):
        at, end = begins[line] + 1, ends[line] - 1
        if not 0 < end - at <= _DIGITS_MOST or data[at - 1] != 91 or data[end] != 93:
            return found, False
        if data[at] == 48 and end - at > 1:
            return found, False
        value = 0
        for place in range(at, end):
            if not 48 <= data[place] <= 57:
                return found, False
            value = value * 10 + (data[place] - 48)
        if value >= least:
            return found, False
        found[line] = value
    return found, True


@_compiled
def table_of(hashes: Hashes, size: int) -> Integers:
    """Make a larger hash table."""
    table = np.zeros(size, np.int64)
    mask = np.uint64(size - 1)
    for number in range(len(hashes)):
        at = hashes[number] & mask
        while table[at] != 0:
            at = (at + np.uint64(1)) & mask
        table[at] = number + 1
    return table


@_compiled
def grouped(groups: Integers, many: int) -> Integers:
    """Sort places by their group, stable: by counting."""
    at = np.zeros(many + 1, np.int64)
    for group in groups:
        at[group + 1] += 1
    for group in range(many):
        at[group + 1] += at[group]
    order = np.empty(len(groups), np.int64)
    for place in range(len(groups)):
        order[at[groups[place]]] = place
        at[groups[place]] += 1
    return order
