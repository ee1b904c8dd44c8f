"""Large runs: accept in bulk what is certainly right, judge the rest exactly.

The whole view of a large run is judged by lineage alone, and so is what snapshots saw of it: if all its records are
accepted, it is torn exactly where one base update was absorbed by two view records at two moments; otherwise it is
undecided and says why.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cvs.checker import epochwise, held
from cvs.checker.bulk import Accepted, Bulk, accept
from cvs.checker.changes import Stale
from cvs.checker.classify import Judgement, Meanings, judge
from cvs.checker.leftover import Exactly, left_over
from cvs.checker.replay import Run, ViewRun, replay
from cvs.checker.verdict import Finding, Verdict, Witness, worst
from cvs.checker.wholes import Snapshots, WholeView, counted
from cvs.history.columns import Columns
from cvs.history.fields import UNKNOWN
from cvs.history.operations import ENDLESS, Operations
from cvs.history.validate import require_keys

Events = Callable[[list[int]], Iterable[Any]]
"""Reads the events of these numbers again, which are in order."""

LARGE = 20_000
"""Events above which the bulk path is tried first."""

WITH_EPOCHS = 200_000
"""Events up to which a run is judged exactly where its lineage does not prove what snapshots saw."""

PROVED = (
    "linearizability", "converged", "weak", "strong-pairwise", "strong", "complete", "complete-recorded-order",
    "no-future", "certificates",
)  # fmt: skip
COMPLETE = ("complete", "complete-recorded-order")
ANOTHER_ORDER = "the writes returned in another order than the base updates"
IN_ANOTHER_ORDER = "the epochs took the base updates in in another order than the recorded one"
ON_WHOLE_TABLES = "each record hangs on whole tables, so the view was recomputed at commits only"
TOO_LARGE = "the run is too large to search an order of its base updates"


def judge_large(
    columns: Columns,
    bulk: Bulk,
    events: Events,
    meanings: Meanings,
    *,
    budget: int,
    whole: bool = True,
    unsettled: set[str] | None = None,
    views: set[str] | None = None,
) -> Judgement | None:
    """Judge a large run, or some of its `views`; None where the bulk path cannot take it.

    `events` reads again what is left. Views of kinds that columns do not know are judged by what their records hold,
    if it is the `whole` run. Into `unsettled` go the views of which the exact judge can say more, in a run of this
    size; without it that is None.
    """  # fmt: skip
    require_keys(columns.records, (view for start in columns.headers for view in start.views))
    epochs = columns.kinds.get("epoch_committed", 0)
    accepted = accept(columns, bulk)
    if accepted is None or (accepted.unknown and not whole):
        return None
    asked = set(columns.views) if views is None else views
    accepted.leave_out(set(columns.views) - asked)
    again = _Again(events, columns, bulk.written)
    exactly = partial(judge, meanings=meanings, budget=budget, whole=False)
    least = LARGE if accepted.unknown else WITH_EPOCHS
    small = epochs > 0 and columns.events < least
    beside = _held(again, exactly, meanings, accepted, small=small, budget=budget)
    if not accepted.names and not any(f.verdict is Verdict.HOLDS for f in beside.findings):
        return None
    unproved = asked - accepted.snapshots.keys() if small else set()
    if unproved and (unsettled is None or unproved >= asked):
        return None
    if unsettled is not None:
        unsettled |= unproved
    judgement = _rest(again, exactly, accepted)
    judgement.run = _header(columns)
    judgement.findings += beside.findings
    judgement.judged += beside.judged
    for view, count in Counter(view for view, _ in accepted.names).items():
        judgement.findings += [
            *_of_records(view, count, accepted, columns), _staleness(view, accepted.stale[view]),
        ]  # fmt: skip
    for name in (view for view in judgement.run.views if view in asked):
        judgement.findings += _whole_view(name, accepted, judgement)
        if epochs:
            judgement.findings += _snapshots(name, accepted.snapshots.get(name))
    return judgement


def _of_records(view: str, count: int, accepted: Accepted, columns: Columns) -> list[Finding]:
    """Say of how many view records what is proved; of those refuted the first is named."""
    short, still = accepted.short.get(view), accepted.still.get(view, 0)
    refuted, elsewise = short.many if short else 0, accepted.elsewise.get(view, 0)
    findings = []
    for name in PROVED:
        holds = count - (refuted if name in COMPLETE else still if name == "certificates" else 0)
        if name == "complete-recorded-order" and elsewise:
            holds -= elsewise
            findings.append(
                Finding(
                    property=name, verdict=Verdict.UNDECIDED, view=view, tier="lineage", count=elsewise,
                    reason=ANOTHER_ORDER,
                )
            )  # fmt: skip
        if holds:
            findings.append(
                Finding(property=name, verdict=Verdict.HOLDS, view=view, tier="lineage", count=holds)
            )
        if name in COMPLETE and short is not None and refuted:
            _, key = columns.records[short.record]
            findings.append(
                Finding(
                    property=name, verdict=Verdict.VIOLATED, view=view, key=key, tier="lineage", count=refuted,
                    event=short.event, witness=counted(short.shown, short.changes, short.event),
                    reason="needs complete" if name != "complete" else "",
                )
            )  # fmt: skip
    return findings


def _staleness(view: str, stale: Stale, *, granularity: str = "record") -> Finding:
    measure = {"versions": stale.versions, "nanoseconds": stale.nanoseconds}
    return Finding(
        property="staleness", verdict=Verdict.HOLDS, view=view, granularity=granularity, tier="lineage",
        witness=Witness(kind="measure", facts=measure),
    )  # fmt: skip


def _snapshots(view: str, proved: Snapshots | None) -> list[Finding]:
    """Say what snapshots saw, where the certificates of writes and of commits agree."""
    if proved is None:
        why = (
            "its certificates do not prove it, and the run is too large to recompute the view at every epoch"
        )
        return [
            Finding(property=p, verdict=Verdict.UNDECIDED, view=view, granularity="snapshots", reason=why)
            for p in PROVED[1:6]
        ]
    findings = [_staleness(view, proved.stale, granularity="snapshots")]
    for name in PROVED[1:]:
        verdict, reason, event, witness = Verdict.HOLDS, "", None, None
        if name in COMPLETE and proved.refuted is not None:
            verdict, witness, event = Verdict.VIOLATED, proved.refuted, proved.refuted.events[0]
            reason = "needs complete" if name != "complete" else ""
        elif name in COMPLETE and not proved.complete:
            verdict, reason = Verdict.UNDECIDED, TOO_LARGE
        elif name == COMPLETE[1] and not proved.in_recorded_order:
            verdict, reason = Verdict.UNDECIDED, IN_ANOTHER_ORDER
        findings.append(
            Finding(
                property=name, verdict=verdict, view=view, granularity="snapshots", tier="lineage", reason=reason,
                event=event, witness=witness,
            )
        )  # fmt: skip
    return findings


def _header(columns: Columns) -> Run:
    views = {str(v.get("name", "")): v for start in columns.headers for v in start.views}
    return Run(
        name=columns.headers[0].run,
        views={name: ViewRun(name=name, definition=v) for name, v in views.items()},
        tables=columns.headers[0].tables,
        processes=set(columns.processes),
        rest=columns.last_time,
        has_base_log=True,
        events=columns.events,
        first_time=columns.first_time,
        last_time=columns.last_time,
    )


def _rest(again: "_Again", exactly: Exactly, accepted: Accepted) -> Judgement:
    """Judge exactly the view records that were left over, with the base records that can matter to them."""
    others = set(accepted.others)
    if not others:
        return exactly(replay([]))
    writes = [name in others for name in again.columns.records]
    bases = [name in accepted.base_of_others for name in again.columns.bases]
    judgement = exactly(again.run(writes, bases, told=bases), owned=lambda view, key: (view, key) in others)
    judgement.findings = [f for f in judgement.findings if (f.view, f.key) in others]
    judgement.judged = [j for j in judgement.judged if (j.subject.view, j.subject.key) in others]
    return judgement


def _held(
    again: "_Again",
    exactly: Exactly,
    meanings: Meanings,
    accepted: Accepted,
    *,
    small: bool,
    budget: int,
) -> Judgement:
    """Judge the records of views of other kinds by what they hold, and exactly what that leaves over.

    In a `small` run a view of which that tells nothing is left to the exact judge as a whole.
    """
    columns = again.columns
    views, judgement = set(accepted.unknown), exactly(replay([]))
    if not views:
        return judgement
    unsure = np.zeros(len(columns.bases), np.bool_)
    unsure[columns.updates.owner[columns.updates.outcome == UNKNOWN]] = True
    writes = [view in views for view, _ in columns.records]
    run = again.run(writes, [True] * len(columns.bases), told=unsure.tolist())
    for view in (run.views[name] for name in accepted.unknown):
        meaning = meanings(view)
        found = None
        if meaning is not None:
            found = held.accept(run, view, meaning, budget=budget) or epochwise.accept(run, view, meaning)
        if found is not None and found.snapshots is not None:
            accepted.snapshots[view.name] = found.snapshots
        if found is None and small:
            continue
        if found is None:
            exact = exactly(run, views=[view.name])
        else:
            exact = left_over(run, view, found, exactly, PROVED)
        judgement.findings += [*(_of_held(view.name, found) if found is not None else ()), *exact.findings]
        if found is not None and found.whole is not None:
            accepted.views[view.name] = found.whole
        judgement.judged += exact.judged
    return judgement


def _of_held(view: str, found: held.Accepted) -> list[Finding]:
    """Say of how many view records what is proved by what they hold."""
    counts = dict.fromkeys(PROVED, len(found.proved))
    counts |= dict.fromkeys(COMPLETE, len(found.complete.intersection(found.proved)))
    counts["certificates"] = counts["certificates"] - found.still if found.certified else 0
    findings = []
    for name, holds in counts.items():
        shown = [(Verdict.HOLDS, holds, "")]
        if name in COMPLETE:
            shown.append(
                (
                    Verdict.UNDECIDED,
                    len(found.proved) - holds,
                    TOO_LARGE if found.certified else ON_WHOLE_TABLES,
                )
            )
        if name == "certificates" and not found.certified:
            shown.append((Verdict.UNDECIDED, len(found.proved) - found.still, ON_WHOLE_TABLES))
        findings += [
            Finding(property=name, verdict=v, view=view, tier="lineage", count=count, reason=reason)
            for v, count, reason in shown
            if count
        ]
    return [*findings, _staleness(view, found.stale)] if found.proved else findings


@dataclass(frozen=True, slots=True)
class _Again:
    """A large run, of which parts can be read again."""

    events: Events
    columns: Columns
    written: frozenset[str]

    def run(self, writes: list[bool], bases: list[bool], *, told: list[bool]) -> Run:
        """Read again the writes of some view records, the updates of some base records, and who was handed some."""
        columns = self.columns
        received = columns.received["number"][np.array(told, np.bool_)[columns.received["owner"]]]
        numbers = sorted(
            (
                *_numbers(columns.writes, writes),
                *_numbers(columns.updates, bases),
                *received.tolist(),
                *columns.commits["number"].tolist(),
                *columns.begun["number"].tolist(),
            )
        )
        run = replay([*columns.headers, *self.events(numbers)], [*([0] * len(columns.headers)), *numbers])
        run.rest, run.has_base_log = columns.last_time, True
        # because a view record may be left over that nobody ever wrote
        run.written.update(columns.views, self.written)
        return run


def _numbers(operations: Operations, chosen: list[bool]) -> list[int]:
    """Return the numbers of the events of some records."""
    mine = np.array(chosen, np.bool_)[operations.owner]
    answered = operations.answered[mine]
    found: list[int] = np.append(operations.number[mine], answered[answered < ENDLESS]).tolist()
    return found


def _whole_view(view: str, accepted: Accepted, judgement: Judgement) -> list[Finding]:
    whole = accepted.views.get(view)
    if whole is None:
        why = "some of its view records are not proved right, and the run is too large for a search"
        if view in accepted.unknown:
            why = "what its records hold tells nothing of it, and the run is too large for a search"
        ends = [f.verdict for f in judgement.of("converged", "record") if f.view == view]
        end = worst(ends or [Verdict.UNDECIDED])
        others = (end, "needs converged") if end is Verdict.VIOLATED else (Verdict.UNDECIDED, why)
        first = (end, {Verdict.VIOLATED: "a record is not", Verdict.UNDECIDED: why}.get(end, ""))
        return [
            Finding(
                property=name, verdict=verdict, view=view, granularity="view", tier="lineage", reason=reason,
            )
            for name, (verdict, reason) in zip(PROVED[1:6], (first, *[others] * 4), strict=True)
        ]  # fmt: skip
    if whole.complete is None:
        said = worst(f.verdict for f in judgement.of("complete", "record") if f.view == view)
        whole.complete = {Verdict.HOLDS: True, Verdict.VIOLATED: False}.get(said)
    return [_of_whole(view, name, whole) for name in PROVED[1:8]]


def _of_whole(view: str, name: str, whole: WholeView) -> Finding:
    """Say one property of a whole view all of whose records are proved strong."""
    windows = whole.torn if name == "weak" else whole.apart
    verdict, reason, event, witness, tier = Verdict.HOLDS, "", None, None, "lineage"
    if name == "converged" or (name == "no-future" and not whole.torn and not whole.unsure):
        pass
    elif name == "no-future":
        verdict, reason = Verdict.UNDECIDED, "needs weak"
    elif name in COMPLETE and whole.complete is False:
        verdict, reason = Verdict.VIOLATED, "a record is not" if name == "complete" else "needs complete"
    elif windows:
        verdict, event = Verdict.VIOLATED, min(number for number, _ in windows)
        reason = "needs weak" if whole.torn and name != "weak" else ""
        reason = reason or ("needs strong" if name in COMPLETE else "")
        facts = {"windows": len(windows), "longest": max(length for _, length in windows)}
        witness = whole.evidence or Witness(kind="held", events=(event,), facts=facts)
        tier = "value" if witness.kind == "beside" else "lineage"
    elif whole.unsure:
        verdict, reason = Verdict.UNDECIDED, "writes overlap in time; another order could explain them"
    elif name in COMPLETE and whole.complete is None:
        verdict, reason = Verdict.UNDECIDED, TOO_LARGE
    elif name == "complete-recorded-order" and not whole.in_recorded_order:
        verdict, reason = Verdict.UNDECIDED, ANOTHER_ORDER
    return Finding(
        property=name, verdict=verdict, view=view, granularity="view", tier=tier, reason=reason,
        event=event, witness=witness,
    )  # fmt: skip
