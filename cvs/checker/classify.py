"""A whole run judged: every view record, every view, what snapshots saw; and the level as an interval.

The states of a view record are in the order of its signatures. Those of a whole view are in the order in
which its writes returned; where writes overlap in time that order is one of several, so a violation counts
only if the states that were certainly shown (no write under way) show it too.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial as bound
from itertools import accumulate, pairwise

from cvs.checker.ends import Answer, ends_of
from cvs.checker.judge import Judged, judge_subject
from cvs.checker.lineage import Lineage, follow
from cvs.checker.meaning import Meaning, frozen_row
from cvs.checker.reads import Reads, check_reads
from cvs.checker.replay import ENDLESS, Attempt, Key, Read, Run, ViewRecord, ViewRun
from cvs.checker.signatures import ChainCheck, check_record, loose_ends
from cvs.checker.snapshots import (
    Epoch,
    epochs_of,
    lineage_of,
    signed_states,
    snapshots_of,
    whole_value,
)
from cvs.checker.subject import Index, State, Subject, mark_apart, mark_quiet
from cvs.checker.verdict import LEVELS, QUESTIONS, Finding, Interval, Purse, Verdict, Witness, interval, worst
from cvs.errors import HistoryError

Meanings = Callable[[ViewRun], Meaning | None]

UNDEFINED = "the view's definition is not in the history (`cvs convert --define` puts it there)"
UNLOGGED = "there is no base log"

LARGEST = 5_000_000
"""States times records of a whole view that are looked at whatever the budget: tens of seconds, a GiB."""


@dataclass(slots=True, kw_only=True)
class Judgement:
    """Everything the judge says about a run."""

    run: Run
    reference: str
    findings: list[Finding] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    chains: dict[tuple[str, Key], ChainCheck] = field(default_factory=dict)

    def level(self, granularity: str = "record", view: str | None = None) -> Interval:
        """Return the interval of one granularity: the worst of its subjects."""
        found = {
            name: [f.verdict for f in self.of(name, granularity) if view in (None, f.view)] for name in LEVELS
        }
        # nothing was asked where nothing was found: that proves nothing
        return interval({name: worst(verdicts) for name, verdicts in found.items() if verdicts})

    def of(self, name: str, granularity: str) -> list[Finding]:
        """Return the findings of one property at one granularity."""
        return [f for f in self.findings if f.property == name and f.granularity == granularity]

    @property
    def granularities(self) -> list[str]:
        """Return those for which there is something to say, in reading order."""
        present = {f.granularity for f in self.findings}
        return [g for g in ("record", "view", "snapshots") if g in present]


def nothing_shown() -> HistoryError:
    """Refuse a run in which no view was written or read: nothing could tell, whatever level one asks for."""
    return HistoryError(
        "there is nothing to judge: no test-and-set and no read of a view is recorded",
        next_step="record while the base tables are written to",
    )


def judge(
    run: Run,
    meanings: Meanings,
    *,
    budget: int = 100_000,
    views: Iterable[str] | None = None,
    reference: str = "writers",
    whole: bool = True,
    owned: Callable[[str, Key], bool] = lambda _view, _key: True,
    partial: Iterable[str] = (),
) -> Judgement:
    """Judge a replayed run; `budget` is the number of steps one question may take, and twenty
    times that all of them.

    `whole` off judges the view records only, and of them those that are `owned`: of a part of a run. Of views that
    are `partial` a record that is absent is unknown: it claims nothing.
    """
    wanted = set(views) if views is not None else set(run.views)
    judgement = Judgement(run=run, reference=reference)
    purse = Purse(budget)
    for view in run.views.values():
        if view.name in wanted:
            kept = view.name not in set(partial)
            subjects = subjects_of if kept else partial_subjects
            _judge_view(
                view, meanings(view), judgement, purse, whole=whole and kept, owned=owned, subjects=subjects
            )
            if not kept:
                judgement.findings.extend(_whole_of_partial(view, judgement))
    return judgement


def _judge_view(
    view: ViewRun,
    meaning: Meaning | None,
    judgement: Judgement,
    purse: Purse,
    *,
    whole: bool,
    owned: Callable[[str, Key], bool],
    subjects: "Subjects",
) -> None:
    run = judgement.run
    attempts = {a.event: a for record in view.records.values() for a in record.attempts}
    committed = epochs_of(run)
    for key, record in view.records.items():
        check = check_record(record)
        judgement.chains[view.name, key] = check
        reads = check_reads(record, view.whole_reads, states_of(record, check), check, committed)
        judgement.findings.append(_linearizability(view, record, check, reads))
    why = UNDEFINED if meaning is None else "" if run.has_base_log else UNLOGGED
    if meaning is None or why:
        judgement.findings.extend(_nothing_to_say(view, why))
        return
    why = _too_large(view, judgement, purse) if whole else ""
    index, ends = Index(meaning, run), None
    whole = whole and not why
    for subject, epochs in subjects(view, index, judgement, whole):
        if subject.key is not None and not owned(view.name, subject.key):
            continue
        if subject.gaps:
            lineage = Lineage.unknown(len(subject.states))
        else:
            lineage = lineage_of(subject, epochs, index) if epochs else follow(subject, attempts, index)
        if subject.granularity == "view" and not subject.sampled:
            ends = ends_of(_ends(view, judgement), index)
        of_whole = ends if subject.granularity == "view" else None
        judged = judge_subject(subject, lineage, index=index, run=run, purse=purse, ends=of_whole)
        judgement.judged.append(judged)
        judgement.findings.extend(judged.findings)
    if why:
        ends = ends_of(_ends(view, judgement), index) if view.name in run.written else None
        judgement.findings.extend(_nothing_to_say(view, why, "view", ends))
        if run.commits:
            judgement.findings.extend(_nothing_to_say(view, why, "snapshots"))


def _ends(view: ViewRun, judgement: Judgement) -> Iterable[Finding]:
    return (f for f in judgement.of("converged", "record") if f.view == view.name)


def _nothing_to_say(
    view: ViewRun, why: str, granularity: str = "record", ends: Answer | None = None
) -> Iterable[Finding]:
    """Say why no level is decided, but how the view ended where its records told."""
    for name in LEVELS:
        decided = ends if name == "converged" and ends is not None else None
        verdict, witness, tier, reason = decided or (Verdict.UNDECIDED, None, "value", why)
        yield Finding(
            property=name, verdict=verdict, view=view.name, granularity=granularity, reason=reason, tier=tier,
            witness=witness,
        )  # fmt: skip


def _too_large(view: ViewRun, judgement: Judgement, purse: Purse) -> str:
    """Say why a view is not judged as a whole, if all its states at once are more than there is room for."""
    run = judgement.run
    states = sum(len(judgement.chains[view.name, key].order) for key in view.records) + len(run.commits)
    records = len(view.records) + len(run.timelines)
    if states * records <= max(LARGEST, purse.each * QUESTIONS):
        return ""
    budget = -(-states * records // QUESTIONS)
    return f"{states:,} states of {records:,} records are too many at once: cvs audit --budget {budget}"


def _linearizability(view: ViewRun, record: ViewRecord, check: ChainCheck, reads: Reads) -> Finding:
    problems = [*check.problems, *reads.problems]
    verdict = Verdict.VIOLATED if problems else check.verdict
    reason = "a refusal did not say what it saw" if verdict is Verdict.UNDECIDED else ""
    if verdict is Verdict.HOLDS and reads.unsure:
        verdict, reason = Verdict.UNDECIDED, "a read saw what a test-and-set of unknown outcome may have left"
    witness = check.witness if verdict is not Verdict.UNDECIDED else None
    if problems:
        why, events = problems[0]
        witness = Witness(kind="order", events=events, facts={"why": why})
    return Finding(
        property="linearizability",
        verdict=verdict,
        view=view.name,
        key=record.key,
        tier="signatures",
        reason=reason,
        event=problems[0][1][-1] if problems else None,
        witness=witness,
    )


Judgeable = tuple[Subject, list[Epoch | None]]
Subjects = Callable[[ViewRun, Index, Judgement, bool], Iterable[Judgeable]]


def subjects_of(view: ViewRun, index: Index, judgement: Judgement, whole: bool) -> Iterable[Judgeable]:
    """List what is to be judged of one view; what snapshots saw comes with the epochs they name.

    Without the `whole` its records only, whose states are few.
    """
    if view.name not in judgement.run.written:
        read = _subjects_from_reads(view, judgement.run)
        yield from ((subject, []) for subject in read if whole or subject.granularity == "record")
        if not whole:
            return
        snapshots = snapshots_of(view, judgement.run, {})
        if snapshots is not None:
            yield snapshots
        return
    states: dict[Key, list[State]] = {}
    signed: dict[Key, list[tuple[Epoch, Hashable]]] = {}
    loose: list[Attempt] = []
    ambiguous = False
    start = _assumed_start(view, index, judgement.run)
    for key in sorted(view.records.keys() | index.touching.keys() | start.keys(), key=repr):
        record = view.records.get(key, ViewRecord(key=key))
        check = judgement.chains.get((view.name, key), ChainCheck(order=[]))
        states[key] = states_of(record, check)
        if not record.known and key in start:
            states[key][0].value = start[key]
        ends = loose_ends(record, check)
        loose += ends
        ambiguous = ambiguous or check.ambiguous
        signed[key] = signed_states(check.order, states[key])
        record_subject = Subject(
            view=view.name,
            granularity="record",
            key=key,
            states=states[key],
            ordered=check.verdict is not Verdict.VIOLATED,
            final_uncertain=any(frozen_row(end.row) != states[key][-1].value for end in ends),
            ambiguous=check.ambiguous,
        )
        yield record_subject, []
    if not whole:
        return
    every = _whole(states)
    whole_subject = Subject(
        view=view.name,
        granularity="view",
        key=None,
        states=every,
        ordered=mark_quiet(every),
        final_uncertain=bool(loose),
        ambiguous=ambiguous or any(end.called <= every[-1].returned for end in loose),
    )
    yield whole_subject, []
    snapshots = snapshots_of(view, judgement.run, signed)
    if snapshots is not None:
        last = max(filter(None, snapshots[1]), default=(-1, -1))
        snapshots[0].ambiguous = ambiguous or any(end.new[:2] <= last for end in loose)
        yield snapshots


def partial_subjects(view: ViewRun, index: Index, judgement: Judgement, whole: bool) -> Iterable[Judgeable]:
    """List the records of a partial view, each with the states in which it was there."""
    for subject, epochs in subjects_of(view, index, judgement, whole):
        there = [state for state in subject.states if state.value is not None]
        gaps = len(there) < len(subject.states)
        kept = subject.states[-1].value is not None
        if there:
            yield replace(subject, states=there, gaps=gaps, kept=kept), epochs


def _whole_of_partial(view: ViewRun, judgement: Judgement) -> Iterable[Finding]:
    """Say of a whole partial view what its records say: it lacks what one of them lacks."""
    for name in LEVELS:
        own = [f for f in judgement.of(name, "record") if f.view == view.name]
        bad = next((f for f in own if f.verdict is Verdict.VIOLATED), None)
        yield Finding(
            property=name,
            verdict=Verdict.VIOLATED if bad else Verdict.UNDECIDED,
            view=view.name,
            granularity="view",
            reason="a record is not" if bad else "absent records are unknown: they are judged one by one",
            event=bad.event if bad else None,
        )


def _assumed_start(view: ViewRun, index: Index, run: Run) -> Mapping[Key, Hashable]:
    """Return the view of the first base state, where no checkpoint tells what the view showed at first.

    It matters to aggregates without groups only, which show a row of nothing.
    """
    if run.has_checkpoint or any(record.known for record in view.records.values()):
        return {}
    return index.meaning.view({r: t.versions[0].row for r, t in run.timelines.items()})


def states_of(record: ViewRecord, check: ChainCheck) -> list[State]:
    """Return the states of a view record, each with the narrowest interval its place in the order allows."""
    states = [State(value=frozen_row(record.initial_row), event=0, called=-ENDLESS, returned=-ENDLESS)]
    for attempt in check.order:
        states.append(
            State(
                value=frozen_row(attempt.row),
                event=attempt.event,
                called=max(attempt.called, states[-1].called),
                returned=attempt.returned,
                attempt=attempt.event,
            )
        )
    for later, earlier in pairwise(reversed(states)):
        earlier.returned = min(earlier.returned, later.returned)
    return states


def _whole(states: dict[Key, list[State]]) -> list[State]:
    """Merge the records' states into states of the whole view, as the writes returned."""
    moves = []
    for key, each in states.items():
        events = accumulate(
            (state.event for state in each[1:]), max
        )  # one that was called early follows all the same
        moves += [(s.returned, s.called, event, key, s) for s, event in zip(each[1:], events, strict=True)]
    moves.sort(key=lambda move: move[:3])
    shown = {key: each[0].value for key, each in states.items() if each[0].value is not None}
    whole = [State(value=frozenset(shown.items()), event=0, called=-ENDLESS, returned=-ENDLESS)]
    for *_, key, state in moves:
        if state.value is None:
            shown.pop(key, None)
        else:
            shown[key] = state.value
        whole.append(replace(state, value=frozenset(shown.items())))
    return whole


def _read_states(reads: list[Read], value: Callable[[Read], Hashable]) -> list[State]:
    return [
        State(value=value(r), event=r.event, called=r.called, returned=r.returned)
        for r in sorted(reads, key=lambda r: (r.returned, r.event))
    ]


def _own_value(key: Key, read: Read) -> Hashable:
    return frozen_row(read.rows.get(key))


def _subjects_from_reads(view: ViewRun, run: Run) -> Iterable[Subject]:
    """Judge a view of which only reads are known, as somebody else's system shows it.

    They are samples: of what nobody read, and of the end if nobody read after it, nothing is known.
    """
    for key, record in view.records.items():
        states = _read_states(record.reads, bound(_own_value, key))
        if states:
            yield _sampled(view, key, states, run)
    states = _read_states([read for read in view.whole_reads if not read.snapshot], whole_value)
    if states:
        yield _sampled(view, None, states, run)


def _sampled(view: ViewRun, key: Key | None, states: list[State], run: Run) -> Subject:
    return Subject(
        view=view.name,
        granularity="view" if key is None else "record",
        key=key,
        states=states,
        ordered=mark_apart(states),
        shown=True,
        sampled=True,
        final_uncertain=run.rest is None or states[-1].called < run.rest,
    )
