"""A reader and writer of EDN, as much of it as histories use; deep nesting is an error, not a crash."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cvs.errors import HistoryError

_TOKEN = re.compile(
    r"""[\s,]+|;[^\n]*|(?P<open>\#\{|[\[({])|(?P<close>[\])}])|"(?P<string>(?:[^"\\]|\\.)*)"|"""
    r"""(?P<tag>\#(?=[A-Za-z])[^\s,"\[\](){}]+|\#_)|(?P<atom>[^\s,"\[\](){};]+)""",
    re.S,
)
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS = {"nil": None, "true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Keyword:
    """An EDN keyword, without its colon."""

    name: str


def read_all(text: str, *, where: str = "") -> Iterator[tuple[int, Any]]:
    """Yield every top-level form with the line it starts on."""
    stack: list[tuple[str, list[Any], int]] = []
    place, line = 0, 1
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise HistoryError("a string without its end", where=f"{where} line {line}".strip())
        started, line = line, line + token[0].count("\n")
        place = token.end()
        if token["open"]:
            stack.append((token["open"], [], started))
            if len(stack) > DEEPEST:
                raise HistoryError("nested too deep", where=f"{where} line {line}".strip())
            continue
        if token["close"]:
            if not stack or _CLOSES[stack[-1][0]] != token["close"]:
                raise HistoryError(f"unexpected {token['close']}", where=f"{where} line {line}".strip())
            opened, items, started = stack.pop()
            value = _collection(opened, items, f"{where} line {line}".strip())
        elif token["string"] is not None:
            value = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token["string"])
        elif token["atom"]:
            value = _atom(token["atom"])
        else:
            continue  # white space, comments, tags: a tagged value is read as the value
        if stack:
            stack[-1][1].append(value)
        else:
            yield started, value
    if stack:
        raise HistoryError(
            "the text ends inside a form",
            where=f"{where} line {stack[0][2]}".strip(),
            next_step="is the file cut short?",
        )


def _collection(opened: str, items: list[Any], where: str) -> Any:
    if opened != "{":
        return tuple(items)
    if len(items) % 2:
        raise HistoryError("a map with a key but no value", where=where)
    try:
        return dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:
        return {repr(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


def _atom(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith(":"):
        return Keyword(text[1:])
    if re.fullmatch(r"[+-]?\d{1,400}[NM]?", text):
        return int(text.rstrip("NM"))
    if re.fullmatch(r"[+-]?\d{1,400}(\.\d{0,400})?([eE][+-]?\d{1,4})?M?", text):
        return float(text.rstrip("M"))
    return text


def write(value: Any) -> str:
    """Write one form."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, Keyword):
        return f":{value.name}"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write(k)} {write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(write, value)) + "]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
