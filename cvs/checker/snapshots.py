"""What snapshot readers saw of a view: at every commit, and in every snapshot that was read.

An epoch's certificate names the base updates it took in, so the cut of an epoch is what all commits up to it
absorbed, and a snapshot of that epoch claims to be the view of that cut. The cuts only grow, so if every
claim is true the chain is found: whole-view strong, for readers of snapshots. Each claim is re-evaluated against
the base log like any other certificate.

The order of the states is that of the epochs, if time allows it: nothing may be seen for certain before what
stands earlier was there. Otherwise somebody went back, and the states stand in the order of time.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cvs.checker.lineage import FalseLine, Lineage, Versions
from cvs.checker.meaning import frozen_row
from cvs.checker.replay import ENDLESS, Attempt, Commit, Key, Read, Run, ViewRun
from cvs.checker.subject import Index, State, Subject
from cvs.model.identity import key_identity

Epoch = tuple[int, int]
Signed = Mapping[Key, Sequence[tuple[Epoch, Hashable]]]
"""Per view record: the first state (epoch irrelevant), then the epoch and state each applied write left."""


@dataclass(slots=True)
class _Seen:
    state: State
    epoch: Epoch | None
    visible_from: int  # no later than this it can have been seen first


def snapshots_of(view: ViewRun, run: Run, signed: Signed) -> tuple[Subject, list[Epoch | None]] | None:
    """Return the states snapshots showed with the epochs they name; None where nobody could see any."""
    commits = _first_of_each(run.commits)
    numbers = epochs_of(run)
    seen = list(_at_commits(signed, commits.values())) if signed else []
    for read in view.whole_reads:
        if read.snapshot:
            state = State(
                value=whole_value(read), event=read.event, called=read.called, returned=read.returned
            )
            seen.append(_Seen(state, numbers.get(read.epoch), read.called))
    if not seen:
        return None
    seen, back = _in_order(seen)
    start = frozenset((key, states[0][1]) for key, states in signed.items() if states[0][1] is not None)
    states = [item.state for item in seen]
    epochs = [item.epoch for item in seen]
    if signed:
        states.insert(0, State(value=start, event=0, called=-ENDLESS, returned=-ENDLESS))
        epochs.insert(0, (-1, -1))
    if back is not None:
        _mark_certain(states, *back)
    sampled = not (signed and commits)  # then every commit tells what was shown from it on
    subject = Subject(
        view=view.name,
        granularity="snapshots",
        key=None,
        states=states,
        ordered=back is None,
        shown=True,
        sampled=sampled,
        final_uncertain=sampled and (run.rest is None or states[-1].called < run.rest),
    )
    return subject, epochs


def epochs_of(run: Run) -> Mapping[int | None, Epoch]:
    """Return the committed epochs by their number, which grows over incarnations."""
    return {commit.epoch[1]: commit.epoch for commit in run.commits}


def whole_value(read: Read) -> Hashable:
    """Return what a read of the whole view saw, frozen."""
    return frozenset((key, frozen_row(row)) for key, row in read.rows.items())


def signed_states(attempts: Iterable[Attempt], states: Sequence[State]) -> list[tuple[Epoch, Hashable]]:
    """Pair the states of a view record with the epochs of the writes that left them."""
    return [
        ((-1, -1), states[0].value),
        *((a.new[:2], s.value) for a, s in zip(attempts, states[1:], strict=True)),
    ]


def shown_at(states: Sequence[tuple[Epoch, Hashable]], epoch: Epoch) -> Hashable:
    """Return what a view record is in the snapshot of an epoch: the last state not newer than it."""
    value = states[0][1]
    for own, later in states[1:]:
        value = later if own <= epoch else value
    return value


def _first_of_each(commits: Iterable[Commit]) -> dict[Epoch, Commit]:
    """Return the commits in the order of their epochs; one that two processes told of is taken once."""
    found: dict[Epoch, Commit] = {}
    for commit in commits:
        found.setdefault(commit.epoch, commit)
    return dict(sorted(found.items()))


def _at_commits(signed: Signed, commits: Iterable[Commit]) -> Iterable[_Seen]:
    shown = {key: states[0][1] for key, states in signed.items() if states[0][1] is not None}
    later = sorted(
        (
            (epoch, at, key, value)
            for key, states in signed.items()
            for at, (epoch, value) in enumerate(states[1:])
        ),
        key=lambda move: move[:2],
    )
    place = 0
    for commit in commits:
        while place < len(later) and later[place][0] <= commit.epoch:
            _, _, key, value = later[place]
            shown[key] = value
            place += 1
        rows = frozenset((key, value) for key, value in shown.items() if value is not None)
        state = State(value=rows, event=commit.event, called=commit.time, returned=commit.time)
        yield _Seen(state, commit.epoch, -ENDLESS)


def _in_order(seen: list[_Seen]) -> tuple[list[_Seen], tuple[State, State] | None]:
    """Order by epoch where time allows it; else by time, with the two states that show that it does not."""
    if all(item.epoch is not None for item in seen):
        ordered = sorted(seen, key=lambda i: (i.epoch or (-1, -1), i.visible_from, i.state.event))
        latest = ordered[0]
        for item in ordered:
            if item.state.returned < latest.visible_from:
                return _by_time(seen), (item.state, latest.state)
            latest = item if item.visible_from > latest.visible_from else latest
        return ordered, None
    ordered = _by_time(seen)
    for one, other in pairwise(ordered):
        if one.state.returned >= other.state.called:
            return ordered, (one.state, one.state)
    return ordered, None


def _by_time(seen: list[_Seen]) -> list[_Seen]:
    return sorted(seen, key=lambda item: (item.state.returned, item.state.event))


def _mark_certain(states: list[State], early: State, late: State) -> None:
    """Mark as quiet a run of states, the two given among them, of which each had ended when the next began."""
    before: list[State] = []
    for state in states:
        if state.returned < early.called and (not before or before[-1].returned < state.called):
            before.append(state)
    kept = [*before, early] if early is late else [*before, early, late]
    for state in states:
        if kept[-1].returned < state.called:
            kept.append(state)
    certain = set(map(id, kept))
    for state in states:
        state.quiet = id(state) in certain


@dataclass(slots=True)
class _Walk:
    """The cut of each epoch, and what is not true of the lines that made it."""

    index: Index
    held: Versions = field(default_factory=dict)
    cuts: dict[Epoch, Versions] = field(default_factory=dict)
    false_lines: list[FalseLine] = field(default_factory=list)

    def take(self, commit: Commit) -> None:
        """Absorb one epoch (C2, C3: each version exists and goes on from the one before)."""
        for line in commit.absorbed:
            record = (line.table, key_identity(line.key))
            timeline = self.index.run.timelines.get(record)
            held = self.held.get(record, timeline.first if timeline else 0)
            why = ""
            if timeline is None or timeline.at(line.to_version) is None:
                why = "" if timeline is not None and timeline.missing else "no writer made this version"
            elif line.to_version <= line.from_version:
                why = "does not go forward"
            elif line.from_version != held:
                why = f"goes on from version {line.from_version}, but holds {held}"
            if why:
                key = (commit.pipeline, *commit.epoch)
                self.false_lines.append(FalseLine(event=commit.event, key=key, line=line, why=why))
            self.held[record] = line.to_version
        self.cuts[commit.epoch] = dict(self.held)


def lineage_of(subject: Subject, epochs: Sequence[Epoch | None], index: Index) -> Lineage:
    """Return the cuts that the epochs of these states name."""
    commits = _first_of_each(index.run.commits)
    if len({commit.pipeline for commit in commits.values()}) > 1 or not any(
        commit.absorbed for commit in commits.values()
    ):
        return _without(subject)
    walk = _Walk(index)
    walk.cuts[-1, -1] = {}
    for commit in commits.values():
        walk.take(commit)
    lineage = Lineage(certified=all(epoch in walk.cuts for epoch in epochs), false_lines=walk.false_lines)
    certain: Epoch = (-1, -1)
    for position, (state, epoch) in enumerate(zip(subject.states, epochs, strict=True)):
        known = epoch is not None and epoch in walk.cuts
        lineage.cuts.append(walk.cuts[epoch] if epoch is not None and known else {})
        lineage.explained.append(known)
        if not known or epoch is None or not (subject.ordered or state.quiet):
            continue
        if epoch < certain and lineage.first_back is None:
            lineage.rising, lineage.first_back = False, position
        certain = max(certain, epoch)
    return lineage


def _without(subject: Subject) -> Lineage:
    count = len(subject.states)
    return Lineage(certified=False, cuts=[{} for _ in range(count)], explained=[False] * count)
