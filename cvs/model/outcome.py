"""Outcome: what is known about one test-and-set after it was asked for.

Four kinds, never merged: merging any two of the last three flips verdicts (checker plan 5.3).
"""

from dataclasses import dataclass
from enum import Enum

from cvs.model.signature import Signature


class OutcomeKind(Enum):
    """What the judge may conclude from an answer."""

    APPLIED = "applied"
    REJECTED = "rejected"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One answer; `returned` is the signature the condition saw when it refused, if it said."""

    kind: OutcomeKind
    returned: Signature | None = None
    reason: str = ""


APPLIED = Outcome(kind=OutcomeKind.APPLIED)
