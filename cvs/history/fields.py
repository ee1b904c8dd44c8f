"""The fields of some events, as columns: made of events here, of texts in `lines.py`, of Arrow in `arrow.py`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.packing import NONE, Integers, fill, packed_column
from cvs.history.rows import Objects, Rows
from cvs.model.identity import key_identity
from cvs.model.outcome import OutcomeKind

OUTCOMES = tuple(OutcomeKind)
APPLIED, REJECTED, NOT_SENT, UNKNOWN = map(
    OUTCOMES.index, (OutcomeKind.APPLIED, OutcomeKind.REJECTED, OutcomeKind.NOT_SENT, OutcomeKind.UNKNOWN)
)
Name = tuple[str, ev.Key]


class Names(dict[Any, int]):
    """Numbers for things, in the order in which they were met."""

    def __missing__(self, thing: Any) -> int:
        number = self[thing] = len(self)
        return number


class Outcomes(Names):
    """The positions in OUTCOMES; anything else is none."""

    def __init__(self) -> None:
        super().__init__({kind.value: code for code, kind in enumerate(OUTCOMES)})

    def __missing__(self, thing: Any) -> int:
        raise HistoryError.one_of_many(f'"{thing}" is no outcome')


_OUTCOMES = Outcomes()


def outcome_of(text: str) -> OutcomeKind:
    """Return an outcome by its name."""
    return OUTCOMES[_OUTCOMES[text]]


class Numbering(dict[Any, int]):
    """Numbers pairs of a name and a key in the order of their first appearance; equal keys get one number.

    Those that are not `owned` get NONE.
    """

    def __init__(self, owned: Callable[[str, ev.Key], bool] | None = None) -> None:
        super().__init__()
        self.known: dict[Name, int] = {}
        self.owned = owned

    def __missing__(self, raw: Name) -> int:
        number = self[raw] = self.number(*raw)
        return number

    def number(self, owner: str, key: ev.Key) -> int:
        """Return the number of a pair, for those who remember it themselves."""
        if self.owned is not None and not self.owned(owner, key):
            return NONE
        return self.known.setdefault((owner, key_identity(key)), len(self.known))


class Fields(Protocol):
    """The fields of some events of one kind, one position an event."""

    many: int

    def whole(self, name: str) -> Integers:
        """Return whole numbers."""
        ...

    def named(self, name: str, names: Names) -> Integers:
        """Return the numbers of names."""
        ...

    def keyed(self, owners: "Owners", key: str, numbering: Numbering) -> Integers:
        """Return the numbers of records by their keys, each of an owner."""
        ...

    def signatures(self, name: str) -> Integers:
        """Return packed signatures; NONE for null."""
        ...

    def absorbed(self) -> tuple[Integers, "Fields"]:
        """Return how many certificate lines each has, and the fields of these lines."""
        ...

    def rows(self, name: str, which: Integers, owner: tuple[str, str]) -> Rows:
        """Return some of the rows, of one owner."""
        ...


class EventFields:
    """Fields of events that are objects."""

    def __init__(self, events: Sequence[Any]) -> None:
        self.events, self.many = events, len(events)

    def _each(self, name: str) -> Iterable[Any]:
        return map(attrgetter(name), self.events)

    def whole(self, name: str) -> Integers:
        """Look at each."""
        return fill(self._each(name), self.many)

    def named(self, name: str, names: Names) -> Integers:
        """Look at each."""
        return fill(map(names.__getitem__, self._each(name)), self.many)

    def keyed(self, owners: "Owners", key: str, numbering: Numbering) -> Integers:
        """Look at each."""
        names, codes = list(owners.names), owners.codes.tolist()
        pairs = list(zip((names[code] for code in codes), self._each(key), strict=True))
        try:
            return fill(map(numbering.__getitem__, pairs), self.many)
        except TypeError:  # a key that Python cannot hash
            return fill((numbering.number(*pair) for pair in pairs), self.many)

    def signatures(self, name: str) -> Integers:
        """Pack them."""
        return packed_column(list(self._each(name)))

    def absorbed(self) -> tuple[Integers, "EventFields"]:
        """Put all into one list."""
        absorbed = list(self._each("absorbed"))
        return fill(map(len, absorbed), self.many), EventFields(list(chain.from_iterable(absorbed)))

    def rows(self, name: str, which: Integers, owner: tuple[str, str]) -> Rows:
        """Choose."""
        rows = list(self._each(name))
        return Objects(rows if len(which) == len(rows) else [rows[place] for place in which.tolist()])


@dataclass(frozen=True, slots=True)
class Owners:
    """The table or view each belongs to, as numbers."""

    codes: Integers
    names: Names

    def parts(self) -> Iterable[tuple[str, Integers]]:
        """Return the places of each name."""
        if not len(self.codes):
            return
        names = list(self.names)
        counts = np.bincount(self.codes)
        for code in np.flatnonzero(counts).tolist():
            alone = counts[code] == len(self.codes)
            places = np.arange(len(self.codes)) if alone else np.flatnonzero(self.codes == code)
            yield str(names[code]), places
