"""TLC's printed values as Python values: records and functions are dicts, sequences tuples, sets frozensets."""

import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r'\s*(<<|>>|\|->|:>|@@|[\[\]{}(),]|"[^"]*"|-?\d+|\w+)')


def parsed(text: str) -> Any:
    """Read one value."""
    tokens = _Tokens(text)
    value = _value(tokens)
    if tokens.peek() != "":
        raise ValueError(f"more than a value: {text[:80]!r}")
    return value


class _Tokens:
    def __init__(self, text: str) -> None:
        self._left = _TOKEN.findall(text)[::-1]

    def peek(self) -> str:
        return self._left[-1] if self._left else ""

    def take(self, wanted: str | None = None) -> str:
        token = self._left.pop()
        if wanted is not None and token != wanted:
            raise ValueError(f"{wanted} expected, {token} found")
        return str(token)


def _value(tokens: _Tokens) -> Any:
    token = tokens.take()
    if token == "<<":
        return tuple(_items(tokens, ">>"))
    if token == "{":
        return frozenset(_frozen(item) for item in _items(tokens, "}"))
    if token == "[":
        return dict(_pairs(tokens, "|->", ",", "]"))
    if token == "(":
        return dict(_pairs(tokens, ":>", "@@", ")"))
    if token.startswith('"'):
        return token[1:-1]
    if token in ("TRUE", "FALSE"):
        return token == "TRUE"
    return int(token) if token.lstrip("-").isdigit() else token


def _items(tokens: _Tokens, end: str) -> Iterator[Any]:
    while tokens.peek() != end:
        yield _value(tokens)
        if tokens.peek() == ",":
            tokens.take()
    tokens.take(end)


def _pairs(tokens: _Tokens, arrow: str, comma: str, end: str) -> Iterator[tuple[Any, Any]]:
    while tokens.peek() != end:
        name = _value(tokens)
        tokens.take(arrow)
        yield name, _value(tokens)
        if tokens.peek() == comma:
            tokens.take()
    tokens.take(end)


def _frozen(item: Any) -> Any:
    if isinstance(item, dict):
        return tuple(sorted((name, _frozen(value)) for name, value in item.items()))
    return tuple(map(_frozen, item)) if isinstance(item, tuple) else item
