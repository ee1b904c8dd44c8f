"""View records that what is held does not settle: judged exactly, each with the base records that can matter to it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from cvs.checker.classify import Judgement
from cvs.checker.held import Accepted
from cvs.checker.holding import lines_of
from cvs.checker.replay import Key, Run, ViewRun, replay
from cvs.checker.verdict import Finding, Verdict

Exactly = Callable[..., Judgement]
"""The exact judge, records alone, with the meanings and the budget of this run."""

BATCHES = (1, 10, 100, 1_000, 4_000)
"""Records that are searched for an order of what they absorbed at once: more only while each of those was complete."""


def left_over(run: Run, view: ViewRun, found: Accepted, exactly: Exactly, asked: Sequence[str]) -> Judgement:
    """Judge the records in doubt, up to a number; of those that are strong, some are searched for an order.

    `asked` are the properties of which those beyond the number are undecided.
    """
    doubts = found.others[: found.searched]
    exact = _of_records(run, view, doubts, found, exactly)
    many, why = len(found.others) - len(doubts), f"records in doubt are searched up to {found.searched:,}"
    exact.findings += [
        Finding(property=name, verdict=Verdict.UNDECIDED, view=view.name, count=many, reason=why)
        for name in (asked if many else ())
    ]
    _search(run, view, found, exactly, exact)
    return exact


def _search(run: Run, view: ViewRun, found: Accepted, exactly: Exactly, exact: Judgement) -> None:
    """Search the strong ones for an order until one has none; those go from what is proved to what is searched."""
    unsure = list(found.unsure)
    for size in BATCHES:
        keys, unsure = unsure[:size], unsure[size:]
        more = _of_records(run, view, keys, found, exactly)
        exact.findings += more.findings
        exact.judged += more.judged
        left = set(keys)
        found.proved = [key for key in found.proved if key not in left]
        if not unsure or any(f.verdict is not Verdict.HOLDS for f in more.of("complete", "record")):
            return


def _of_records(run: Run, view: ViewRun, keys: Sequence[Key], found: Accepted, exactly: Exactly) -> Judgement:
    """Judge some records alone."""
    if not keys:
        return exactly(replay([]))
    chosen = set(keys)
    records = {key: view.records[key] for key in keys if key in view.records}
    known = dict.fromkeys(keys, run.timelines) if found.near is None else found.near
    near = set(chain.from_iterable(known.get(key, ()) for key in keys))
    for attempt in chain.from_iterable(record.attempts for record in records.values()):
        near.update(record for record, _ in lines_of(attempt))
    timelines = {name: timeline for name, timeline in run.timelines.items() if name in near}
    less = replace(
        run, views={view.name: replace(view, records=records)}, timelines=timelines,
        order=[update for update in run.order if update[0] in timelines],
    )  # fmt: skip
    exact = exactly(less, owned=lambda _, key: key in chosen)
    exact.findings = [finding for finding in exact.findings if finding.key in chosen]
    return exact
