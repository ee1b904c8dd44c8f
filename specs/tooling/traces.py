"""From a history of a per-entry run (NDJSON, `cvs/history/events.py`) to a module TLC can check.

Events without an action, each with its reason:

    run_started, checkpoint       they are the initial state
    base_update_returned          the spec lets a written version be handed over at once
    view_read_called, _returned   client reads are the judge's (linearizability); the spec checks writers
    epoch_committed               per-epoch runs are the module Epoch's
    claim_void                    only a pipeline says it; the line of write times is the module Delta's
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tooling import tlc
from tooling.tlc import SpecsError

EVENTS_MAX = 20_000
ACTION_OF = {
    "base_update_called": "write",
    "update_received": "receive",
    "test_and_set_called": "call",
    "test_and_set_returned": "return",
    "manager_crashed": "crash",
    "quiescent": "rest",
}
NOT_MODELLED = {
    "run_started",
    "checkpoint",
    "base_update_returned",
    "view_read_called",
    "view_read_returned",
    "epoch_committed",
    "claim_void",
}
CFG = "SPECIFICATION Spec\nCHECK_DEADLOCK FALSE\nINVARIANT NotMatchedInv\n" + "".join(
    f"CONSTANT {name} <- My{name}\n" for name in ("Log", "Bases", "Keys", "RowAt", "Start", "Valued")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where group and count of rows stand, and measure and sum if there are any; without: lineage and signatures."""

    group: str
    count: str
    measure: str | None = None
    total: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """How far a history fits the spec."""

    steps: int
    reached: int
    distinct: int
    refused: str = ""  # the first step that fits no action

    @property
    def accepted(self) -> bool:
        return self.reached == self.steps

    def __str__(self) -> str:
        if self.accepted:
            return f"matched to its last step, {self.steps} steps, {self.distinct} states"
        return f"refused at step {self.reached + 1} of {self.steps}: {self.refused}"


@dataclass(slots=True)
class _Run:
    columns: Columns | None
    rows: dict[str, list[Any]] = field(default_factory=dict)
    start: dict[str, tuple[int, Any]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)


def taken(events: Iterable[dict[str, Any]], columns: Columns | None) -> _Run:
    """Turn events into steps."""
    run = _Run(columns)
    for event in events:
        _take(run, event)
    if not run.steps:
        raise SpecsError("no event of a per-entry run: an empty trace proves nothing")
    if len(run.steps) > EVENTS_MAX:
        raise SpecsError(f"{len(run.steps)} steps; at most {EVENTS_MAX} are checked at once")
    return run


def matched(jar: Path, events: list[dict[str, Any]], columns: Columns | None) -> Matched:
    """Ask TLC; accepted is when the invariant "not yet at the end" breaks, and every step was printed."""
    run = taken(events, columns)
    return asked(jar, "TraceRun", CFG, _text(run), run.steps)


def asked(jar: Path, module: str, cfg: str, text: str, steps: list[str]) -> Matched:
    """Run a generated module; what was printed and what TLC says must be of one mind."""
    found = tlc.run(jar, module, cfg, source=text)
    reached = max((int(n) for n in re.findall(r'<<"matched", (\d+)>>', found.output)), default=0)
    if (found.verdict == "NotMatchedInv") != (reached == len(steps)):
        raise SpecsError(f"TLC says {found.verdict} and matched {reached} of {len(steps)} steps")
    refused = "" if reached == len(steps) else steps[reached]
    return Matched(steps=len(steps), reached=reached, distinct=found.distinct, refused=refused)


def read(path: Path) -> list[dict[str, Any]]:
    """Read one run: a file, or a folder of files whose processes shared a clock (merged by time)."""
    files = sorted(path.glob("*.ndjson")) if path.is_dir() else [path]
    events = [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]
    return sorted(events, key=lambda event: int(event["time"])) if len(files) > 1 else events


