"""Bags of rows kept in state: each in one row of state while it is small, spread over cells when it is not.

A row of state for each row of a bag would be named by what is in it: a change of one would write two, and leave a
dead one behind each time. A cell is overwritten, and an epoch writes it once however many of its rows change.

    root                (0, different rows, row, how often, row, how often, ...)    up to INLINE rows
    root                (cells, different rows)                                     more than that
    root + number       (row, how often, ...)    the rows whose checksum says so; no such row of state: none

A large row counts as several, so that what is put at once stays small.

The number of cells is chosen anew when there are more than MOST rows a cell, or fewer than FEWEST: once in about as
many changes as there are rows. It follows from the bag's own history alone, so a replay finds the same. What a process
remembers of it only says what to read at once, never what is there.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from cvs.programs.stage_codec import bucket_of, framed
from cvs.programs.stage_state import State

MOST, FIT, FEWEST = 8, 3, 1
"""Rows a cell: more are too many; what a new number of cells aims at; fewer are too few. A change writes its cell
twice, now and before: cells of 4 to 24 made an epoch of 500 changes write 60 % more bytes and 10 % fewer rows."""
INLINE = 8
LARGE = 16  # bits: a row counts once more for each 64 KiB
GUESSES_KEPT = 100_000

Counts = Mapping[bytes, int]
"""Rows, as bytes, and how often each comes or (negative) goes."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes | int]).decode


class KeptBags:
    """The bags of one stage, by root."""

    def __init__(self) -> None:
        self._guesses: dict[bytes, tuple[int, int]] = {}  # root -> cells and different rows, as last seen

    def want(
        self,
        state: State,
        moves: Mapping[bytes, Counts],
        *,
        whole: Iterable[bytes] = (),
        keys: Iterable[bytes] = (),
    ) -> None:
        """Ask for all that carrying these changes, and reading some bags whole, will need; and for other keys."""
        whole = list(whole)
        touched, read = self._needed(moves, self._guesses)
        state.want(keys=[*keys, *moves, *whole, *touched], prefixes=read)
        shapes = {root: _shape(state.get(root))[:2] for root in moves}
        for root, shape in shapes.items():
            self._note(root, *shape)
        touched, read = self._needed(moves, shapes)
        read += [root for root in whole if _shape(state.get(root))[0]]
        state.want(keys=touched, prefixes=read)

    def _needed(
        self, moves: Mapping[bytes, Counts], shapes: Mapping[bytes, tuple[int, int]]
    ) -> tuple[list[bytes], list[bytes]]:
        """Return the cells that changes touch, and the bags they may spread anew: those are read whole."""
        touched: list[bytes] = []
        read = []
        for root, counts in moves.items():
            cells, different = shapes.get(root, (0, 0))
            if _may_change(cells, different, counts):
                read.append(root)
            elif cells:
                touched += {_numbered(root, bucket_of(row, cells)) for row in counts}
        return touched, read

    def _note(self, root: bytes, cells: int, different: int) -> None:
        if cells:
            self._guesses[root] = (cells, different)
            if len(self._guesses) > GUESSES_KEPT:
                self._guesses.clear()
        elif root in self._guesses:
            del self._guesses[root]

    def rows(self, state: State, root: bytes) -> dict[bytes, int]:
        """Return all rows of a bag."""
        cells, _, rows = _shape(state.get(root))
        if cells:
            for key, value in state.under(root).items():
                if key != root:
                    rows.update(_rows(_decode(value)))
        return rows

    def carry(self, state: State, root: bytes, counts: Counts) -> list[tuple[bytes, int]]:
        """Carry changes into a bag; return the rows that were not in it and are (1), or were and are not (-1)."""
        cells, different, _ = _shape(state.get(root))
        if not cells or _may_change(cells, different, counts):
            return self._carry_whole(state, root, cells, counts)
        turned: list[tuple[bytes, int]] = []
        for number, part in _parted(counts, cells).items():
            key = _numbered(root, number)
            stored = state.get(key)
            rows = _rows(_decode(stored)) if stored is not None else {}
            turned += _take(rows, part)
            _change(state, key, _flat(rows) if rows else None)
        came = sum(step * _weight(row) for row, step in turned)
        if came:
            state.put(root, _encode([cells, different + came]))
        return turned

    def _carry_whole(self, state: State, root: bytes, cells: int, counts: Counts) -> list[tuple[bytes, int]]:
        rows = self.rows(state, root)
        turned = _take(rows, counts)
        different = sum(map(_weight, rows))
        new = _resized(cells, different)
        self._note(root, new, different)
        parts = _parted(rows, new)
        for number in range(max(cells, new)):
            part = parts.get(number)
            _change(state, _numbered(root, number), _flat(part) if part else None)
        if new:
            _change(state, root, _encode([new, different]))
        else:
            _change(state, root, _encode([0, different, *_pairs(rows)]) if rows else None)
        return turned


