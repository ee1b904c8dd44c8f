"""One page a run: base time-lines, managers, view records, outcomes, levels over time; data first, then
HTML.
"""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import msgspec

from cvs.checker.classify import Judgement
from cvs.checker.judge import Judged
from cvs.checker.replay import ENDLESS, Attempt, BaseRecord, Read, Run, Scalars, Timeline
from cvs.checker.verdict import Cut, Verdict
from cvs.model.values import many
from cvs.report.explain import explain, shown_key, shown_scalar, shown_value
from cvs.report.skeleton import page
from cvs.report.summary import ORDER
from cvs.report.text import OTHERWISE, RECORDED_ORDER, TITLES, told_otherwise

DRAWN = 10_000
STATES = DRAWN // 2  # of a whole view, whose levels over time are drawn
Document = dict[str, Any]


def run_page(judgement: Judgement, document: Document, *, query: str = "") -> str:
    """Return the page of a judged run."""
    data = page_data(judgement, document)
    data["query"] = query
    return page(f"{data['title']} · cvs", data, body="run.html", style="run.css", script="run.js")


def page_data(judgement: Judgement, document: Document) -> Document:
    """Return what the page draws, and what it leaves out."""
    run = judgement.run
    violations, beside, undecided = _news(judgement)
    drawing = _Drawing(run, {v["lane"] for v in violations})
    everything = drawing.everything()
    window = nearest([number for number, *_ in everything], [v["event"] for v in violations if v["event"]])
    events = [entry(*told) for _, entry, *told in everything[window]]
    lanes = drawing.used(events)
    return {
        "title": f"run {document['run']}",
        "about": (
            f"{many(document['processes'], 'process', 'processes')} · {many(len(document['views']), 'view')} · "
            f"{many(document['events'], 'event')} · "
            f"{_duration(document['seconds'])} · base time-line: {document['reference']} · cvs {document['tool']}"
        ),
        "granularities": [
            {
                "title": TITLES[g["granularity"]],
                "level": g["level"]["proved"]
                if g["level"]["proved"] == g["level"]["not_refuted"]
                else f"{g['level']['proved']} … {g['level']['not_refuted']}",
                "properties": [
                    {"name": p["property"], "verdict": OTHERWISE if told_otherwise(p) else p["verdict"]}
                    for p in g["properties"]
                    if p["property"] != "staleness"
                ],
            }
            for g in document["granularities"]
        ],
        "from": run.first_time,
        "until": max(run.last_time, run.first_time + 1),
        "lanes": lanes,
        "events": events,
        "strips": [_strip(j, run) for j in judgement.judged if j.subject.granularity != "record"],
        "violations": violations,
        "beside": beside,
        "undecided": undecided,
        "drawn": span(events) if len(events) < len(everything) else None,
        "omitted": omitted(len(everything), len(events)),
    }


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return (
                f"{seconds / size:,.3g} {unit}" if seconds < 1_000 * size else f"{seconds / size:,.0f} {unit}"
            )
    return f"{seconds * 1e9:,.0f} ns"


def span(events: list[Document]) -> tuple[int, int]:
    """Return the time between the first and the last operation that is drawn."""
    return min(e["t0"] for e in events), max(e["t0"] if e["open"] else e["t1"] for e in events)


def omitted(total: int, drawn: int) -> str:
    """Say what is left out."""
    if total == drawn:
        return f"All {total:,} operations of the run are drawn."
    return (
        f"{drawn:,} of {total:,} operations are drawn: those nearest to the first violation (or the first ones). "
        f"The verdict is about all {total:,}."
    )


