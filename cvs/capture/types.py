"""CQL types as `system_schema` spells them: parsing, and what the log's format needs to know of each.

Which types have a fixed length on the wire is Cassandra's `AbstractType.valueLengthIfFixed`: `date`, `time`,
`smallint` and `tinyint` are, for historical reasons, not among them.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

FIXED_LENGTHS = {
    "boolean": 1,
    "int": 4,
    "float": 4,
    "bigint": 8,
    "double": 8,
    "timestamp": 8,
    "uuid": 16,
    "timeuuid": 16,
}
COLLECTIONS = {"list", "set", "map"}
TOKENS = re.compile(r"""\s*("(?:[^"]|"")*"|'[^']*'|[<>,]|[^\s<>,"']+)""")


@dataclass(frozen=True, slots=True)
class CqlType:
    """A parsed type: its name, arguments, and whether it is frozen."""

    name: str
    arguments: tuple["CqlType", ...] = ()
    frozen: bool = False

    @property
    def fixed_length(self) -> int:
        """Return the bytes every value has, or -1."""
        if self.name == "vector":
            element, dimension = self.arguments
            return element.fixed_length * int(dimension.name) if element.fixed_length > 0 else -1
        return FIXED_LENGTHS.get(self.name, -1)

    def is_multi_cell(self, user_types: frozenset[str]) -> bool:
        """Tell whether a column of this type has a cell an element (non-frozen collection or user type)."""
        return not self.frozen and (self.name in COLLECTIONS or self.name in user_types)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> CqlType:
    """Parse a CQL type; `ValueError` for anything that is none."""
    tokens = TOKENS.findall(text)
    found, rest = _parse(tokens)
    if rest:
        raise ValueError(f"not a CQL type: {text!r}")
    return found


def _parse(tokens: list[str]) -> tuple[CqlType, list[str]]:
    if not tokens or tokens[0] in "<>,":
        raise ValueError(f"not a CQL type: {' '.join(tokens)!r}")
    name, rest = _unquoted(tokens[0]), tokens[1:]
    arguments: list[CqlType] = []
    if rest[:1] == ["<"]:
        while rest[:1] not in ([], [">"]):
            argument, rest = _parse(rest[1:])
            arguments.append(argument)
        if not rest:
            raise ValueError("a CQL type ends before its >")
        rest = rest[1:]
    if name == "frozen":
        inner = arguments[0]
        return CqlType(inner.name, inner.arguments, True), rest
    return CqlType(name, tuple(arguments), name == "tuple"), rest


def _unquoted(token: str) -> str:
    return token[1:-1].replace('""', '"') if token.startswith('"') else token
