"""CQL's notation of types, parsed.

A user type is written by its name, as `system_schema` does, and needs the definitions at hand; or with its
fields, `udt<street:text, zip:int>`, which needs none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from cvs.errors import SpecificationError

_TEXTS = ("ascii", "text", "varchar")
_NUMBERS = (
    *("tinyint", "smallint", "int", "bigint", "counter", "varint"),
    *("float", "double", "decimal"),
)
_TIMES = ("date", "time", "timestamp", "duration")
SCALARS = frozenset({*_TEXTS, *_NUMBERS, *_TIMES, "boolean", "uuid", "timeuuid", "blob", "inet"})
_PART_COUNTS = {"frozen": 1, "list": 1, "set": 1, "map": 2, "vector": 2, "tuple": None, "udt": None}

UserTypes = Mapping[str, tuple[tuple[str, str], ...]]
"""Fields and their types of each user type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CqlType:
    """A parsed type; `fields` names the parts of a user type, `size` is of a vector."""

    name: str
    parts: tuple["CqlType", ...] = ()
    fields: tuple[str, ...] = ()
    frozen: bool = False
    size: int = 0

    def __str__(self) -> str:
        """Write it as `parse_type` reads it."""
        inner = [str(part) for part in self.parts]
        if self.fields:
            inner = [f"{field}:{part}" for field, part in zip(self.fields, inner, strict=True)]
        if self.name == "vector":
            inner.append(str(self.size))
        text = f"{self.name}<{', '.join(inner)}>" if inner else self.name
        return f"frozen<{text}>" if self.frozen else text


_TOKEN = re.compile(r'\s*("(?:[^"]|"")*"|[A-Za-z_][\w.]*|\d+|[<>,:])')


def parse_type(text: str, user_types: UserTypes | None = None) -> CqlType:
    """Parse a type; what is none is refused with its text."""
    return _with_user_types(text, user_types) if user_types else _plain(text)


@lru_cache(maxsize=4096)
def _plain(text: str) -> CqlType:
    return _Parser(text, {}).whole()


def names_in(text: str) -> set[str]:
    """Return all names in a type's text, user types among them, without needing their definitions."""
    return {unquoted(token) for token in _TOKEN.findall(text)}


def unquoted(name: str) -> str:
    """Return a name as it is meant: quotes off, doubled ones inside single."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _with_user_types(text: str, user_types: UserTypes) -> CqlType:
    return _Parser(text, user_types).whole()


class _Parser:
    """Takes tokens one by one; a type is `name` or `name<part, part>`."""

    def __init__(self, text: str, user_types: UserTypes) -> None:
        self.text = text
        self.user_types = user_types
        self.tokens: list[str] = _TOKEN.findall(text)
        self.at = 0
        if "".join(self.tokens) != "".join(text.split()):
            raise self.refusal()

    def refusal(self, what: str = "") -> SpecificationError:
        return SpecificationError(
            f'"{self.text}" is no CQL type{what}',
            next_step="a user type needs its definition, or is written udt<name:type, ...>",
        )

    def whole(self) -> CqlType:
        found = self.type()
        if self.at < len(self.tokens):
            raise self.refusal(f': "{self.tokens[self.at]}" is left over')
        return found

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise self.refusal(": it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, *wanted: str) -> str:
        found = self.next()
        if found not in wanted:
            raise self.refusal(f': "{found}" where {" or ".join(wanted)} should stand')
        return found

    def type(self) -> CqlType:
        name = self.next()
        folded = name.lower()
        if folded in _PART_COUNTS:
            return self.composed(folded)
        if folded in SCALARS:
            return CqlType(name=folded)
        fields = self.user_types.get(unquoted(name))
        if fields is None:
            raise self.refusal(f': "{name}" is not known')
        parts = tuple(parse_type(text, self.user_types) for _, text in fields)
        return CqlType(name="udt", parts=parts, fields=tuple(field for field, _ in fields))

    def composed(self, name: str) -> CqlType:
        self.expect("<")
        parts: list[CqlType] = []
        fields: list[str] = []
        size = 0
        closing = ","
        while closing == ",":
            if name == "udt":
                fields.append(self.next())
                self.expect(":")
            if name == "vector" and parts:
                size = self.size()
            else:
                parts.append(self.type())
            closing = self.expect(",", ">")
        wanted = _PART_COUNTS[name]
        if wanted is not None and len(parts) + (size > 0) != wanted:
            raise self.refusal(f": {name} takes {wanted}")
        if name == "frozen":
            return replace(parts[0], frozen=True)
        return CqlType(name=name, parts=tuple(parts), fields=tuple(fields), size=size)

    def size(self) -> int:
        token = self.next()
        if not token.isdigit() or int(token) == 0:
            raise self.refusal(": a vector has a positive size")
        return int(token)
