"""JSON texts by their form: texts that differ only in their numbers and quoted texts are read as columns.

One text of each form is decoded by the strict decoder; what it holds stands at the same slots in all others.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cvs.history import kernels
from cvs.history.kernels import Bytes
from cvs.history.packing import Integers
from cvs.history.texts import Places

FORMS_MOST = 64
"""Forms in one block above which reading them as columns does not pay."""

_BROKEN = re.compile(rb"[.eE]")
_TOKEN = re.compile(rb'[ \t\r\n]*("[^"]*"|[-+.0-9eE]+|true|false|null|[{}\[\],:])')


@dataclass(slots=True)
class Node:
    """A value of a form: it begins `lead` bytes after the slot before it ends, and ends likewise."""

    before: int  # slot, or -1: the text begins
    lead: int
    after: int  # slot, or the number of slots: the text ends
    trail: int
    text: bytes  # of the example
    whole: bool  # a whole number, alone in the slot after `before`
    members: dict[str, "Node"] = field(default_factory=dict)
    items: list["Node"] = field(default_factory=list)

    @property
    def null(self) -> bool:
        """Say whether it is null in every text of the form."""
        return self.text == b"null"


def node_of(example: bytes, begins: list[int], ends: list[int]) -> Node:
    """Return where everything stands in a valid JSON text without escapes; its slots begin and end so."""
    tokens = ((match.start(1), match.end(1), match[1]) for match in _TOKEN.finditer(example))
    return _node(next(tokens), tokens, example, (begins, ends))


Token = tuple[int, int, bytes]


def _node(token: Token, tokens: Iterator[Token], example: bytes, slots: tuple[list[int], list[int]]) -> Node:
    begin, end, text = token
    members, items = dict[str, Node](), list[Node]()
    if text in b"{[":
        for begins, ends, inner in tokens:
            end = ends
            if inner in b"}]":
                break
            if inner == b",":
                continue
            if text == b"[":
                items.append(_node((begins, ends, inner), tokens, example, slots))
                continue
            next(tokens)  # the colon
            members[inner[1:-1].decode()] = _node(next(tokens), tokens, example, slots)
    before, after = bisect_right(slots[1], begin) - 1, bisect_left(slots[0], end)
    return Node(
        before=before,
        lead=begin - (slots[1][before] if before >= 0 else 0),
        after=after,
        trail=(slots[0][after] if after < len(slots[0]) else len(example)) - end,
        text=example[begin:end],
        whole=text[:1] in b"-0123456789" and not _BROKEN.search(text),
        members=members,
        items=items,
    )


class Known:
    """The forms that were met, as templates: texts of these are cut without looking at what all of them share."""

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        self.templates: kernels.Templates = (
            np.zeros(0, np.uint8), empty.reshape(0, 3), np.zeros(1, np.int64), empty.astype(np.uint64)
        )  # fmt: skip

    def add(self, form: int, example: bytes, begins: list[int], ends: list[int]) -> None:
        """Remember a form by an example, whose slots begin and end so."""
        literals, parts, firsts, hashes = self.templates
        if len(hashes) == FORMS_MOST:
            return
        texts = [example[a:b] for a, b in zip([0, *ends], [*begins, len(example)], strict=True)]
        kinds = [*(_kind(example[a:b]) for a, b in zip(begins, ends, strict=True)), 0]
        lengths = np.array([len(text) for text in texts], np.int64)
        starts = len(literals) + np.cumsum(lengths) - lengths
        more = np.stack([starts, lengths, np.array(kinds, np.int64)], axis=1)
        self.templates = (
            np.concatenate((literals, np.frombuffer(b"".join(texts), np.uint8))),
            np.concatenate((parts, more)),
            np.append(firsts, firsts[-1] + len(texts)),
            np.append(hashes, np.uint64(form)),
        )


def _kind(slot: bytes) -> int:
    return 1 if slot[:1] == b'"' else 3 if _BROKEN.search(slot) else 2


@dataclass(slots=True)
class Scanned:
    """Texts cut at their slots."""

    data: Bytes
    starts: Integers
    stops: Integers
    begins: Integers
    ends: Integers
    values: Integers
    first: Integers
    forms: kernels.Hashes

    @classmethod
    def of(cls, data: Bytes, starts: Integers, stops: Integers, known: "Known") -> "Scanned":
        """Cut texts."""
        return cls(data, starts, stops, *kernels.scan(data, starts, stops, known.templates))

    def text(self, line: int) -> bytes:
        """Return one text."""
        return self.data[self.starts[line] : self.stops[line]].tobytes()

    def node(self, line: int, known: Known) -> Node:
        """Return the places of one text, which is valid; its form is known from now on."""
        slots = slice(self.first[line], self.first[line + 1])
        begins, ends = (each[slots] - self.starts[line] for each in (self.begins, self.ends))
        known.add(int(self.forms[line]), self.text(line), begins.tolist(), ends.tolist())
        return node_of(self.text(line), begins.tolist(), ends.tolist())

    def by_form(self) -> list[tuple[int, Integers]] | None:
        """Return the texts of each form; None where a text has none, or there are too many."""
        forms, which = np.unique(self.forms, return_inverse=True)
        if not len(forms) or forms[0] == 0 or len(forms) > FORMS_MOST:
            return None
        if len(forms) == 1:
            return [(int(forms[0]), np.arange(len(which)))]
        order = kernels.grouped(which, len(forms))
        ends = np.cumsum(np.bincount(which)).tolist()
        begins = [0, *ends[:-1]]
        return [(int(f), order[a:b]) for f, a, b in zip(forms, begins, ends, strict=True)]


@dataclass(slots=True)
class Group:
    """Texts of one form."""

    scanned: Scanned
    lines: Integers
    root: Node
    first: Integers = field(init=False)  # slot of each

    def __post_init__(self) -> None:
        """Look up the slots."""
        self.first = self.scanned.first[self.lines]

    def places(self, node: Node) -> Places:
        """Return where a value stands in each text."""
        scanned = self.scanned
        begins = scanned.starts[self.lines] if node.before < 0 else scanned.ends[self.first + node.before]
        last = self.first + node.after
        beyond = bool(len(last)) and last[0] == scanned.first[self.lines[0] + 1]
        ends = scanned.stops[self.lines] if beyond else scanned.begins[last]
        return scanned.data, begins + node.lead, ends - node.trail

    def numbers(self, node: Node) -> Integers:
        """Return the values of a whole number."""
        found: Integers = self.scanned.values[self.first + (node.before + 1)]
        return found
