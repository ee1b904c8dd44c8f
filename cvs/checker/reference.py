"""Which base time-line a level refers to (PROTOCOL H12): the writers' own log, write-time order, or the order
absorbed.

Merging several replicas' logs may take versions in another order than they were written. Then the promise is
strong of the *absorbed* time-line, or of the order of *write times* by which Cassandra itself reconciles, and
convergence to the base; a verdict always names the reference it used.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from cvs.checker.replay import BaseRecord, Run, Timeline
from cvs.errors import AssumptionError
from cvs.history.events import Absorbed
from cvs.model.identity import key_identity

Update = tuple[BaseRecord, int]
Places = Mapping[BaseRecord, Mapping[int, int]]


def absorbed_order(run: Run) -> Run:
    """Rewrite the time-lines into the order in which the versions were first received."""
    known = (u for u in run.received if _version_of(run, u) and u[1] != run.timelines[u[0]].first)
    return _rewritten(run, list(dict.fromkeys(known)))


def write_time_order(run: Run) -> Run:
    """Rewrite the time-lines into the order of write times, across records too.

    What may not have happened stands last, where it is known to be uncertain. Two updates of one record with one
    write time are ordered by their bytes, which a history does not have: such a time-line is not known. Nor is one
    that the pipeline itself says it showed out of this order.
    """
    updates: list[tuple[bool, int, Update]] = []
    for record, timeline in run.timelines.items():
        for number in range(timeline.first + 1, timeline.last + 1):
            version = timeline.versions[number - timeline.first]
            if version.write_time is None:
                raise AssumptionError(
                    f"version {number} of {record[0]} {list(record[1])} has no write time",
                    next_step="record `write_time` with every base update, or ask for another reference",
                )
            updates.append((not version.certain, version.write_time, (record, number)))
    updates.sort(key=lambda update: update[:2])
    met: set[tuple[BaseRecord, int]] = set()
    for _, moment, (record, _) in updates:
        run.timelines[record].missing = run.timelines[record].missing or (record, moment) in met
        met.add((record, moment))
    for record in run.void & run.timelines.keys():
        run.timelines[record].missing = True
    return _rewritten(run, [update for _, _, update in updates])


REFERENCES: dict[str, Callable[[Run], Run]] = {
    "writers": lambda run: run,
    "write-time": write_time_order,
    "absorbed": absorbed_order,
}


def _version_of(run: Run, update: Update) -> object:
    timeline = run.timelines.get(update[0])
    return timeline and timeline.at(update[1])


def _rewritten(run: Run, order: Iterable[Update]) -> Run:
    """Put the versions of every record into this order; certificates name the new places."""
    places: dict[BaseRecord, dict[int, int]] = {r: {t.first: t.first} for r, t in run.timelines.items()}
    run.order = []
    for record, number in order:
        place = places[record][number] = run.timelines[record].first + len(places[record])
        run.order.append((record, place))
    timelines: dict[BaseRecord, Timeline] = {}
    for record, timeline in run.timelines.items():
        versions = [timeline.versions[number - timeline.first] for number in places[record]]
        timelines[record] = replace(timeline, versions=versions)
    run.timelines = timelines
    for attempt in (a for view in run.views.values() for r in view.records.values() for a in r.attempts):
        attempt.absorbed = tuple(_translated(line, places) for line in attempt.absorbed)
    for commit in run.commits:
        commit.absorbed = tuple(_translated(line, places) for line in commit.absorbed)
    return run


def _translated(line: Absorbed, places: Places) -> Absorbed:
    taken = places.get((line.table, key_identity(line.key)), {})
    return Absorbed(
        table=line.table,
        key=line.key,
        from_version=taken.get(line.from_version, line.from_version),
        to_version=taken.get(line.to_version, line.to_version),
    )
