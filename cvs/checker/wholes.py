"""What follows for a whole view all of whose records are proved strong, and for its snapshots.

Where no base record ever touches two view records, their chains together are one. Where one moves between two, plain
readers may see it in both or in neither; snapshots must not, and do not if every view record held at each commit what
the commit's certificate says.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from cvs.checker.changes import Lines, Stale, certain, visible
from cvs.checker.columns import Chains
from cvs.checker.contributions import Base, Told
from cvs.checker.verdict import Witness
from cvs.history.columns import Columns
from cvs.history.operations import Operations
from cvs.history.packing import NONE, Integers, epoch_of, ordered

Window = tuple[int, int]
"""The event of the write that ended it, and its length."""


@dataclass(slots=True, kw_only=True)
class WholeView:
    """What is known of a whole view."""

    complete: bool | None = False  # all its records are, or one is not; None: not known
    in_recorded_order: bool = False
    torn: list[Window] = field(default_factory=list)  # one base record in two view records
    lacking: list[Window] = field(default_factory=list)  # ... in none, as it is in another version
    unsure: bool = False  # whether it was torn is not known
    evidence: Witness | None = None  # of a window, where more is known than what certificates say

    @property
    def apart(self) -> list[Window]:
        """Return the windows in which no base state explains it that is not older than one before."""
        return [*self.torn, *self.lacking]


def whole_view(
    lines: Lines, told: Told, base: Base, links: Chains, writes: Operations, *, complete: bool
) -> WholeView:
    """Find the base updates that two view records absorbed at two moments."""
    mine = np.flatnonzero(lines.before != lines.after)
    write, high = links.order[lines.write[mine]], lines.at[mine]
    moment = writes.returned[write]
    commits = base.commit[high[ordered(moment)]]
    whole = WholeView(complete=complete, in_recorded_order=bool((commits[1:] >= commits[:-1]).all()))
    whole.unsure = not complete and _shared(told, base)
    sort = ordered(high)
    if (high[sort][1:] == high[sort][:-1]).any():
        sort = np.lexsort((moment, high))
    back = _out_of_order(lines.base[mine[sort]], moment[sort]) if complete else set[int]()
    by_base = mine[ordered(lines.base[mine])]
    for number in sorted(back):
        own = slice(*np.searchsorted(lines.base[by_base], (number, number + 1)))
        _walk(
            whole,
            number,
            by_base[own],
            lines,
            told,
            base=base,
            links=links,
            writes=writes,
        )
    absent = np.concatenate(
        ([0], np.cumsum(told.record < 0))
    )  # versions that touch nothing, before each place
    start, end = base.start[lines.base[mine]], base.start[lines.base[mine] + 1]
    for place in np.flatnonzero(high[sort][1:] == high[sort][:-1]).tolist():
        first, second = sort[place], sort[place + 1]
        if int(lines.base[mine[first]]) in back:
            continue
        if writes.called[write[second]] <= moment[first]:
            whole.unsure = True  # both at once
            continue
        window = int(writes.number[write[second]]), int(moment[second] - moment[first])
        if lines.after[mine[first]] or absent[end[first]] == absent[start[first]]:
            whole.torn.append(window)
        elif complete or absent[high[first] + 1] == absent[start[first] + 1]:
            whole.lacking.append(window)
        else:
            whole.unsure = True  # a version that touches nothing may explain it
    return whole


def _out_of_order(owner: Integers, moment: Integers) -> set[int]:
    """Return the base records of which a later version was absorbed before an earlier one: by two view records."""
    return set(owner[1:][(owner[1:] == owner[:-1]) & (moment[1:] < moment[:-1])].tolist())


def _walk(
    whole: WholeView,
    number: int,
    own: Integers,
    lines: Lines,
    told: Told,
    *,
    base: Base,
    links: Chains,
    writes: Operations,
) -> None:
    """Go through what view records held of one base record, in the order of time: it was one version, and rose."""
    versions = range(int(base.start[number]), int(base.start[number + 1]))
    known: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for version in versions:
        image = (
            ((int(told.record[version]), int(told.content[version])),) if told.record[version] >= 0 else ()
        )
        known.setdefault(image, []).append(version)
    held = {int(told.record[versions[0]]): int(told.content[versions[0]])}
    reached, since, record, before = versions[0], NONE, NONE, NONE
    own = own[np.argsort(writes.returned[links.order[lines.write[own]]], kind="stable")]
    for line in own.tolist():
        write = links.order[lines.write[line]]
        called, moment = int(writes.called[write]), int(writes.returned[write])
        if called <= before and lines.record[line] != record:
            whole.unsure = True  # both at once
            return
        record, before = int(lines.record[line]), moment
        held[record] = int(lines.after[line])
        fits = known.get(tuple((key, content) for key, content in held.items() if content))
        if fits is None:
            since = moment if since == NONE else since
            continue
        if since != NONE:
            whole.torn.append((int(writes.number[write]), moment - since))
        elif fits[-1] < reached:
            whole.lacking.append((int(writes.number[write]), 0))
        since, reached = NONE, max(reached, fits[min(bisect_left(fits, reached), len(fits) - 1)])


def _shared(told: Told, base: Base) -> bool:
    """Say whether a base record ever touches one view record, and then another."""
    low = np.where(told.record < 0, len(told.record), told.record)[:-1]
    first = np.minimum.reduceat(low, base.start[:-1])
    last = np.maximum.reduceat(told.record[:-1], base.start[:-1])
    return bool((first < last).any())


@dataclass(slots=True, kw_only=True)
class Snapshots:
    """Of snapshots that are proved strong: how stale they were, and whether they are complete."""

    stale: Stale
    refuted: Witness | None = None  # they are not complete: its event is where that shows
    complete: bool = False
    in_recorded_order: bool = False


@dataclass(slots=True, kw_only=True)
class _Commits:
    """Commits in the order of their epochs, and their lines in that order."""

    epoch: Integers
    time: Integers
    number: Integers
    rank: Integers  # of each line
    base: Integers
    low: Integers  # places of the versions
    high: Integers


def snapshots_of(
    run: Columns, lines: Lines, told: Told, *, base: Base, links: Chains, writes: Operations
) -> Snapshots | None:
    """Prove what snapshots showed at every commit; None where that is left to the exact judge."""
    commits = _commits(run, base)
    if commits is None or (np.diff(commits.time) < 0).any():
        return None
    if (base.called[commits.high] > commits.time[commits.rank]).any():
        return None
    reached = base.start[:-1].copy()
    reached[commits.base] = commits.high  # the last one stands
    last = base.start[1:] - 1
    if (told.record[reached] != told.record[last]).any() or (
        told.content[reached] != told.content[last]
    ).any():
        return None
    if not np.array_equal(_held(lines, links, writes, commits), _claimed(commits, told)):
        return None
    record, place = visible(told, base)
    moves = np.unique(place[certain(told, record, place)])
    found = Snapshots(stale=_stale(commits, np.unique(place), base))
    taken = np.unique(commits.rank)
    if len(taken) < len(moves):
        several = taken[np.bincount(commits.rank)[taken] > 1]
        event = int(commits.number[several[0] if len(several) else 0])
        found.refuted = counted(len(taken), len(moves), event)
    return found


def counted(shown: int, changes: int, event: int | None) -> Witness:
    """Return what tells that fewer states were shown than any order of the base updates has."""
    events = () if event is None else (event,)
    return Witness(kind="count", events=events, facts={"shown": shown, "changes": changes})


def _commits(run: Columns, base: Base) -> _Commits | None:
    """Check the certificates of one pipeline's commits: lines go on from one another, versions exist."""
    told, taken = run.commits, run.taken
    order = np.argsort(told["epoch"], kind="stable")
    epoch = told["epoch"][order]
    if (
        not len(taken["commit"])
        or (told["pipeline"] != told["pipeline"][0]).any()
        or (np.diff(epoch) < 1).any()
    ):
        return None
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    by_rank = ordered(rank[taken["commit"]])
    number = taken["base"][by_rank]
    low, high = (taken[name][by_rank] - base.first[number] for name in ("low", "high"))
    if (low < 0).any() or (high <= low).any() or (high >= np.diff(base.start)[number]).any():
        return None
    by_base = ordered(number)
    own, went, from_ = number[by_base], high[by_base], low[by_base]
    reached = np.zeros(len(own), np.int64)
    reached[1:] = np.where(own[1:] == own[:-1], went[:-1], 0)
    if (from_ != reached).any():
        return None
    start = base.start[:-1][number]
    return _Commits(
        epoch=epoch,
        time=told["time"][order],
        number=told["number"][order],
        rank=rank[taken["commit"]][by_rank],
        base=number,
        low=start + low,
        high=start + high,
    )


