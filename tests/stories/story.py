"""Stories: interleavings as text with their verdicts. One line a step; see any `.story` file.

view NAME                          one of tests/stories/views.py
start TABLE KEY column=value ...   a base record that stood there at the start
shows KEY column=value ...         a view record that stood there at the start
base TABLE KEY column=value ...    a base update (`gone` instead of columns: a delete)
write KEY column=value ... [<- TABLE.KEY:from>to ...]   an applied test-and-set of a view record
write! ...                         the same, on the condition of the write before the last (a lost update)
rest                               everything was propagated
expect record|view PROPERTY holds|violated|undecided
level record|view LEVEL
"""

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.history import events as ev
from tests.agree.problems import Recorder
from tests.stories.views import VIEWS


@dataclass(slots=True)
class Story:
    """A history and what must be said of it."""

    name: str
    view: str = ""
    events: list[Any] = field(default_factory=list)
    expectations: list[tuple[str, str, str]] = field(default_factory=list)
    levels: list[tuple[str, str]] = field(default_factory=list)


def read(path: Path) -> Story:
    story = Story(path.stem)
    run = Recorder()
    base: list[Any] = []
    shown: list[Any] = []
    for raw in path.read_text().splitlines():
        words = raw.split("#")[0].split()
        match words:
            case []:
                continue
            case ["view", name]:
                story.view = name
            case ["start", table, key, *columns]:
                base.append((table, (_value(key),), 0, _row(key, columns, table)))
            case ["shows", key, *columns]:
                shown.append(("v", _key(key), (0, 0, 0, True), _columns(columns)))
                run.versions["view", key] = 0
            case ["base", table, key, *columns]:
                run.base(_value(key), _row(key, columns, table), table=table)
            case ["write" | "write!" as verb, key, *columns]:
                _write(run, key, columns, known=bool(shown), stale=verb == "write!")
            case ["rest"]:
                run.rest()
            case ["expect", granularity, name, verdict]:
                story.expectations.append((granularity, name, verdict))
            case ["level", granularity, *level]:
                story.levels.append((granularity, " ".join(level)))
            case _:
                raise AssertionError(f"{path.name}: what is {raw!r}?")
    if base or shown:
        run.events.insert(1, ev.Checkpoint(process="w", time=0, base=tuple(base), views=tuple(shown)))
    assert story.view in VIEWS, path
    assert story.expectations or story.levels, f"{path}: no verdict"
    story.events = run.events
    return story


def _write(run: Recorder, key: str, words: list[str], *, known: bool, stale: bool) -> None:
    lines = []
    if "<-" in words:
        at = words.index("<-")
        for word in words[at + 1 :]:
            name, versions = word.split(":")
            table, record = name.split(".")
            low, high = versions.split(">")
            lines.append((_value(record), int(low), int(high), table))
        words = words[:at]
    last = run.versions.get(("view", key), 0) - (1 if stale else 0)
    expected = (0, last, 0, True) if last or known else None
    run.versions["view", key] = last + 1
    run.write_record(
        _key(key), _columns(words), lines, expected=expected, new=(0, last + 1, int(stale), True)
    )


def _key(word: str) -> tuple[Any, ...]:
    return () if word == "-" else (_value(word),)


def _value(word: str) -> Any:
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


def _columns(words: list[str]) -> dict[str, Any] | None:
    if words == ["gone"]:
        return None
    return {name: _value(value) for name, _, value in (word.partition("=") for word in words)}


def _row(key: str, words: list[str], table: str) -> dict[str, Any] | None:
    columns = _columns(words)
    return None if columns is None else {"k": _value(key), **columns}
