"""Large runs: accept in bulk what is certainly right, judge the rest exactly.

The whole view of a large run is judged by lineage alone, and so is what snapshots saw of it: if all its records are
accepted, it is torn exactly where one base update was absorbed by two view records at two moments; otherwise it is
undecided and says why.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cvs.checker.bulk import Accepted, Bulk, accept
from cvs.checker.changes import Stale
from cvs.checker.classify import Judgement, Meanings, judge
from cvs.checker.replay import Key, Run, ViewRun, replay
from cvs.checker.verdict import Finding, Verdict, Witness
from cvs.checker.wholes import Snapshots, WholeView
from cvs.history.columns import Columns
from cvs.history.operations import ENDLESS, Operations

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


def judge_large(
    columns: Columns, bulk: Bulk, events: Events, meanings: Meanings, *, budget: int
) -> Judgement | None:
    """Judge a large run; None where the bulk path cannot take it. `events` reads again what is left."""
    epochs = columns.kinds.get("epoch_committed", 0)
    accepted = accept(columns, bulk)
    if accepted is None or not accepted.names:
        return None
    if epochs and columns.events < WITH_EPOCHS and not accepted.snapshots.keys() >= set(columns.views):
        return None
    judgement = _rest(events, meanings, accepted, columns, written=bulk.written, budget=budget)
    judgement.run = _header(columns)
    for view, count in Counter(view for view, _ in accepted.names).items():
        judgement.findings += _of_records(view, count, accepted, columns)
    view, key = accepted.names[0]
    judgement.findings.append(_staleness(view, accepted.stale, key=key))
    for name in judgement.run.views:
        judgement.findings += _whole_view(name, accepted, judgement)
        if epochs:
            judgement.findings += _snapshots(name, accepted.snapshots.get(name))
    return judgement


def _of_records(view: str, count: int, accepted: Accepted, columns: Columns) -> list[Finding]:
    """Say of how many view records what is proved; of those refuted the first is named."""
    short, still = accepted.short.get(view), accepted.still.get(view, 0)
    refuted = short.many if short else 0
    findings = []
    for name in PROVED:
        holds = count - (refuted if name in COMPLETE else still if name == "certificates" else 0)
        if holds:
            findings.append(
                Finding(property=name, verdict=Verdict.HOLDS, view=view, tier="lineage", count=holds)
            )
        if name in COMPLETE and short is not None and refuted:
            _, key = columns.records[short.record]
            findings.append(
                Finding(
                    property=name, verdict=Verdict.VIOLATED, view=view, key=key, tier="lineage", count=refuted,
                    event=short.event, witness=_counted(short.shown, short.changes, short.event),
                    reason="needs complete" if name != "complete" else "",
                )
            )  # fmt: skip
    return findings


def _counted(shown: int, changes: int, event: int | None) -> Witness:
    events = () if event is None else (event,)
    return Witness(kind="count", events=events, facts={"shown": shown, "changes": changes})


def _staleness(view: str, stale: Stale, *, key: Key | None = None, granularity: str = "record") -> Finding:
    measure = {"versions": stale.versions, "nanoseconds": stale.nanoseconds}
    return Finding(
        property="staleness", verdict=Verdict.HOLDS, view=view, key=key, granularity=granularity, tier="lineage",
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
        if name in COMPLETE and proved.short:
            verdict, event = Verdict.VIOLATED, proved.event
            reason = "needs complete" if name != "complete" else ""
            witness = _counted(proved.shown, proved.changes, proved.event)
        elif name in COMPLETE:
            verdict, reason = Verdict.UNDECIDED, "the run is too large to search an order of its base updates"
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


def _rest(
    events: Events,
    meanings: Meanings,
    accepted: Accepted,
    columns: Columns,
    *,
    written: frozenset[str],
    budget: int,
) -> Judgement:
    """Judge exactly the view records that were left over, with the base records that can matter to them."""
    others = set(accepted.others)
    if not others:
        return judge(replay([]), meanings, whole=False)
    numbers = _numbers(columns.writes, [name in others for name in columns.records])
    bases = [name in accepted.base_of_others for name in columns.bases]
    numbers += _numbers(columns.updates, bases)
    told = columns.received["number"][np.array(bases, np.bool_)[columns.received["owner"]]]
    numbers = sorted(
        (*numbers, *told.tolist(), *columns.commits["number"].tolist(), *columns.begun["number"].tolist())
    )
    run = replay([*columns.headers, *events(numbers)], [*([0] * len(columns.headers)), *numbers])
    run.rest, run.has_base_log = columns.last_time, True
    run.written.update(
        columns.views, written
    )  # because a view record may be left over that nobody ever wrote
    judgement = judge(
        run, meanings, budget=budget, whole=False, owned=lambda view, key: (view, key) in others
    )
    judgement.findings = [f for f in judgement.findings if (f.view, f.key) in others]
    judgement.judged = [j for j in judgement.judged if (j.subject.view, j.subject.key) in others]
    return judgement


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
        bad = any(
            f.property == "converged" and f.view == view and f.verdict is Verdict.VIOLATED
            for f in judgement.findings
        )
        verdicts = dict.fromkeys(("converged",), Verdict.VIOLATED if bad else Verdict.UNDECIDED)
        found = [
            (n, verdicts.get(n, Verdict.UNDECIDED), why if n != "converged" or not bad else "")
            for n in PROVED[1:6]
        ]
        return [
            Finding(property=n, verdict=v, view=view, granularity="view", tier="lineage", reason=r)
            for n, v, r in found
        ]
    return [_of_whole(view, name, whole) for name in PROVED[1:8]]


def _of_whole(view: str, name: str, whole: WholeView) -> Finding:
    """Say one property of a whole view all of whose records are proved strong."""
    windows = whole.torn if name == "weak" else whole.apart
    verdict, reason, event, witness = Verdict.HOLDS, "", None, None
    if name == "converged" or (name == "no-future" and not whole.torn and not whole.unsure):
        pass
    elif name == "no-future":
        verdict, reason = Verdict.UNDECIDED, "needs weak"
    elif name in COMPLETE and not whole.complete:
        verdict, reason = Verdict.VIOLATED, "a record is not" if name == "complete" else "needs complete"
    elif windows:
        verdict, event = Verdict.VIOLATED, min(number for number, _ in windows)
        reason = "needs weak" if whole.torn and name != "weak" else ""
        reason = reason or ("needs strong" if name in COMPLETE else "")
        facts = {"windows": len(windows), "longest": max(length for _, length in windows)}
        witness = Witness(kind="held", events=(event,), facts=facts)
    elif whole.unsure:
        verdict, reason = Verdict.UNDECIDED, "writes overlap in time; another order could explain them"
    elif name == "complete-recorded-order" and not whole.in_recorded_order:
        verdict, reason = Verdict.UNDECIDED, "the writes returned in another order than the base updates"
    return Finding(
        property=name, verdict=verdict, view=view, granularity="view", tier="lineage", reason=reason,
        event=event, witness=witness,
    )  # fmt: skip