def _news(judgement: Judgement) -> tuple[list[Document], list[str], list[str]]:
    places = {(j.subject.view, j.subject.granularity, j.subject.key): j for j in judgement.judged}
    violations, beside, undecided = [], [], []
    for finding in judgement.findings:
        judged = places.get((finding.view, finding.granularity, finding.key))
        if finding.reason.startswith("needs "):
            continue
        if finding.verdict is Verdict.VIOLATED and finding.property == RECORDED_ORDER:
            beside.append(explain(finding, judged))
        elif finding.verdict is Verdict.VIOLATED:
            lane = ("view", finding.view, finding.key)
            sentence = explain(finding, judged)
            group = f"{finding.view} {finding.granularity} {finding.property}"
            rank = ORDER.index(finding.property)
            found = {"event": finding.event, "sentence": sentence, "lane": lane, "group": group, "rank": rank}
            violations.append(found)
        elif finding.verdict is Verdict.UNDECIDED and finding.property != "staleness":
            undecided.append(explain(finding, judged))
    violations.sort(key=lambda v: (v["rank"], v["event"] is None, v["event"] or 0))
    return violations, beside, undecided


class _Drawing:
    """Gives every base record, process and view record a lane, and every operation its place."""

    def __init__(self, run: Run, violated: set[Any]) -> None:
        self.run = run
        self.violated = violated
        self.lanes: dict[Any, Document] = {}

    def lane(self, kind: str, *name: Any) -> Any:
        """Return the name of a lane, making it if it is new."""
        key = (kind, *name)
        if key not in self.lanes:
            words = {"base": "{} {}", "process": "{}", "view": "{} {}"}[kind]
            shown = [shown_key(part) if isinstance(part, tuple) else str(part) for part in name]
            self.lanes[key] = {
                "name": words.format(*shown),
                "kind": kind,
                "group": f"{kind} {'' if kind == 'process' else shown[0]}",
                "violated": key in self.violated,
            }
        return key

    def everything(self) -> list[Any]:
        """List every operation of the run in the order of its events: its number, and how it is drawn."""
        found: list[Any] = []
        for record, timeline in self.run.timelines.items():
            places = range(1, len(timeline.versions))
            found += [(timeline.versions[n].event, self._version, record, timeline, n) for n in places]
        for view in self.run.views.values():
            for view_record in view.records.values():
                found += [(a.event, self._attempt, a) for a in view_record.attempts]
            reads = [*view.whole_reads, *(r for v in view.records.values() for r in v.reads)]
            found += [(read.event, self._read, view.name, read) for read in reads]
        return sorted(found, key=itemgetter(0))

    def _version(self, record: BaseRecord, timeline: Timeline, place: int) -> Document:
        before, version = timeline.versions[place - 1 : place + 1]
        number = str(timeline.first + place)
        detail = [("version", number), ("before", _row(before.row)), ("after", _row(version.row))]
        entry = self._entry(version.event, "base", version.called, version.returned, detail)
        return {**entry, "l": self.lane("base", *record), "s": _row(version.row)}

    def _read(self, view: str, read: Read) -> Document:
        rows = frozenset((k, shown_value(_frozen(r))) for k, r in read.rows.items())
        detail = [("view", view), ("rows", shown_value(rows)), ("signature", _signature(read.signature))]
        entry = self._entry(read.event, "read", read.called, read.returned, detail)
        entry["l"] = self.lane("process", read.process)
        if read.key is not None:
            entry["v"] = self.lane("view", view, read.key)
        return entry

    def _attempt(self, attempt: Attempt) -> Document:
        detail = [
            ("view record", f"{attempt.view} {shown_key(attempt.key)}"),
            ("process", attempt.process),
            ("expected", _signature(attempt.expected)),
            ("new", _signature(attempt.new)),
            ("after", _row(attempt.row)),
        ]
        if attempt.seen is not None:
            detail.append(("returned", _signature(attempt.seen)))
        detail += [
            ("absorbed", f"{a.table} {shown_key(a.key)}: version {a.from_version} → {a.to_version}")
            for a in attempt.absorbed
        ]
        entry = self._entry(attempt.event, attempt.outcome.value, attempt.called, attempt.returned, detail)
        entry["l"] = self.lane("process", attempt.process)
        entry["v"] = self.lane("view", attempt.view, attempt.key)
        entry["s"] = _row(attempt.row)
        return entry

    def _entry(
        self, event: int, kind: str, called: int, returned: int, detail: list[tuple[str, str]]
    ) -> Document:
        opened = returned >= ENDLESS
        end = self.run.last_time if opened else min(returned, self.run.last_time)
        start = max(called, self.run.first_time)
        return {"e": event, "k": kind, "t0": start, "t1": max(start, end), "open": opened, "d": detail}

    def used(self, events: list[Document]) -> list[Document]:
        """Keep the lanes something is drawn on: base records on top, then processes, then view records."""
        rank = {"base": 0, "process": 1, "view": 2}
        names = {e["l"] for e in events} | {e["v"] for e in events if "v" in e}
        ordered = sorted(
            names, key=lambda n: (rank[n[0]], not self.lanes[n]["violated"], _counted(self.lanes[n]["name"]))
        )
        place = {name: i for i, name in enumerate(ordered)}
        for event in events:
            event["l"] = place[event["l"]]
            if "v" in event:
                event["v"] = place[event["v"]]
        return [self.lanes[name] for name in ordered]


