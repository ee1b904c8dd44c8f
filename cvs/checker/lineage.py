"""The lineage tier: what the certificates say the program absorbed, checked and turned into cuts.

Each view record holds, of each base record, the version it last absorbed. If the row it showed is the view of
what it holds, the cut of held versions explains it; if each base record's held contributions can be matched
with ever later versions, those cuts are a chain (checker plan 5.5, *lineage reduction*). Compare
contributions, not intervals: a skipped insert and delete nets to nothing and may be skipped.
A certificate cannot make a bad view pass, since every cut is re-evaluated against the base log.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from cvs.checker.replay import Attempt, BaseRecord, Key
from cvs.checker.subject import Index, Subject
from cvs.checker.verdict import Verdict
from cvs.history.events import Absorbed
from cvs.model.identity import key_identity

Versions = dict[BaseRecord, int]


@dataclass(slots=True, kw_only=True)
class FalseLine:
    """A certificate line that is not true, and why."""

    event: int
    key: Key
    line: Absorbed | None
    why: str


@dataclass(slots=True, kw_only=True)
class Lineage:
    """What the certificates give for one subject: a cut for each state where they give one."""

    certified: bool
    cuts: list[Versions] = field(default_factory=list)
    explained: list[bool] = field(default_factory=list)  # each held contribution is some version's
    rising: bool = True  # ... and the versions only grow
    false_lines: list[FalseLine] = field(default_factory=list)
    first_torn: int | None = None
    first_back: int | None = None

    @classmethod
    def unknown(cls, states: int) -> "Lineage":
        """Return what is known of states whose certificates do not follow one another: nothing."""
        return cls(certified=False, cuts=[{} for _ in range(states)], explained=[False] * states)

    @property
    def verdict(self) -> Verdict:
        """Say whether the certificates are true; without any there is nothing to say."""
        if self.false_lines:
            return Verdict.VIOLATED
        return Verdict.HOLDS if self.certified else Verdict.UNDECIDED


def follow(subject: Subject, attempts: Mapping[int, Attempt], index: Index) -> Lineage:
    """Walk the states in order, absorbing each write's certificate lines."""
    writes = [attempts[s.attempt] for s in subject.states if s.attempt is not None]
    lineage = Lineage(certified=bool(writes) and all(a.absorbed for a in writes))
    walk = _Walk(scope=subject.key)
    for position, state in enumerate(subject.states):
        attempt = attempts.get(state.attempt) if state.attempt is not None else None
        if attempt is not None:
            for line in attempt.absorbed:
                record = (line.table, key_identity(line.key))
                held = walk.held.setdefault(record, {})
                _check_line(attempt, line, held, index, lineage)
                held[attempt.key] = line.to_version
            (walk.present.discard if attempt.row is None else walk.present.add)(attempt.key)
            for record in dict.fromkeys((line.table, key_identity(line.key)) for line in attempt.absorbed):
                _advance(record, walk, attempt, index=index, lineage=lineage, position=position)
        lineage.cuts.append(dict(walk.pointer) if attempt or not lineage.cuts else lineage.cuts[-1])
        lineage.explained.append(not walk.torn)
        if walk.torn and lineage.first_torn is None:
            lineage.first_torn = position
    return lineage


def _check_line(
    attempt: Attempt, line: Absorbed, held: Mapping[Key, int], index: Index, lineage: Lineage
) -> None:
    """C2 and C3: the version exists, nothing is absorbed twice, nothing this record can see was skipped."""
    record = (line.table, key_identity(line.key))
    timeline = index.run.timelines.get(record)
    why = ""
    if timeline is None or timeline.at(line.to_version) is None:
        if timeline is None or not timeline.missing:
            why = "no writer made this version"
    elif line.to_version <= line.from_version:
        why = "does not go forward"
    elif attempt.key in held and line.to_version <= held[attempt.key]:
        why = f"absorbed before: the record holds version {held[attempt.key]}"
    elif not index.meaning.linear:
        why = ""  # which versions of a record such a row can tell apart is not known here: nothing was surely skipped
    elif not _same(record, held.get(attempt.key, timeline.first), line.from_version, attempt.key, index):
        why = f"goes on from version {line.from_version}, but holds {held.get(attempt.key, timeline.first)}"
    if why:
        lineage.false_lines.append(FalseLine(event=attempt.event, key=attempt.key, line=line, why=why))


def _same(record: BaseRecord, one: int, other: int, key: Key, index: Index) -> bool:
    return one == other or _seen_by(record, one, key, index) == _seen_by(record, other, key, index)


def _seen_by(record: BaseRecord, version: int, key: Key, index: Index) -> Hashable:
    timeline = index.run.timelines.get(record)
    known = timeline.at(version) if timeline else None
    if known is None:
        return ("unknown version", version)
    if index.meaning.linear:
        return (index.contribution(record, version) or {}).get(key)
    return index.meaning.image(record, known.row)


def _advance(
    record: BaseRecord, walk: "_Walk", attempt: Attempt, *, index: Index, lineage: Lineage, position: int
) -> None:
    """Match what all view records hold of one base record with its earliest version that fits."""
    timeline = index.run.timelines.get(record)
    if timeline is None:
        walk.torn.add(record)
        return
    start = walk.pointer.get(record, timeline.first)
    fits = _fit(record, walk, attempt, index)
    later = next((v for v in range(start, timeline.last + 1) if fits(v)), None)
    if later is not None:
        walk.pointer[record] = later
        walk.torn.discard(record)
        return
    earlier = next((v for v in range(timeline.first, start) if fits(v)), None)
    if earlier is None:
        walk.torn.add(record)
        return
    walk.torn.discard(record)
    lineage.rising = False
    lineage.first_back = position if lineage.first_back is None else lineage.first_back
    walk.pointer[record] = earlier


def _fit(record: BaseRecord, walk: "_Walk", attempt: Attempt, index: Index) -> Callable[[int], bool]:
    """Return the test whether a version looks, to every view record in scope, like the one it holds.

    Linear: a record that absorbed nothing holds the first version's contribution. Otherwise: view records
    that are not there hold nothing, but the one just written says what it absorbed.
    """
    held, first = walk.held[record], index.run.timelines[record].first
    if not index.meaning.linear:
        keys = [k for k in held if k in walk.present or k == attempt.key]
        wanted = {key: _seen_by(record, held[key], key, index) for key in keys}
        return lambda version: all(_seen_by(record, version, k, index) == w for k, w in wanted.items())
    at_first = index.contribution(record, first) or {}

    def fits(version: int) -> bool:
        told = index.contribution(record, version) or {}
        keys = {walk.scope} if walk.scope is not None else told.keys() | held.keys() | at_first.keys()
        return all(told.get(k) == _seen_by(record, held.get(k, first), k, index) for k in keys)

    return fits


@dataclass(slots=True, kw_only=True)
class _Walk:
    scope: Key | None
    held: dict[BaseRecord, dict[Key, int]] = field(default_factory=dict)
    pointer: Versions = field(default_factory=dict)
    torn: set[BaseRecord] = field(default_factory=set)
    present: set[Key] = field(default_factory=set)
