"""Scalar expressions: the tree that SQL is translated into, and the one evaluator of it.

Three nodes only. Functions are a table by name; each follows SQL null logic (null in, null out, unless said).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Value = Any  # because a column may hold any CQL value; `model/types.py` is the table of them
Row = Mapping[str, Value]
Compiled = Callable[[Row], Value]


@dataclass(frozen=True, slots=True)
class Column:
    """The value of one column of the row at hand, by its full name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator, by its name in the table, of arguments."""

    function: str
    arguments: tuple["Expression", ...]


Expression = Column | Literal | Call