def rows_under(state: State, prefix: bytes) -> Iterator[tuple[bytes, int]]:
    """Return the rows of all bags whose roots are a prefix and one more frame."""
    for key, value in state.under(prefix).items():
        framing = len(prefix) + 4
        root = len(key) == framing + int.from_bytes(key[len(prefix) : framing], "big")
        yield from (_shape(value)[2] if root else _rows(_decode(value))).items()


def _shape(stored: bytes | None) -> tuple[int, int, dict[bytes, int]]:
    """Read a root: how many cells, how many different rows, and the rows themselves if there are no cells."""
    if stored is None:
        return 0, 0, {}
    cells, different, *flat = _decode(stored)
    assert isinstance(cells, int)
    assert isinstance(different, int)
    return cells, different, _rows(flat)


def _rows(flat: list[bytes | int]) -> dict[bytes, int]:
    return dict(zip(flat[::2], flat[1::2], strict=True))  # type: ignore[arg-type]  # as they were put


def _pairs(rows: Counts) -> Iterator[bytes | int]:
    for row in sorted(rows):
        yield row
        yield rows[row]


def _flat(rows: Counts) -> bytes:
    return _encode([*_pairs(rows)])


def _take(rows: dict[bytes, int], counts: Counts) -> list[tuple[bytes, int]]:
    turned = []
    for row, count in counts.items():
        had = rows.get(row, 0)
        has = had + count
        assert has >= 0, "a row left more often than it came: a change came in twice or never"
        if has:
            rows[row] = has
        else:
            rows.pop(row, None)
        if bool(has) is not bool(had):
            turned.append((row, 1 if has else -1))
    return turned


def _change(state: State, key: bytes, value: bytes | None) -> None:
    if state.get(key) != value:
        state.put(key, value)


def _numbered(root: bytes, number: int) -> bytes:
    return root + _suffix(number)


@lru_cache(4096)
def _suffix(number: int) -> bytes:
    return framed(b"%d" % number)


def _parted(rows: Counts, cells: int) -> dict[int, dict[bytes, int]]:
    """Return the rows by number of their cell."""
    parts: dict[int, dict[bytes, int]] = {}
    for row, count in rows.items() if cells else ():
        parts.setdefault(bucket_of(row, cells), {})[row] = count
    return parts


def _may_change(cells: int, different: int, counts: Counts) -> bool:
    """Say whether another number of cells may be right after some changes: what must be known before they are made."""
    come = sum(_weight(row) for row, count in counts.items() if count > 0)
    go = sum(_weight(row) for row, count in counts.items() if count <= 0)
    most = MOST * cells if cells else INLINE
    return different + come > most or different - go < FEWEST * cells


def _weight(row: bytes) -> int:
    return 1 + (len(row) >> LARGE)


def _resized(cells: int, different: int) -> int:
    """Return how many cells a bag should have."""
    fits = different <= INLINE if not cells else FEWEST * cells <= different <= MOST * cells
    if fits:
        return cells
    return 0 if different <= INLINE else -(-different // FIT)
