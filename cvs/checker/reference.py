"""Which base time-line a level refers to (PROTOCOL H12): the writers' own log, or the order absorbed.

Merging several replicas' logs may take versions in another order than they were written. Then the promise is
strong of the *absorbed* time-line and convergence to the base; a verdict always names the reference it used.
"""

from dataclasses import replace

from cvs.checker.replay import BaseRecord, Run, Timeline, Version
from cvs.history.events import Absorbed
from cvs.model.identity import key_identity

REFERENCES = ("writers", "absorbed")


def absorbed_order(run: Run) -> Run:
    """Rewrite the time-lines into the order in which the versions were first received."""
    places: dict[BaseRecord, dict[int, int]] = {}
    for record, number in run.received:
        timeline = run.timelines.get(record)
        if timeline is None or timeline.at(number) is None:
            continue
        taken = places.setdefault(record, {timeline.first: timeline.first})
        taken.setdefault(number, timeline.first + len(taken))
    timelines: dict[BaseRecord, Timeline] = {}
    for record, timeline in run.timelines.items():
        taken = places.get(record, {timeline.first: timeline.first})
        versions: list[Version] = [timeline.versions[number - timeline.first] for number in taken]
        timelines[record] = replace(timeline, versions=versions)
    run.timelines = timelines
    run.order = []
    seen: set[tuple[BaseRecord, int]] = set()
    for record, number in run.received:
        place = places.get(record, {}).get(number)
        if place is not None and (record, place) not in seen and place != timelines[record].first:
            seen.add((record, place))
            run.order.append((record, place))
    for view in run.views.values():
        for view_record in view.records.values():
            for attempt in view_record.attempts:
                attempt.absorbed = tuple(_translated(line, places) for line in attempt.absorbed)
    for commit in run.commits:
        commit.absorbed = tuple(_translated(line, places) for line in commit.absorbed)
    return run


def _translated(line: Absorbed, places: dict[BaseRecord, dict[int, int]]) -> Absorbed:
    taken = places.get((line.table, key_identity(line.key)), {})
    low = taken.get(line.from_version, line.from_version)
    return Absorbed(
        table=line.table,
        key=line.key,
        from_version=low,
        to_version=taken.get(line.to_version, line.to_version),
    )