def _held(lines: Lines, links: Chains, writes: Operations, commits: _Commits) -> Integers:
    """Return what view records came to hold of base records, by the first commit that shows it."""
    mine = np.flatnonzero(lines.before != lines.after)
    epoch = epoch_of(writes.own["new"][links.order[lines.write[mine]]])
    rank = np.searchsorted(commits.epoch, epoch)
    mine, rank = mine[rank < len(commits.epoch)], rank[rank < len(commits.epoch)]
    return _steps(lines.record[mine], lines.base[mine], rank, lines.after[mine])


def _claimed(commits: _Commits, told: Told) -> Integers:
    """Return what the certificates of the commits say that they hold."""
    before, after = told.record[commits.low], told.record[commits.high]
    moved = before != after
    enters = (after >= 0) & (moved | (told.content[commits.low] != told.content[commits.high]))
    leaves = (before >= 0) & moved
    both = np.concatenate((np.flatnonzero(enters), np.flatnonzero(leaves)))
    record = np.concatenate((after[enters], before[leaves]))
    content = np.concatenate(
        (told.content[commits.high][enters], np.zeros(np.count_nonzero(leaves), np.int64))
    )
    return _steps(record, commits.base[both], commits.rank[both], content)


def _steps(*columns: Integers) -> Integers:
    """Put steps into one order; two that stand at one commit stay two, and equal no one step."""
    found = np.stack(columns)
    return found[:, np.lexsort(found)]


def _stale(commits: _Commits, place: Integers, base: Base) -> Stale:
    """Measure what had returned before a commit and was not in it."""
    number = np.searchsorted(base.start, place, side="right") - 1
    order = np.lexsort((commits.rank, commits.base))
    at = np.searchsorted(commits.high[order], place)  # bases follow one another in places as well
    inside = at < len(order)
    inside[inside] = commits.base[order][at[inside]] == number[inside]
    until = np.where(
        inside, np.append(commits.rank[order], NONE)[np.minimum(at, len(order))], len(commits.time)
    )
    latest = np.maximum.accumulate(commits.time)
    since = np.searchsorted(latest, base.returned[place], side="right")
    return Stale().worse(since, until, latest, base.returned[place])
