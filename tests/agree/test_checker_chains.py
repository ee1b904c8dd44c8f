"""The signature check over columns against the one over objects: what it says of a record is so."""

import random

import numpy as np

from cvs.checker.columns import chains
from cvs.checker.replay import ENDLESS, Attempt, ViewRecord
from cvs.checker.signatures import check_record
from cvs.checker.verdict import Verdict
from cvs.history.fields import OUTCOMES
from cvs.history.operations import Operations
from cvs.history.packing import fill, packed_column
from cvs.model.outcome import OutcomeKind


def drawn(chance: random.Random, key: int, *, far: int) -> ViewRecord:
    """Draw a record whose writes take effect in order; some are late, lost, refused or unknown."""
    attempts, version, now = [], 0, 0
    for number in range(chance.randint(1, 6)):
        now += chance.randint(1, 10)
        called = now - chance.choice((0, 3, 15))
        returned = now + chance.choice((0, 3, 15))
        if chance.random() < 0.1:
            called, returned = called + 60, returned + 60
        outcome = OutcomeKind.APPLIED if chance.random() < 0.8 else chance.choice(list(OutcomeKind))
        expected = (0, version, 0, True) if version else None
        new, seen = (0, version + 1, 0, True), None
        if outcome is OutcomeKind.REJECTED:
            expected, new = (0, 90 + number, 0, True), (0, 70 + number, 0, True)
            seen = (0, version, 0, True) if version and chance.random() < 0.8 else None
        elif chance.random() < 0.05:
            expected = (0, version + 3, 0, True)
        version += outcome is OutcomeKind.APPLIED
        ended = ENDLESS if outcome is OutcomeKind.UNKNOWN else returned * far
        attempts.append(
            Attempt(
                event=number, last_event=number, process="m", operation=number, view="v", key=(key,), expected=expected,
                new=new, row=None, absorbed=(), called=called * far, returned=ended, outcome=outcome, seen=seen,
            )
        )  # fmt: skip
    return ViewRecord(key=(key,), attempts=attempts)


def test_what_the_columns_accept_or_refuse_is_right_or_wrong() -> None:
    chance = random.Random(3)
    holds = violated = 0
    for number in range(400):
        far = 1 if number % 2 else 1 << 50  # so that records of such times have no place side by side
        records = [drawn(chance, key, far=far) for key in range(40)]
        attempts = [(key, attempt) for key, record in enumerate(records) for attempt in record.attempts]
        chance.shuffle(attempts)
        each, many = [attempt for _, attempt in attempts], len(attempts)
        own = {
            "expected": packed_column([a.expected for a in each]),
            "new": packed_column([a.new for a in each]),
            "seen": packed_column([a.seen for a in each]),
        }
        owner = fill((key for key, _ in attempts), many)
        writes = Operations(
            owner=owner,
            called=fill((a.called for a in each), many),
            returned=fill((a.returned for a in each), many),
            outcome=fill((OUTCOMES.index(a.outcome) for a in each), many),
            number=np.arange(many),
            answered=np.arange(many),
            own=own,
        )
        found = chains(writes, len(records))
        stale = set(owner[found.stale].tolist())
        for key, record in enumerate(records):
            verdict = check_record(record).verdict
            if found.accepted[key]:
                holds += 1
                assert verdict is Verdict.HOLDS, record
            elif key in stale:
                violated += 1
                assert verdict is Verdict.VIOLATED, record
    assert holds > 2_000
    assert violated > 300
