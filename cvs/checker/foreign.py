"""Histories of other systems in: Jepsen EDN, Jepsen console logs, elle-cli JSON, Porcupine's key-value logs.

All become operations on registers, by key. Headers, stray lines and nemesis operations are passed over and
counted; a line that claims to be an operation and cannot be read is an error with its number. What an outcome
may mean is kept apart: `ok`, `fail` of a compare-and-set (refused: the value was another), `fail` of
anything else (did not happen), `info` or no return (unknown).
"""

import json
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cvs.checker.edn import Keyword, read_all
from cvs.checker.replay import ENDLESS
from cvs.checker.search import APPEND, DIFFERS, READ, SWAP, WRITE, Operation
from cvs.errors import HistoryError

CONSOLE = re.compile(r"jepsen\.util(?: -|:)?\s+(\S+)\s+:(invoke|ok|fail|info)\s+:(\S+)\s*(.*)$", re.MULTILINE)
"""As its logs have it: `jepsen.util - 0`, `- jepsen.util 0` on a screen, `jepsen.util: 0` in the store."""

_KINDS = {
    "read": READ, "r": READ, "get": READ, "write": WRITE, "w": WRITE, "put": WRITE,
    "cas": SWAP, "append": APPEND,
}  # fmt: skip
_TYPES = {"invoke", "ok", "fail", "info"}


@dataclass(slots=True, kw_only=True)
class Line:
    """One line that is an operation, in whatever dress it came."""

    number: int
    process: Hashable
    type: str
    f: str
    value: Any
    key: Hashable = None
    time: int | None = None
    error: Any = None


@dataclass(slots=True, kw_only=True)
class Foreign:
    """Operations by register, and what was passed over."""

    registers: dict[Hashable, list[Operation]] = field(default_factory=dict)
    passed_over: int = 0
    initial: Hashable = None


def parse(text: str, *, where: str = "") -> Foreign:
    """Recognize the dress by the text itself and import it."""
    lines, passed = _lines(text, where)
    if not lines:
        raise HistoryError(
            "no operation in it", where=where, next_step="see cvs/history/README.md for the formats taken"
        )
    appends = any(line.f == "append" for line in lines)
    foreign = Foreign(passed_over=passed, initial="" if appends else None)
    _pair(lines, foreign, where)
    return foreign


def recognized(text: str) -> bool:
    """Say whether a text looks like one of these rather than like a history of ours."""
    head = text[:4000]
    return bool(CONSOLE.search(head)) or ":type" in head or ('"type"' in head and '"event"' not in head)


def _lines(text: str, where: str) -> tuple[list[Line], int]:
    if CONSOLE.search(text):
        return _console(text)
    stripped = text.lstrip()
    if (stripped.startswith(("[{", "[\n", "[ {")) and '"type"' in text[:4000]) or stripped.startswith('{"'):
        return _from_maps(_json(text, where), where)
    return _from_maps(((n, _plain(form)) for n, form in read_all(text, where=where)), where)


def _console(text: str) -> tuple[list[Line], int]:
    lines, passed = [], 0
    known: dict[str, Any] = {}  # because few values stand there again and again
    for number, raw in enumerate(text.splitlines(), 1):
        found = CONSOLE.search(raw)
        if found is None or not found[1].lstrip("-").isdigit() or found[3] not in _KINDS:
            passed += bool(raw.strip())
            continue
        text = found[4].strip()
        if text not in known:
            forms = [_plain(form) for _, form in read_all(text, where=f"line {number}")]
            known[text] = tuple([None, *forms][:2] if text.startswith(":") else [*forms, None, None][:2])
        told, error = known[text]
        key, value = _keyed(found[3], None, told)
        lines.append(
            Line(
                number=number, process=int(found[1]), type=found[2], f=found[3], key=key, value=value, error=error
            )
        )  # fmt: skip
    return lines, passed


def _json(text: str, where: str) -> Iterator[tuple[int, Any]]:
    try:
        if text.lstrip().startswith("["):
            yield from enumerate(json.loads(text), 1)
            return
        for number, raw in enumerate(text.splitlines(), 1):
            if raw.strip():
                yield number, json.loads(raw)
    except (ValueError, RecursionError) as mistake:
        raise HistoryError(f"not JSON: {mistake}", where=where, next_step="is the file cut short?") from None