def _counted(name: str) -> list[Any]:
    """Sort record 10 after record 9."""
    return [(len(part), part) if part[:1].isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def _signature(scalars: Scalars | None) -> str:
    return "no record" if scalars is None else msgspec.json.encode(scalars).decode()


def _frozen(row: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((name, repr(value)) for name, value in row.items())


def _row(row: dict[str, Any] | None) -> str:
    if row is None:
        return "no record"
    text = ", ".join(f"{name}={shown_scalar(value)}" for name, value in row.items())
    return text if len(text) <= 200 else f"{text[:199]}…"


def nearest(numbers: Sequence[int], violations: list[int]) -> slice:
    """Say which of some events, in their order, are drawn: those nearest to the first violation."""
    centre = min(violations, default=numbers[0] if numbers else 0)
    places = sorted(range(len(numbers)), key=lambda place: abs(numbers[place] - centre))[:DRAWN]
    return slice(min(places, default=0), max(places, default=-1) + 1)


def _cuts(judged: Judged) -> Sequence[Cut]:
    """Return the base state of each state: what was proved, or what certificates claim; none if nothing tells."""
    for name in ("strong", "weak"):
        found = judged.finding(name)
        if found.verdict is Verdict.HOLDS and found.witness is not None and found.witness.cuts:
            return found.witness.cuts
    if judged.lineage.certified:
        return judged.lattice.compressed(judged.lineage.cuts[:STATES])
    return ()


def _strip(judged: Judged, run: Run) -> Document:
    """Return the level of a whole view over time: whether each state is a base state, and how far behind."""
    torn = {p for first, last, _ in judged.torn for p in range(first, last + 1)}
    weak = judged.finding("weak")
    if weak.verdict is Verdict.VIOLATED and weak.witness is not None and weak.witness.kind == "state":
        torn.update(weak.witness.positions)
    cuts = _cuts(judged)
    times = sorted(
        run.timelines[record].versions[first - run.timelines[record].first].returned
        for record, numbers in zip(judged.lattice.records, judged.lattice.numbers, strict=True)
        for first, _ in numbers[1:]
    )
    states, known = [], 0
    for position, state in enumerate(judged.subject.states[:STATES]):
        while known < len(times) and times[known] <= state.returned:
            known += 1
        held = sum(cuts[position]) if cuts else known
        start = max(state.returned, run.first_time) if state.returned < ENDLESS else run.last_time
        ok = False if position in torn else bool(cuts) or None  # none: nobody knows
        states.append({"t": start, "ok": ok, "lag": max(0, known - held), "e": state.event})
    name = judged.subject.granularity
    of = "whole view" if name == "view" else name
    of += "" if cuts else " · not decided"
    return {"title": judged.subject.view, "of": of, "states": states}
