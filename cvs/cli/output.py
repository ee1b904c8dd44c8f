"""The one way commands speak: an envelope for `--json`, a shape for errors, a console for people.

stdout is the answer, stderr is talk. `NO_COLOR` is honoured by rich; nothing moves without a terminal.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console

from cvs.errors import CvsError, ExitCode
from cvs.version import VERSION

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

ENVELOPE_FORMAT = 1


UNFOLDED = 10_000  # columns of what is no terminal: a name on two lines is found by no grep


def console(*, markup: bool = False) -> Console:
    """Make the console for answers; plain, and as wide as its tables, where stdout is not a terminal.

    What is printed is not ours: brackets and colons in it mean nothing, unless a command colours with markup.
    """
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNFOLDED
    return Console(highlight=False, soft_wrap=True, width=width, markup=markup, emoji=False)


def talk() -> Console:
    """Make the console for progress and errors: stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def json_option(command: Decorated) -> Decorated:
    """Add `--json`, spelled and explained the same everywhere; the parameter is `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(
        command
    )


def print_json(command: str, result: object, *, exit_code: ExitCode = ExitCode.MET) -> None:
    """Print the envelope every `--json` answer has: format, tool, command, exit code, result."""
    _write_envelope(command, exit_code, {"result": result})


def print_error(error: CvsError) -> None:
    """Print what, where, what to do next: on stderr, or as an envelope on stdout under `--json`."""
    if "--json" in sys.argv[1:]:
        body = {"what": error.what, "where": error.where, "next": error.next_step}
        with suppress(OSError):  # stdout itself may be what is full: then stderr says it
            _write_envelope(" ".join(sys.argv[1:2]), error.exit_code, {"error": body})
            return
    lines = [f"error: {error.what}"]
    lines += [f"  where: {error.where}"] if error.where else []
    lines += [f"  next:  {error.next_step}"] if error.next_step else []
    sys.stderr.write("\n".join(lines) + "\n")


def _write_envelope(command: str, exit_code: ExitCode, body: Mapping[str, object]) -> None:
    envelope = {"format": ENVELOPE_FORMAT, "cvs": VERSION, "command": command, "exit_code": int(exit_code)}
    sys.stdout.write(msgspec.json.encode({**envelope, **body}, enc_hook=str).decode() + "\n")
    sys.stdout.flush()