def _plain(form: Any) -> Any:
    if isinstance(form, Keyword):
        return form.name
    if isinstance(form, dict):
        return {_plain(k): _plain(v) for k, v in form.items()}
    if isinstance(form, list | tuple):
        return tuple(_plain(v) for v in form)
    return form


def _from_maps(maps: Iterable[tuple[int, Any]], where: str) -> tuple[list[Line], int]:
    lines, passed = [], 0
    for number, form in maps:
        if isinstance(form, tuple) and form and all(isinstance(f, dict) for f in form):
            more, skipped = _from_maps(enumerate(form, 1), where)
            lines.extend(more)
            passed += skipped
            continue
        line = _line(number, form)
        if line is None:
            passed += 1
        else:
            lines.append(line)
    return lines, passed


def _line(number: int, form: Any) -> Line | None:
    if not isinstance(form, dict) or not isinstance(form.get("f"), str) or form["f"] not in _KINDS:
        return None
    process, kind = form.get("process"), form.get("type")
    if not isinstance(process, int) or not isinstance(kind, str) or kind not in _TYPES:
        return None
    key, value = form.get("key"), form.get("value")
    if isinstance(key, list | dict):
        key = repr(key)
    key, value = _keyed(form["f"], key, value)
    time = form.get("time")
    return Line(
        number=number, process=process, type=kind, f=form["f"], value=value, key=key,
        time=time if isinstance(time, int) else None, error=form.get("error"),
    )  # fmt: skip


def _keyed(f: str, key: Any, value: Any) -> tuple[Any, Any]:
    """Take the key out of a value [key value], as Jepsen's independent registers have it; a swap is [key [old new]]."""
    pair = key is None and isinstance(value, tuple | list) and len(value) == 2
    if not pair or (f == "cas" and not isinstance(value[1], tuple | list)):
        return key, value
    key, value = value
    return repr(key) if isinstance(key, list | dict) else key, value


def _pair(lines: list[Line], foreign: Foreign, where: str) -> None:
    """Join calls with returns; time is the order of the lines, which every one of these formats keeps."""
    open_calls: dict[Hashable, Line] = {}
    for line in lines:
        if line.type == "invoke":
            if line.process in open_calls:
                raise HistoryError(
                    f"process {line.process} calls twice without a return in between",
                    where=f"{where} line {line.number}".strip(),
                    next_step="a process that crashed must go on under a new number",
                )
            open_calls[line.process] = line
            continue
        called = open_calls.pop(line.process, None)
        if called is None:
            foreign.passed_over += 1
            continue
        _join(called, line, foreign, where)
    for called in open_calls.values():
        _join(called, None, foreign, where)


def _join(called: Line, line: Line | None, foreign: Foreign, where: str) -> None:
    kind = _KINDS[called.f]
    outcome = line.type if line else "info"
    key = called.key if called.key is not None else line.key if line else None
    value = called.value
    if kind == READ and line is not None and outcome == "ok":
        value = line.value
    a, b = _hashable(value), None
    if kind == SWAP:
        if not isinstance(value, tuple | list) or len(value) != 2:
            if outcome == "ok":
                raise HistoryError(
                    f"a compare-and-set without [old new]: {value!r}",
                    where=f"{where} line {called.number}".strip(),
                )
            return
        a, b = _hashable(value[0]), _hashable(value[1])
    returned = line.number if line is not None else ENDLESS
    if outcome == "info" or (
        outcome == "fail" and line is not None and line.error is not None and kind == SWAP
    ):
        returned = ENDLESS
    elif outcome == "fail":
        if kind != SWAP:
            return
        kind, b = DIFFERS, None
    foreign.registers.setdefault(key, []).append(
        Operation(kind, a, b, called.number, returned, event=called.number, process=called.process)
    )


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(sorted((str(k), _hashable(v)) for k, v in value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(_hashable(v) for v in value)
    return value  # type: ignore[no-any-return]
