"""Behaviours as TLC prints them: the states of a counter-example, or of each random run it wrote to a file."""

import re
from typing import Any

from tooling.values import parsed

State = dict[str, Any]

_PRINTED = re.compile(r"^State \d+: <(\w+)[^>]*>\n((?:(?!\n\n).)*)", re.DOTALL | re.MULTILINE)
_WRITTEN = re.compile(r"^STATE_\d+ == *\n((?:(?!\n\n).)*)", re.DOTALL | re.MULTILINE)


def printed(output: str) -> tuple[tuple[str, ...], tuple[State, ...]]:
    """Return the names of the actions and the states after them of the counter-example TLC printed."""
    found = _PRINTED.findall(output)
    return tuple(action for action, _ in found), tuple(_state(body) for _, body in found)


def written(text: str) -> tuple[State, ...]:
    """Return the states of one file of `-simulate file=..`."""
    return tuple(_state(body) for body in _WRITTEN.findall(text))


def _state(body: str) -> State:
    parts = re.split(r"(?:^|\n)/\\ (\w+) = ", "\n" + body)[1:]
    return {name: parsed(value) for name, value in zip(parts[::2], parts[1::2], strict=True)}
