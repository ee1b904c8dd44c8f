"""Histories of real programs, recorded in the simulator, are behaviours of the spec; wrong ones are not."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from cvs.embedded.artifacts import jars
from cvs.history.codec import history_bytes
from cvs.model.views import AggregateFunction
from cvs.programs.aggregate import ROWS, Aggregated, AggregateProgram
from cvs.programs.machine import RECORD, Change, Policy
from cvs.programs.rows import column
from cvs.simulate.scheduler import CRASHES, ZOMBIES, simulated
from cvs.simulate.world import Scenario

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import traces

SPECS = Path(__file__).resolve().parents[2] / "specs"
RUNNER = SPECS / "run.py"
GROUPED = AggregateProgram(
    view="v",
    table="r",
    group=(("x", column("x")),),
    aggregates=(
        Aggregated(name="n", function=AggregateFunction.COUNT),
        Aggregated(name="sum", function=AggregateFunction.SUM, argument=column("y")),
    ),
)
COLUMNS = traces.Columns(group="x", measure="y", count="n", total="sum")
WRITES = tuple(
    ("r", (k,), {"x": x, "y": y} if x else None)
    for k, x, y in [
        (1, "a", 1), (2, "a", 2), (1, "b", 3), (3, "a", 4), (2, "", 0), (2, "b", 5),
        (1, "b", 3), (3, "a", None), (3, "a", None), (1, "b", 7), (3, "a", 0), (9, "a", None), (9, "b", None),
    ]
)  # fmt: skip
"""Some change nothing (the program passes them over), some turn a value into null, some null into 0."""


EMPTIED = tuple(
    ("r", (k,), {"x": x, "y": 1} if x else None)
    for k, x in [(1, "a"), (9, ""), (1, ""), (1, "b"), (2, "a"), (2, "b")]
)
"""Group a loses its last row, twice."""


def history(seed, faults, program=GROUPED, writes=WRITES, **policy):
    scenario = Scenario(
        program=program,
        policy=Policy(**policy),
        initial=(("r", (9,), {"x": "a", "y": 10}),),
        writes=writes,
        managers=3,
        streams=2,
    )
    world, _ = simulated(scenario, faults, seed, record=True)
    return [json.loads(line) for line in history_bytes(world.events).splitlines()]


def matched(events, columns=COLUMNS):
    return traces.matched(jars("tlc")[0], events, columns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_run_with_crashes_late_requests_and_zombies_is_a_behaviour_of_the_spec(seed):
    """Every event of the run is an action the spec allows; updates that change nothing have none."""
    events = history(seed, ZOMBIES)
    found = matched(events)
    assert found.accepted, str(found)
    assert found.steps > 20
    assert matched(events, traces.Columns(group="x", count="n")).accepted, "a view without sums"


@pytest.mark.slow
def test_a_program_that_forgets_what_it_absorbed_is_refused_where_it_counts_twice():
    """The counter-only program absorbs a redelivered entry again: the spec has no such step."""
    found = [matched(history(seed, CRASHES, signature_check=False)) for seed in (1, 3)]
    assert [(each.accepted, 'kind |-> "call"' in each.refused) for each in found] == [(False, True)] * 2


def whatever_moves(_program, before, after):
    """Pass over every update that stays in its group."""
    return before is not None and after is not None


def null_for_zero(_program, before, after):
    """Pass over updates that turn null into 0, or 0 into null."""
    return None not in (before, after) and (before["y"] or 0) == (after["y"] or 0)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [whatever_moves, null_for_zero])
def test_a_program_that_passes_over_what_changes_something_is_refused(wrong, monkeypatch):
    """Only updates that change nothing of a view record may be passed over."""
    monkeypatch.setattr(AggregateProgram, "_same", wrong)
    found = matched(history(0, ZOMBIES))
    assert not found.accepted
    assert found.reached > 20


class Keeping(AggregateProgram):
    """Shows a group that has no rows any more."""

    def _change(self, rows, key, move):
        change = super()._change(rows, key, move)
        empty = {"x": key[0], "n": 0, "sum": None}
        return change if change.puts or not change.deletes else Change(puts=((RECORD, {ROWS: 0} | empty),))


@pytest.mark.slow
def test_a_program_that_shows_an_empty_group_is_refused():
    """Its counts and sums are right; the group should not be there."""
    program = Keeping(**{f.name: getattr(GROUPED, f.name) for f in fields(GROUPED)})
    assert matched(history(0, ZOMBIES, writes=EMPTIED)).accepted
    found = matched(history(0, ZOMBIES, program=program, writes=EMPTIED))
    assert not found.accepted
    assert "n |-> 0" in found.refused
    assert "there |-> TRUE" in found.refused


@pytest.mark.slow
def test_a_manager_that_remembers_over_a_crash_is_refused():
    """What it was handed before is handed to it again: without that it knows of nothing."""
    events = history(1, ZOMBIES)
    crashed = next(
        i for i, e in enumerate(events)
        if e["event"] == "manager_crashed" and any(_handed(x, e["victim"]) for x in events[i:])
    )  # fmt: skip
    victim = events[crashed]["victim"]
    again = [e for e in events[:crashed] if _handed(e, victim)]
    seen = {(json.dumps(e["key"]), e["version"]) for e in again}
    kept = [
        e for i, e in enumerate(events)
        if i < crashed or not (_handed(e, victim) and (json.dumps(e["key"]), e["version"]) in seen)
    ]  # fmt: skip
    assert matched(events).accepted
    assert len(kept) < len(events), "nothing was handed to it again"
    assert not matched(kept).accepted


def _handed(event, process):
    return event["event"] == "update_received" and event["process"] == process


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["value", "outcome", "dropped"])
def test_a_damaged_history_is_refused(damage):
    """One wrong sum, one refusal of what was applied, one lost event: no behaviour of the spec."""
    events = history(0, ZOMBIES)
    applied = [i for i, e in enumerate(events) if e.get("outcome") == "applied" and "returned" in e][2]
    event = events[applied]
    same = (event["process"], event["operation"])
    called = next(
        i
        for i, e in enumerate(events)
        if e["event"] == "test_and_set_called" and (e["process"], e["operation"]) == same
    )
    if damage == "value":
        events[called]["row"]["sum"] += 1
    elif damage == "outcome":
        event["outcome"] = "rejected"
    else:
        del events[called]
    assert not matched(events).accepted


def test_every_event_has_an_action_or_a_reason():
    """A new kind of event must be given an action, or a written reason why not."""
    from typing import get_args

    from cvs.history.events import AnyEvent

    tags = {kind.__struct_config__.tag for kind in get_args(AnyEvent)}
    assert tags == set(traces.ACTION_OF) | traces.NOT_MODELLED
    assert not set(traces.ACTION_OF) & traces.NOT_MODELLED


def test_every_action_of_the_spec_of_programs_has_an_event_or_a_reason():
    """The table on top of `Trace.tla`: actions of `PerEntry`, actions here, events."""
    text = (SPECS / "Trace.tla").read_text()
    rows = re.findall(r"^\(\*   (\S.{14}) (\w+) +(\S.{35}) .*\*\)$", text, re.MULTILINE)
    rows = [tuple(map(str.strip, row)) for row in rows][1:]
    assert {event for _, _, event in rows if not event.startswith("none: ")} == set(traces.ACTION_OF)
    spec = (SPECS / "PerEntry.tla").read_text()
    steps = re.search(r"^Next ==.*?^Spec ==", spec, re.DOTALL | re.MULTILINE)
    actions = set(re.findall(r"\b([A-Z]\w+)\(", steps.group()))
    assert {name for names, _, _ in rows for name in names.split(", ")} - {"(Quiet)"} == actions - {"Length"}
    here = re.search(r"^Matched == \((.*?)\) /\\.*?^Spec ==", text, re.DOTALL | re.MULTILINE)
    assert {name for _, name, _ in rows} - {"none"} == {*re.findall(r"\w+", here.group(1)), "Effect"}


@pytest.mark.slow
def test_the_command_matches_a_folder_of_histories_and_refuses_a_damaged_one(tmp_path):
    """`specs/run.py trace`: one file a process, one clock; exit code 1 and the step where it does not fit."""
    events = history(0, ZOMBIES)
    processes = sorted({event["process"] for event in events})
    for number, event in enumerate(events):
        event["time"] = number
    for process in processes:
        lines = [json.dumps(event) for event in events if event["process"] == process]
        (tmp_path / f"{process}.ndjson").write_text("\n".join(lines) + "\n")
    assert len(processes) > 2
    done = command(tmp_path)
    assert (done.returncode, "matched to its last step" in done.stdout) == (0, True), (
        done.stdout + done.stderr
    )
    last = next(file for file in sorted(tmp_path.glob("m*")) if "test_and_set_called" in file.read_text())
    last.write_text(
        re.sub(r'"row": {"x": "(\w)", "n": \d', r'"row": {"x": "\1", "n": 7', last.read_text(), count=1)
    )
    assert '"n": 7' in last.read_text()
    done = command(tmp_path)
    assert (done.returncode, "refused at step" in done.stdout) == (1, True), done.stdout + done.stderr


def command(folder):
    columns = "group=x,measure=y,count=n,total=sum"
    line = [sys.executable, str(RUNNER), "trace", str(folder), "--columns", columns]
    return subprocess.run(line, capture_output=True, text=True, check=False)
