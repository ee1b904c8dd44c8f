"""What the judge says: three values, findings, witnesses, and the level as an interval.

*Undecided* is never a pass. Merging many verdicts: violated > undecided > holds.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Cut = tuple[int, ...]
"""A base state: one version for each record of the problem, in its order."""


class Verdict(Enum):
    """The answer to one question about one subject."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


_SEVERITY = {Verdict.HOLDS: 0, Verdict.UNDECIDED: 1, Verdict.VIOLATED: 2}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Merge: one violation spoils all, one undecided spoils a pass, nothing asked holds."""
    return max(verdicts, key=_SEVERITY.__getitem__, default=Verdict.HOLDS)


LEVELS = ("converged", "weak", "strong", "complete")
"""Paper 001's ladder; each needs the one before."""

BESIDE = ("strong-pairwise", "complete-recorded-order", "no-future", "certificates", "linearizability")
"""Findings printed beside the ladder; none of them moves the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Evidence that a reader can check without the search.

    `kind` is one of: cuts (one a state, any order), chain (one a state, monotone), path (a serialization with
    the position shown after each step), pair (positions that no two ordered cuts explain), state (a position
    no cut explains), prefix (the first position at which every chain ends), final (shown and expected), order
    (events that contradict the time order), certificate (the line that is false).
    """

    kind: str
    cuts: tuple[Cut, ...] = ()
    path: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    events: tuple[int, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One property of one subject: a view record, a whole view, or what snapshot reads saw of it."""

    property: str
    verdict: Verdict
    view: str = ""
    granularity: str = "record"
    key: tuple[Any, ...] | None = None
    tier: str = "value"
    reason: str = ""
    event: int | None = None
    witness: Witness | None = None
    count: int = 1  # of how many subjects this is said, where they are not named one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The level lies between what is proved and what is not refuted."""

    proved: str
    not_refuted: str

    def __str__(self) -> str:
        if self.proved == self.not_refuted:
            return self.proved
        return f"between {self.proved} and {self.not_refuted}"


NOTHING = "not converged"


def interval(verdicts: dict[str, Verdict]) -> Interval:
    """Climb: proved ends before the first level that does not hold, not refuted before the first violated."""
    proved = not_refuted = NOTHING
    for level in LEVELS:
        if verdicts.get(level, Verdict.UNDECIDED) is not Verdict.HOLDS:
            break
        proved = level
    for level in LEVELS:
        if verdicts.get(level, Verdict.UNDECIDED) is Verdict.VIOLATED:
            break
        not_refuted = level
    return Interval(proved=proved, not_refuted=not_refuted)


def at_least(level: str, wanted: str) -> bool:
    """Say whether one level is the other or above it."""
    ladder = (NOTHING, *LEVELS)
    return ladder.index(level) >= ladder.index(wanted)


class Exhausted(Exception):  # noqa: N818 -- because it is an outcome, not an error
    """The step budget is used up; whoever asked says undecided."""


class Budget:
    """Steps, not seconds, so that results repeat; a step is about a microsecond of work."""

    __slots__ = ("first", "left")

    def __init__(self, steps: int) -> None:
        self.first = self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Count work; raise `Exhausted` when there is none left."""
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    @property
    def spent(self) -> int:
        """Return the steps taken so far."""
        return self.first - max(self.left, 0)

    def share(self, parts: int) -> "Budget":
        """Return what one of some equal parts of the work may take of what is left: half of it, or its share."""
        left = max(self.left, 0)
        return Budget(max(left // 2, left // parts))


QUESTIONS = 20
"""How many questions of a run may use up their budget; each one after these gets a twentieth of it."""


def used_up(steps: int, each: int) -> str:
    """Say what was not enough, and the option that raises it: it gives each question so many steps, if few are hard."""
    return f"not decided in {steps:,} steps; cvs audit --budget {10 * max(each, 1)} allows ten times as many"


class Purse:
    """The budgets of all questions of one run, so that a run with many hard ones ends too."""

    __slots__ = ("each", "left")

    def __init__(self, each: int) -> None:
        self.each = each
        self.left = each * QUESTIONS

    @contextmanager
    def question(self) -> Iterator[Budget]:
        """Give one question its budget, and take what it used."""
        budget = Budget(max(min(self.each, self.left), self.each // QUESTIONS))
        try:
            yield budget
        finally:
            self.left = max(0, self.left - budget.spent)
