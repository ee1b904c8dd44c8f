"""Large runs: accept in bulk what is certainly right, judge the rest exactly.

The whole view of a large run is judged by lineage alone: if all its records are accepted, it is torn exactly
where one base update was absorbed by two view records at two moments; otherwise it is undecided and says why.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from cvs.checker.bulk import Accepted, Bulk, accept
from cvs.checker.classify import Judgement, Meanings, judge
from cvs.checker.replay import Run, ViewRun, replay
from cvs.checker.verdict import Finding, Verdict, Witness
from cvs.history import events as ev
from cvs.history.columns import Columns
from cvs.model.identity import key_identity

LARGE = 20_000
"""Events above which the bulk path is tried first."""

WITH_EPOCHS = 200_000
"""Events up to which a run with epochs is judged exactly, what snapshots saw of it included."""

PROVED = (
    "linearizability", "converged", "weak", "strong-pairwise", "strong", "complete", "complete-recorded-order",
    "no-future", "certificates",
)  # fmt: skip


def judge_large(
    columns: Columns, bulk: Bulk, events: Callable[[], Iterable[Any]], meanings: Meanings, *, budget: int
) -> Judgement | None:
    """Judge a large run; None where the bulk path cannot take it. `events` reads it again, for what is left."""
    epochs = columns.kinds.get("epoch_committed", 0)
    accepted = None if epochs and columns.events < WITH_EPOCHS else accept(columns, bulk)
    if accepted is None or not accepted.names:
        return None
    judgement = _rest(events, meanings, accepted, budget)
    judgement.run = _header(columns)
    for view, count in Counter(view for view, _ in accepted.names).items():
        judgement.findings += [
            Finding(property=name, verdict=Verdict.HOLDS, view=view, tier="lineage", count=count)
            for name in PROVED
        ]
    measure = {"versions": accepted.versions_behind, "nanoseconds": accepted.nanoseconds_behind}
    witness = Witness(kind="measure", facts=measure)
    view, key = accepted.names[0]
    judgement.findings.append(
        Finding(
            property="staleness", verdict=Verdict.HOLDS, view=view, key=key, tier="lineage", witness=witness
        )
    )
    for name in judgement.run.views:
        judgement.findings += _whole_view(name, accepted, judgement)
        if epochs:
            why = "the run is too large to recompute the view at every epoch"
            judgement.findings += [
                Finding(property=p, verdict=Verdict.UNDECIDED, view=name, granularity="snapshots", reason=why)
                for p in PROVED[1:6]
            ]
    return judgement


def _header(columns: Columns) -> Run:
    views = {str(v.get("name", "")): v for start in columns.headers for v in start.views}
    return Run(
        name=columns.headers[0].run,
        views={name: ViewRun(name=name, definition=v) for name, v in views.items()},
        tables=columns.headers[0].tables,
        processes=set(columns.processes),
        quiescent=True,
        has_base_log=True,
        events=columns.events,
        first_time=columns.first_time,
        last_time=columns.last_time,
    )


def _rest(
    events: Callable[[], Iterable[Any]], meanings: Meanings, accepted: Accepted, budget: int
) -> Judgement:
    """Judge exactly the view records that were left over, with the base records that can matter to them."""
    others, bases = set(accepted.others), accepted.base_of_others
    if not others:
        return judge(replay([]), meanings, whole=False)
    calls: set[tuple[str, int]] = set()
    numbers, chosen = [], []
    for number, event in enumerate(events(), 1):
        kind = type(event)
        if kind is ev.TestAndSetCalled:
            keep = (event.view, key_identity(event.view_key)) in others
        elif kind is ev.BaseUpdateCalled:
            keep = (event.table, key_identity(event.key)) in bases
        elif kind in (ev.TestAndSetReturned, ev.BaseUpdateReturned):
            keep = (event.process, event.operation) in calls
        else:
            keep = kind in (ev.RunStarted, ev.Quiescent)
        if not keep:
            continue
        if kind in (ev.TestAndSetCalled, ev.BaseUpdateCalled):
            calls.add((event.process, event.operation))
        numbers.append(number)
        chosen.append(event)
    run = replay(chosen, numbers)
    judgement = judge(run, meanings, budget=budget, whole=False)
    judgement.findings = [f for f in judgement.findings if (f.view, f.key) in others]
    judgement.judged = [j for j in judgement.judged if (j.subject.view, j.subject.key) in others]
    return judgement


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
    findings = []
    event = min((number for number, _ in whole.torn), default=None)
    for name in PROVED[1:8]:
        verdict, reason, witness = Verdict.HOLDS, "", None
        if whole.torn and name not in ("converged", "no-future"):
            verdict, reason = Verdict.VIOLATED, "" if name == "weak" else "needs weak"
            longest = max(length for _, length in whole.torn)
            facts = {"windows": len(whole.torn), "longest": longest}
            witness = Witness(kind="held", events=(event or 0,), facts=facts)
        elif whole.overlapping and name not in ("converged", "no-future"):
            verdict, reason = Verdict.UNDECIDED, "writes overlap in time; another order could explain them"
        elif name == "complete-recorded-order" and not whole.in_recorded_order:
            verdict, reason = Verdict.UNDECIDED, "the writes returned in another order than the base updates"
        findings.append(
            Finding(
                property=name, verdict=verdict, view=view, granularity="view", tier="lineage", reason=reason,
                event=event if verdict is Verdict.VIOLATED else None, witness=witness,
            )
        )  # fmt: skip
    return findings
