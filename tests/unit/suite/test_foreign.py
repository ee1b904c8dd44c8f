import json
import sys

import pytest

from cvs.cli import run
from cvs.errors import AssumptionError, ExitCode
from cvs.manager.view_manager import ViewManager
from cvs.model.levels import Level
from cvs.programs.machine import RECORD, shown
from cvs.store.memory import MemoryStore
from cvs.store.port import PartitionId
from cvs.suite.classes import view_class
from cvs.suite.foreign import LineMaintainer, examine

pytest_plugins = ["cvs.suite.plugin"]


class Naive:
    """Counts by reading into its own memory and writing back: no signature, no condition."""

    def __init__(self, view):
        self.view, self.known = view, {}

    def apply(self, entry):
        for row, by in ((entry.before, -1), (entry.after, 1)):
            if row is not None:
                key = (row["x"],)
                count = self.known.get(key, self.view.get(key, 0)) + by
                self.known[key] = self.view[key] = count

    def read(self, key):
        count = self.view.get(key, 0)
        return {"x": key[0], "n": count} if count else None

    def restart(self):
        self.known.clear()

    def clear(self):
        self.view.clear()
        self.restart()


class Ours:
    """Our own program and manager, seen as a stranger would."""

    def __init__(self, stores):
        self.stores = stores
        self.restart()

    def restart(self):
        self.manager = ViewManager(store=self.stores[-1], remember=True)

    def clear(self):
        self.stores.append(MemoryStore())
        self.restart()

    def apply(self, entry):
        self.manager.store = self.stores[-1]
        self.manager.maintain(view_class("count").variant("signature").program, entry)

    def read(self, key):
        return shown(self.stores[-1].read(PartitionId(table="v", key=key)).rows.get(RECORD))


def test_a_naive_maintainer_loses_updates_and_counts_twice():
    view = {}
    found = examine([Naive(view), Naive(view)], view="count", runs=20)
    assert found.record is Level.NOT_CONVERGED
    assert any("instance" in line for line in found.words)
    again = examine([Naive(view), Naive(view)], view="count", runs=1, seed=found.seed)
    assert (again.record, again.words) == (found.record, found.words)


def test_a_naive_maintainer_alone_still_counts_twice_after_a_restart():
    assert examine([Naive({})], view="count", runs=20).record is Level.NOT_CONVERGED


def test_what_the_smallest_run_shows_counts_too():
    """Five runs show weak at worst; cut down, one of them ends wrong, and that is what is told."""
    found = examine([Naive({})], view="count", runs=5)
    assert (found.record, found.view) == (Level.NOT_CONVERGED, Level.NOT_CONVERGED)
    assert "at the end" in found.words[-1]


def test_ours_is_complete_by_the_same_measure(cvs_suite):
    stores = [MemoryStore()]
    found = cvs_suite([Ours(stores), Ours(stores)], view="count", runs=20)
    assert found.record is Level.COMPLETE
    assert found.view.reaches(Level.CONVERGED)


IN_LINES = """
import json, sys
view = {}
for line in sys.stdin:
    message, answer = json.loads(line), {"ok": True}
    if "apply" in message:
        for row, by in ((message["apply"]["before"], -1), (message["apply"]["after"], 1)):
            if row:
                view[row["x"]] = view.get(row["x"], 0) + by
    elif "read" in message:
        x = message["read"]["key"][0]
        answer = {"row": {"x": x, "n": view[x]} if view.get(x) else None}
    elif "clear" in message:
        view.clear()
    print(json.dumps(answer), flush=True)
"""


def test_a_maintainer_in_another_language_speaks_in_lines():
    maintainer = LineMaintainer([sys.executable, "-c", IN_LINES])
    try:
        assert examine([maintainer], view="count", runs=20).record is Level.NOT_CONVERGED
    finally:
        maintainer.close()


def test_the_command_judges_a_maintainer_in_another_language(capsys, tmp_path):
    (tmp_path / "naive.py").write_text(IN_LINES)
    arguments = ["suite", "--maintainer", f"{sys.executable} {tmp_path}/naive.py", "--view", "count"]
    assert run([*arguments, "--runs", "10"]) == ExitCode.VIOLATED
    out = capsys.readouterr().out
    assert "lowest level of a view record: not_converged, expected strong" in out
    assert "restarts; its stream goes on" in out
    told = out.split("the smallest such run")[1].splitlines()[1:]
    assert len(told) == 6, "an insert, a restart, the insert again: nothing is left to cut"
    assert "shows {'x': 'a', 'n': 2}; the view of the base has {'x': 'a', 'n': 1}" in told[-1]
    assert run([*arguments, "--runs", "10", "--expect", "not_converged", "--json"]) == ExitCode.MET
    assert json.loads(capsys.readouterr().out)["result"]["record"] == "not_converged"
    assert run([*arguments[:-1], "splendid"]) == ExitCode.USAGE


def test_a_maintainer_that_stops_answering_is_refused():
    maintainer = LineMaintainer([sys.executable, "-c", ""])
    try:
        with pytest.raises(AssumptionError):
            maintainer.restart()
    finally:
        maintainer.close()


def test_a_maintainer_that_keeps_its_answers_back_is_refused():
    """As awk and jq do when their output is a pipe."""
    maintainer = LineMaintainer(["sleep", "60"], answer_seconds=0.2)
    try:
        with pytest.raises(AssumptionError, match="gave no answer in"):
            maintainer.restart()
    finally:
        maintainer.close()


def test_a_command_that_is_not_there_is_said_to_be_that(capsys):
    assert run(["suite", "--maintainer", "no-such-command here", "--runs", "1"]) == ExitCode.BAD_INPUT
    assert "the maintainer cannot be started: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("says", ['{"ok": true}', '{"row": null}', "hello", "[1]"])
def test_a_maintainer_that_answers_something_else_is_refused(says):
    """Every answer is the same line, so a read or anything else is not answered."""
    maintainer = LineMaintainer(
        [sys.executable, "-c", f"import sys\nfor _ in sys.stdin: print({says!r}, flush=True)"]
    )
    try:
        with pytest.raises(AssumptionError, match="has no"):
            examine([maintainer], view="count", runs=3)
    finally:
        maintainer.close()
