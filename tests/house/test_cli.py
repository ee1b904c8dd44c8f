"""Each command has help with an example, and every failure is one message with a documented exit code."""

import json
import re
import subprocess
import sys

import click
import pytest

from cvs.cli import Rooms, group, run
from cvs.errors import EXIT_CODE_MEANINGS, ExitCode
from tests.house.tidy import ROOT

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
