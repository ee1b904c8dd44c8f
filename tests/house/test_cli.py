"""Each command has help with an example, and every failure is one message with a documented exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from cassandra.util import OrderedMap, SortedSet
from rich.table import Table

from cvs.cli import Rooms, group, run
from cvs.cli.output import console
from cvs.cli.query import _plain
from cvs.errors import EXIT_CODE_MEANINGS, ExitCode
from cvs.history.codec import history_bytes
from tests.house.tidy import ROOT
from tests.unit.history.test_codec import small_history

ROOMS = group
assert isinstance(ROOMS, Rooms)
CONTEXT = click.Context(ROOMS)
COMMANDS = ROOMS.list_commands(CONTEXT)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(name: str) -> None:
    """The help of a command says what it does and shows one command line that works."""
    command = ROOMS.get_command(CONTEXT, name)
    assert command is not None
    assert re.search(r"^\s*(\$ )?cvs " + re.escape(name), command.help or "", flags=re.MULTILINE), (
        command.help
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_in_the_readme(name: str) -> None:
    """The top README names each command."""
    assert f"cvs {name}" in (ROOT / "README.md").read_text()


def test_exit_codes_are_in_the_help() -> None:
    """`cvs --help` prints the one table of exit codes."""
    text = group.get_help(CONTEXT)
    for code in EXIT_CODE_MEANINGS:
        assert f"{code.value:>2}  " in text


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line gets one message and exit code 2."""
    assert run(["no-such-command"]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("error: No such command")


def test_errors_are_an_envelope_under_json() -> None:
    """With `--json` an error is one object on stdout with what, where and next."""
    done = subprocess.run(
        [sys.executable, "-m", "cvs", "no-such-command", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    body = json.loads(done.stdout)
    assert (done.returncode, body["exit_code"], set(body["error"])) == (2, 2, {"what", "where", "next"})


@pytest.mark.parametrize("words", [("suite", "--table"), ("suite", "--table", "--json")])
def test_a_full_disk_under_the_answer_is_said(words: tuple[str, ...]) -> None:
    """What cannot be written is the machine's fault, in one line and without a traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cvs", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.startswith("error: the system refused: No space left on device")
    assert "Traceback" not in done.stderr


def test_a_file_that_may_not_be_read_is_the_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/run/secret")

    monkeypatch.setattr("cvs.cli.group.main", refuse)
    assert run(["audit", "x"]) == ExitCode.ENVIRONMENT
    assert "Permission denied\n  where: /run/secret" in capsys.readouterr().err


def test_a_terminal_without_unicode_is_served(tmp_path: Path) -> None:
    """What it cannot show becomes a question mark, not a failure."""
    (tmp_path / "run.ndjson").write_bytes(history_bytes(small_history("m1")))
    done = subprocess.run(
        [sys.executable, "-m", "cvs", "audit", str(tmp_path / "run.ndjson")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == ExitCode.MET, done.stderr
    assert "1 process ? " in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "{}"),
        ("explain", "{}", "--schema", "{}"),
        ("suite", "--views", "{}"),
        ("apply", "{}", "--settings", "{}"),
        ("audit", "{}"),
        ("convert", "{}"),
        ("report", "{}"),
    ],
)
def test_a_file_of_bytes_is_refused_where_text_is_wanted(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(128, 256)) + b"\n")
    assert run([word.format(file) for word in words]) in (ExitCode.USAGE, ExitCode.BAD_INPUT)
    assert str(file) in capsys.readouterr().err


def test_a_history_of_files_is_judged_without_loading_what_a_cluster_needs() -> None:
    """It took as long as everything else together, before anything was read."""
    asked = "import sys, cvs.cli.audit, cvs.cli.report, cvs.cli.convert; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert not {"cassandra", "confluent_kafka", "pyspark", "cvs.plan.maintenance"} & set(loaded.split())


@pytest.mark.parametrize("command", ["audit", "report", "convert"])
def test_of_a_file_that_cannot_be_read_it_is_said_what_may_be_named(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cvs", command, str(tmp_path / "nothing")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "No such file" in done.stderr
    assert "name the files of a history, or the folder of a run" in done.stderr


def test_what_is_printed_means_nothing_but_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brackets of a row are no colours, colons no pictures; and a row in a pipe is one line."""
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table("view", box=None)
    table.add_row("[/b] :red_heart: " + "long " * 60 + "end")
    console().print(table)
    said = capsys.readouterr().out.splitlines()[1]
    assert "[/b] :red_heart: long" in said
    assert "end" in said


def test_the_drivers_own_collections_are_shown_as_what_they_are() -> None:
    row = {"a": SortedSet(["y", "x"]), "b": OrderedMap([("k", SortedSet([1]))]), "c": None, "d": [1]}
    assert _plain(row) == {"a": ["x", "y"], "b": {"k": [1]}, "c": None, "d": [1]}


def test_a_command_that_said_all_ends_at_once() -> None:
    """Threads of the driver's waited for nodes that hang, half a minute after the error; what atexit does is done."""
    code = (
        "import atexit, threading, time, cvs.cli, cvs.store.session as session\n"
        "atexit.register(print, 'tidied')\n"
        "session._LEFT.set()\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "cvs.cli.run = lambda: 5\n"
        "cvs.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (5, "tidied\n")


NOISY = """
import logging
from cvs import cli
def run():
    logging.getLogger("cassandra.cluster").warning("Host 127.0.0.1 has been marked down")
    try:
        raise ConnectionError
    except ConnectionError:
        logging.exception("Exception while sending command.")
    return 5
cli.run = run
cli.main()
"""


def test_what_libraries_log_is_not_for_people() -> None:
    """Where Spark was killed its gateway's stack stood on the terminal, between the lines of JSON."""
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")