def _take(run: _Run, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "checkpoint":
        for table, key, _version, row in event["base"]:
            run.rows[_base(table, key)] = [row]
        for _view, key, scalars, row in event["views"]:
            run.start[_name(key)] = (scalars[1] if scalars else 0, row)
    if kind in NOT_MODELLED:
        return
    if kind not in ACTION_OF:
        raise SpecsError(f'event "{kind}" has no action and no reason why not')
    run.steps.append(_STEP[kind](run, event))


def _write(run: _Run, event: dict[str, Any]) -> str:
    base = _base(event["table"], event["key"])
    run.rows.setdefault(base, [None]).append(event["row"])
    return record_of(kind='"write"', base=text_of(base), version=event["version"])


def _receive(_run: _Run, event: dict[str, Any]) -> str:
    base = text_of(_base(event["table"], event["key"]))
    return record_of(kind='"receive"', process=text_of(event["process"]), base=base, version=event["version"])


def _call(run: _Run, event: dict[str, Any]) -> str:
    lines = [
        record_of(
            **{
                "base": text_of(_base(a["table"], a["key"])),
                "from": a["from_version"],
                "to": a["to_version"],
            }
        )
        for a in event["absorbed"]
    ]
    key = _name(event["view_key"])
    run.start.setdefault(key, (0, None))
    return record_of(
        kind='"call"',
        process=text_of(event["process"]),
        operation=text_of(f"{event['process']}/{event['operation']}"),
        key=text_of(key),
        expected=event["expected"][1] if event["expected"] else 0,
        new=event["new"][1],
        **_shown(run, event["row"]),
        there=str(event["row"] is not None).upper(),
        absorbed="{" + ", ".join(lines) + "}",
    )


def _return(_run: _Run, event: dict[str, Any]) -> str:
    operation = text_of(f"{event['process']}/{event['operation']}")
    return record_of(kind='"return"', operation=operation, outcome=text_of(event["outcome"]))


_STEP = {
    "base_update_called": _write,
    "update_received": _receive,
    "test_and_set_called": _call,
    "test_and_set_returned": _return,
    "manager_crashed": lambda _run, event: record_of(kind='"crash"', victim=text_of(event["victim"])),
    "quiescent": lambda _run, _event: record_of(kind='"rest"'),
}


def _text(run: _Run) -> str:
    bases = sorted(run.rows)
    taken = "[b \\in MyBases |-> 0]"
    starts = []
    for key, (version, row) in sorted(run.start.items()):
        shown = _shown(run, row)
        values = sum(_group(run, line[0]) == key and _has_value(run, line[0]) for line in run.rows.values())
        starts.append((key, record_of(version=version, n=shown["n"], s=shown["s"], v=values, taken=taken)))
    lines = [
        "---- MODULE TraceRun ----",
        "EXTENDS Trace",
        f"MyBases == {{{', '.join(map(text_of, bases))}}}",
        f"MyKeys == {{{', '.join(text_of(key) for key, _ in starts)}}}",
        f"MyRowAt == {function_of((b, sequence_of(_row(run, row) for row in run.rows[b])) for b in bases)}",
        f"MyStart == {function_of(starts)}",
        f"MyValued == {'TRUE' if run.columns else 'FALSE'}",
        "MyLog == <<\n  " + ",\n  ".join(run.steps) + " >>",
        "====",
    ]
    return "\n".join(lines) + "\n"


def _row(run: _Run, row: dict[str, Any] | None) -> str:
    if run.columns is None or row is None:
        return record_of(x='"-"', y=0, v=0)
    known = _has_value(run, row)
    measure = int(row[run.columns.measure]) if known and run.columns.measure else 0
    return record_of(x=text_of(_group(run, row)), y=measure, v=int(known))


def _group(run: _Run, row: dict[str, Any] | None) -> str:
    """Name the view record a base row belongs to."""
    return "" if run.columns is None or row is None else _name([row[run.columns.group]])


def _has_value(run: _Run, row: dict[str, Any] | None) -> bool:
    """Say whether the measure of a base row is there and not null."""
    return bool(run.columns and run.columns.measure and row and row[run.columns.measure] is not None)


def _shown(run: _Run, row: dict[str, Any] | None) -> dict[str, Any]:
    """Return count and sum of a view record, and whether the sum is a value: none at all sums to null, not 0."""
    if run.columns is None or row is None:
        return {"n": 0, "s": 0, "known": "FALSE"}
    total = row[run.columns.total] if run.columns.total else None
    known = "FALSE" if total is None else "TRUE"
    return {"n": int(row[run.columns.count]), "s": int(total or 0), "known": known}


def _base(table: str, key: Any) -> str:
    return f"{table}:{_name(key)}"


def _name(key: Any) -> str:
    return json.dumps(key).replace('"', "'")


def text_of(word: str) -> str:
    return '"' + word.replace("\\", "/").replace('"', "'") + '"'


def record_of(**fields: Any) -> str:
    return "[" + ", ".join(f"{name} |-> {value}" for name, value in fields.items()) + "]"


def sequence_of(items: Iterable[str]) -> str:
    return "<<" + ", ".join(items) + ">>"


def set_of(items: Iterable[str]) -> str:
    return "{" + ", ".join(items) + "}"


def function_of(pairs: Iterable[tuple[str, str]]) -> str:
    return " @@ ".join(f"({text_of(name)} :> {value})" for name, value in pairs) or "<<>>"
