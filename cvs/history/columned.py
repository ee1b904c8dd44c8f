"""Rows of a block that are JSON texts: columns without an object a row, and anything else once for each combination of
values.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cvs.history.fields import Names, Numbering
from cvs.history.forms import Group, Known, Node
from cvs.history.packing import Flags, Integers
from cvs.history.rows import Compute
from cvs.history.texts import SMALL, Keys, Numbered, Places, Table, Texts, json_values

_UNSET = -(1 << 63)


class Seen:
    """What is remembered of the rows of one table or view from block to block."""

    def __init__(self) -> None:
        self.texts: dict[str, Texts] = {}
        self.values: dict[str, list[Any]] = {}
        self.single: dict[tuple[str, Compute], Integers] = {}
        self.small: dict[tuple[str, Compute], Table] = {}
        self.several: dict[tuple[tuple[str, ...], Compute], dict[tuple[int, ...], int]] = {}

    def number(self, name: str, places: Places) -> Integers:
        """Number the texts of a column."""
        texts = self.texts.setdefault(name, Texts())
        return texts.of(places)

    def value(self, name: str, number: int) -> Any:
        """Return the value of a text."""
        known = self.values.setdefault(name, [])
        if number >= len(known):
            known += json_values(self.texts[name].since(len(known)))
        return known[number]


class Columned:
    """Rows that are texts, by their form; `parts` are the places of some rows here, and where those stand."""

    def __init__(self, many: int, parts: list[tuple[Integers, Group, Node]], seen: Seen) -> None:
        self.many, self.seen = many, seen
        self.present: Flags = np.zeros(many, np.bool_)
        self.parts = [part for part in parts if not part[2].null]
        for at, _, _ in self.parts:
            self.present[at] = True

    def widths(self) -> Integers:
        """Look at the forms."""
        found = np.zeros(self.many, np.int64)
        for at, _, node in self.parts:
            found[at] = len(node.members)
        return found

    def names(self) -> set[str]:
        """Look at the forms."""
        return {name for _, _, node in self.parts for name in node.members}

    def whole(self, name: str) -> tuple[Integers, Flags, Flags]:
        """Take what was read on the way."""
        values = np.zeros(self.many, np.int64)
        is_whole, there = np.zeros(self.many, np.bool_), np.zeros(self.many, np.bool_)
        for at, group, node in self.parts:
            column = node.members.get(name)
            if column is not None and column.whole:
                values[at], is_whole[at] = group.numbers(column), True
            if column is not None and not column.null:
                there[at] = True
        return values, is_whole, there

    def computed(self, names: tuple[str, ...], compute: Compute, where: Flags) -> Integers:
        """Ask once for each combination of values."""
        many = np.count_nonzero(where)
        if not many:
            return np.zeros(0, np.int64)
        if len(names) == 1:
            values, is_whole, _ = self.whole(names[0])
            small = values[where]
            if is_whole[where].all() and small.min() >= 0 and small.max() < SMALL:
                return self._of_small(names[0], compute, small)
        numbers = [self.seen.number(name, self._places(name, where)) for name in names]
        if not numbers:
            return np.full(many, compute({}), np.int64)
        if len(numbers) == 1:
            return self._of_one(names[0], compute, numbers[0])
        whole = numbers[0]
        for name, more in zip(names[1:], numbers[1:], strict=True):
            whole = whole * self.seen.texts[name].many + more
            _, whole = np.unique(whole, return_inverse=True)
        _, first, which = np.unique(whole, return_index=True, return_inverse=True)
        memo = self.seen.several.setdefault((names, compute), {})
        found = []
        for place in first.tolist():
            mine = tuple(int(column[place]) for column in numbers)
            if mine not in memo:
                memo[mine] = compute({n: self.seen.value(n, i) for n, i in zip(names, mine, strict=True)})
            found.append(memo[mine])
        return np.array(found, np.int64)[which]

    def _of_small(self, name: str, compute: Compute, small: Integers) -> Integers:
        if (name, compute) not in self.seen.small:
            self.seen.small[name, compute] = Table(lambda value: compute({name: value}))
        return self.seen.small[name, compute].of(small)

    def _of_one(self, name: str, compute: Compute, numbers: Integers) -> Integers:
        memo = self.seen.single.get((name, compute), np.zeros(0, np.int64))
        room = self.seen.texts[name].many
        if len(memo) < room:
            longer = np.full(max(room, 2 * len(memo)), _UNSET, np.int64)
            longer[: len(memo)] = memo
            memo = self.seen.single[name, compute] = longer
        found = memo[numbers]
        if found.min() == _UNSET:
            for number in np.unique(numbers[found == _UNSET]).tolist():
                memo[number] = compute({name: self.seen.value(name, number)})
            found = memo[numbers]
        return found

    def _places(self, name: str, where: Flags) -> Places:
        begins, ends = np.zeros(self.many, np.int64), np.zeros(self.many, np.int64)
        data = np.zeros(0, np.uint8)
        for at, group, node in self.parts:
            column = node.members.get(name)
            if column is not None:
                data, begins[at], ends[at] = group.places(column)
        return data, begins[where], ends[where]


class Memory:
    """What is remembered of one file's texts from block to block; `values` decodes its names."""

    def __init__(self, values: Callable[[Sequence[bytes]], list[Any]]) -> None:
        self.values = values
        self.known = Known()
        self._names: dict[int, Numbered] = {}
        self._keys: dict[tuple[int, str], Keys] = {}
        self._seen: dict[tuple[str, str], Seen] = {}

    def named(self, names: Names, places: Places) -> Integers:
        """Number names; which numbers they have is known by who asks, as long as it is there."""
        if id(names) not in self._names:
            self._names[id(names)] = Numbered(self.values, names.__getitem__)
        return self._names[id(names)].of(places)

    def keyed(self, numbering: Numbering, owner: str, places: Places) -> Integers:
        """Number the keys of an owner's records."""
        name = id(numbering), owner
        if name not in self._keys:
            self._keys[name] = Keys(lambda key: numbering.number(owner, key))
        return self._keys[name].of(places)

    def seen(self, owner: tuple[str, str]) -> Seen:
        """Return what is remembered of an owner's rows."""
        return self._seen.setdefault(owner, Seen())
