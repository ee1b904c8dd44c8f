"""The page of another system's history: who called what on which register, and where each operation took effect.

The points come from the order that the search found: each takes effect after the one before it and not before it was
called, which is inside its interval because the order is legal.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from cvs.checker.foreign import Foreign
from cvs.checker.replay import ENDLESS
from cvs.checker.search import APPEND, DIFFERS, READ, SWAP, Operation, Searched
from cvs.checker.verdict import Verdict
from cvs.model.values import many
from cvs.report.page import nearest, omitted, span
from cvs.report.skeleton import page

Document = dict[str, Any]
REGISTERS_MOST = 40
"""Registers named one by one in the head of the page, worst first."""

_WORDS = {Verdict.HOLDS: "linearizable", Verdict.VIOLATED: "not linearizable", Verdict.UNDECIDED: "undecided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers:
    """Operations of another system by register, and what the search found of each."""

    foreign: Foreign
    found: dict[Hashable, Searched]


def registers_page(judged: Registers, document: Document, *, name: str) -> str:
    """Return the page."""
    data = registers_data(judged, document, name=name)
    return page(f"{data['title']} · cvs", data, body="run.html", style="run.css", script="run.js")


def registers_data(judged: Registers, document: Document, *, name: str) -> Document:
    """Return what the page draws, and what it leaves out."""
    registers = judged.foreign.registers
    last = max((o.called for each in registers.values() for o in each), default=1)
    last = max(
        (o.returned for each in registers.values() for o in each if o.returned < ENDLESS), default=last
    )
    everything = [
        drawn for key, each in registers.items() for drawn in _drawn(key, each, judged.found[key], last)
    ]
    everything.sort(key=lambda entry: entry["e"])
    violations = [
        {"event": found.event or 0, "sentence": _sentence(key, found), "group": _register(key)}
        for key, found in judged.found.items()
        if found.verdict is Verdict.VIOLATED
    ]
    wrong = [found.event for found in judged.found.values() if found.event]
    events = everything[nearest([entry["e"] for entry in everything], wrong)]
    bad = {
        ("view", _register(key)) for key, found in judged.found.items() if found.verdict is Verdict.VIOLATED
    }
    rank = {"view": 0, "process": 1}
    used = {e[end] for e in events for end in ("l", "v")}
    lanes = sorted(used, key=lambda lane: (rank[lane[0]], lane not in bad, _numbered(lane[1])))
    place = {lane: number for number, lane in enumerate(lanes)}
    for entry in events:
        entry["l"], entry["v"] = place[entry["l"]], place[entry["v"]]
    return {
        "title": f"history {name}",
        "about": f"{many(document['operations'], 'operation')} on {many(len(registers), 'register')} · "
        f"{document['lines_passed_over']:,} lines passed over · time: order of the lines · cvs {document['tool']}",
        "unit": "line",
        "granularities": [
            {
                "title": "registers",
                "level": _WORDS[Verdict(document["linearizability"])],
                "properties": [
                    {"name": _register(r["key"]), "verdict": r["verdict"]}
                    for r in document["registers"][:REGISTERS_MOST]
                ],
            }
        ],
        "from": 0,
        "until": last + 1,
        "lanes": [
            {"name": lane[1], "kind": lane[0], "group": f"{lane[0]} {lane[1]}", "violated": lane in bad}
            for lane in lanes
        ],
        "events": events,
        "strips": [],
        "violations": violations,
        "beside": [],
        "undecided": [
            f"register {r['key']!r}: {r['reason']}"
            for r in document["registers"]
            if r["verdict"] == "undecided"
        ],
        "drawn": span(events) if len(events) < len(everything) else None,
        "omitted": omitted(len(everything), len(events)),
    }


def _register(key: Hashable) -> str:
    return "the register" if key is None else f"register {key}"


def _numbered(name: str) -> tuple[int, str]:
    """Sort process 10 after process 9."""
    return len(name), name


def _sentence(key: Hashable, found: Searched) -> str:
    return (
        f"{_register(key)}: whatever order the operations before it took effect in, the one called on line "
        f"{found.event} could not before it returned"
    )


def _drawn(key: Hashable, operations: list[Operation], found: Searched, last: int) -> list[Document]:
    """List the operations on one register, with the points at which they took effect."""
    by_event = {operation.event: operation for operation in operations}
    points, at = dict[int, tuple[int, int]](), 0
    for number, event in enumerate(found.order, 1):
        at = max(at, by_event[event].called)
        points[event] = (number, at)
    entries = []
    for operation in operations:
        kind, text = _told(operation)
        opened = operation.returned >= ENDLESS
        detail = [("register", _register(key)), ("process", str(operation.process)), ("operation", text)]
        entry: Document = {
            "e": operation.event, "k": kind, "t0": operation.called, "t1": last if opened else operation.returned,
            "open": opened, "s": text, "l": ("process", f"process {operation.process}"), "v": ("view", _register(key)),
            "d": detail,
        }  # fmt: skip
        if operation.event in points:
            number, entry["p"] = points[operation.event]
            detail.append(
                ("takes effect", f"{number:,}. on this register, at line {entry['p']:,} or just after")
            )
        elif found.verdict is Verdict.HOLDS:
            detail.append(("takes effect", "never, or after everything else"))
        entries.append(entry)
    return entries


def _told(operation: Operation) -> tuple[str, str]:
    a, b = operation.a, operation.b
    if operation.kind == READ:
        return ("unknown" if operation.returned >= ENDLESS else "read"), f"read {a}"
    if operation.kind == DIFFERS:
        return "rejected", f"refused: not {a}"
    kind = "unknown" if operation.returned >= ENDLESS else "applied"
    if operation.kind == SWAP:
        return kind, f"{a} → {b}"
    return kind, f"append {a}" if operation.kind == APPEND else f"write {a}"
