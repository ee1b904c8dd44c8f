"""Blocks of lines into columns without making events of them; a block with a line of no form goes through events."""

from collections.abc import Iterable

import numpy as np

from cvs.errors import CvsError
from cvs.history import events as ev
from cvs.history.codec import event_of, events_of_block
from cvs.history.columned import Columned, Memory
from cvs.history.columns import Gathered
from cvs.history.fields import Names, Numbering, Owners
from cvs.history.forms import Group, Known, Node, Scanned
from cvs.history.kernels import Bytes
from cvs.history.packing import NONE, Integers, NotColumnarError, packed_parts
from cvs.history.texts import Places, json_values

Parts = list[tuple[Integers, Group, Node]]
"""Values of some texts: the places of some here, and where those stand."""

_LONG = 4096
"""Bytes above which a line is of no form: hardly another is like it, and its form would be learnt for nothing."""

_ITEMS_DEAR = 8
"""Certificates are read place by place of their lists: so many lines of a file must share the cost of one place."""


class LineFields:
    """Fields of lines, by their forms."""

    def __init__(self, many: int, parts: Parts, memory: Memory) -> None:
        self.many, self.parts, self.memory = many, parts, memory

    def whole(self, name: str) -> Integers:
        """Take what was read on the way."""
        found = np.zeros(self.many, np.int64)
        for at, group, node in self.parts:
            member = node.members[name]
            if not member.whole:
                raise NotColumnarError(f'"{name}" is {member.text.decode()}, not written as a whole number')
            found[at] = group.numbers(member)
        return found

    def named(self, name: str, names: Names) -> Integers:
        """Number the texts."""
        return self.memory.named(names, self._places(name))

    def keyed(self, owners: Owners, key: str, numbering: Numbering) -> Integers:
        """Number the texts of the keys of each owner."""
        data, begins, ends = self._places(key)
        found = np.zeros(self.many, np.int64)
        for name, which in owners.parts():
            found[which] = self.memory.keyed(numbering, name, (data, begins[which], ends[which]))
        return found

    def signatures(self, name: str) -> Integers:
        """Pack what was read on the way."""
        found = np.full(self.many, NONE, np.int64)
        for at, group, node in self.parts:
            member = node.members.get(name)
            if member is None or member.null:
                continue
            *parts, last = member.items
            if not all(part.whole for part in parts):
                raise NotColumnarError(f"{member.text.decode()} is not written as a signature")
            flags = np.full(len(at), int(last.text == b"true"), np.int64)
            found[at] = packed_parts([*(group.numbers(part) for part in parts), flags])
        return found

    def absorbed(self) -> tuple[Integers, "LineFields"]:
        """Put all into one list, in the order of the lines."""
        counts = np.zeros(self.many, np.int64)
        lists = [
            (at, group, node.members["absorbed"])
            for at, group, node in self.parts
            if "absorbed" in node.members
        ]
        for at, _, node in lists:
            counts[at] = len(node.items)
        begins = np.cumsum(counts) - counts
        parts = [
            (begins[at] + i, group, item) for at, group, node in lists for i, item in enumerate(node.items)
        ]
        return counts, LineFields(int(counts.sum()), parts, self.memory)

    def rows(self, name: str, which: Integers, owner: tuple[str, str]) -> Columned:
        """Choose."""
        parts = [(at, group, node.members[name]) for at, group, node in self.parts]
        if len(which) < self.many:
            rank = np.full(self.many, NONE, np.int64)
            rank[which] = np.arange(len(which))
            parts = [
                (rank[at][rank[at] >= 0], Group(g.scanned, g.lines[rank[at] >= 0], g.root), node)
                for at, g, node in parts
            ]
        return Columned(len(which), parts, self.memory.seen(owner))

    def _places(self, name: str) -> Places:
        begins, ends = np.zeros(self.many, np.int64), np.zeros(self.many, np.int64)
        data = np.zeros(0, np.uint8)
        for at, group, node in self.parts:
            data, begins[at], ends[at] = group.places(node.members[name])
        return data, begins, ends


def gather(gathered: Gathered, blocks: Iterable[bytes]) -> None:
    """Add the lines of a file, given some whole ones at a time."""
    gathered.begin()
    lines = _Lines(gathered)
    for block in blocks:
        if not lines.take(np.frombuffer(block, dtype=np.uint8)):
            gathered.take(events_of_block(block))


class _Lines:
    """Knows the forms of a file."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered, self.memory, self.known = gathered, Memory(json_values), Known()
        self.forms: dict[int, tuple[type, Node] | None] = {}

    def take(self, block: Bytes) -> bool:
        """Add a block; say no, and add nothing, where a line is of no form or they are too many."""
        if block.max() > 127 and not _is_text(block):
            return False
        stops = np.flatnonzero(block == ord("\n"))
        if block[-1] != ord("\n"):
            stops = np.append(stops, len(block))
        starts = np.concatenate((np.zeros(1, np.int64), stops[:-1] + 1))
        if (stops - starts).max() > _LONG:
            return False
        scanned = Scanned.of(block, starts, stops, self.known)
        found = scanned.by_form()
        if found is None:
            return False
        kinds: dict[type, list[tuple[Node, Integers]]] = {}
        for form, lines in sorted(found, key=lambda item: int(item[1][0])):
            known = self._form(form, scanned, int(lines[0]))
            if known is None:
                return False
            kinds.setdefault(known[0], []).append((known[1], lines))
        if ev.Checkpoint in kinds:
            return False
        certified = [*kinds.get(ev.TestAndSetCalled, ()), *kinds.get(ev.EpochCommitted, ())]
        items = sum(
            len(node.members["absorbed"].items) for node, _ in certified if "absorbed" in node.members
        )
        if items * _ITEMS_DEAR > len(starts):
            return False
        for _, lines in kinds.get(ev.RunStarted, ()):
            headers = (event_of(scanned.text(line)) for line in lines.tolist())
            self.gathered.headers += [header for header in headers if isinstance(header, ev.RunStarted)]
        every = [(lines, Group(scanned, lines, node)) for forms in kinds.values() for node, lines in forms]
        block_fields = LineFields(len(starts), [(at, g, g.root) for at, g in every], self.memory)
        self.gathered.add(block_fields, ((k, *self._fields(scanned, forms)) for k, forms in kinds.items()))
        return True

    def _form(self, form: int, scanned: Scanned, line: int) -> tuple[type, Node] | None:
        if form not in self.forms:
            try:
                self.forms[form] = type(event_of(scanned.text(line))), scanned.node(line, self.known)
            except CvsError:
                self.forms[form] = None
        return self.forms[form]

    def _fields(self, scanned: Scanned, forms: list[tuple[Node, Integers]]) -> tuple[Integers, LineFields]:
        whole = np.sort(np.concatenate([lines for _, lines in forms]))
        parts = [(np.searchsorted(whole, lines), Group(scanned, lines, node), node) for node, lines in forms]
        return whole, LineFields(len(whole), parts, self.memory)


def _is_text(block: Bytes) -> bool:
    try:
        block.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
