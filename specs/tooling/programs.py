"""Which real program a program of `PerEntry` is: its view class, its base rows, what its view records show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cvs.programs.machine import SIGNATURE_BASED, Policy, UpdateProgram
from cvs.simulate.world import stream_of
from cvs.suite.classes import view_class
from tooling.tlc import SpecsError

Keys = Mapping[str, int]
"""Base record of the spec -> its key here."""

POLICIES = {
    "signature": "signature_check",
    "permanent signature": "keep_deleted",
    "mark always": "mark_always",
}
FREE = "flow control"  # without it entries have no owner
MARK = "mark"  # the programs have no signature without it: stories of the spec without it differ where it matters

SELECTION_LIMITS = 3 - 2  # the spec selects y < 3, the suite's class y < 2
TWELVE = 12  # the spec has no fractions: it shows averages and variances times twelve
NULL, MISSING = "?", "-"  # of the spec

STREAMS_OF = {1: (1, (0,)), 2: (2, (0, 1)), 3: (4, (0, 1, 3))}
"""Number of records -> streams, and that of each record: the first manager owns the even ones, as in the spec."""

FOREIGN = ("join_read", "join_entry")
SETS = {"union": "union", "intersection": "intersect", "difference": "except"}
JOINS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """A program as the suite has it; `value`: what a row of its view shows, as the spec shows it."""

    view: str
    variant: str
    value: Callable[[Mapping[str, Any]], Any]

    @property
    def program(self) -> UpdateProgram:
        """Return the machine itself."""
        return view_class(self.view).variant(self.variant).program


def _column(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: (row[name],)


def _times_twelve(name: str, plus: int = 0) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: (0 if row[name] is None else int(round(row[name] * TWELVE, 6)) + plus,)


def _everything(row: Mapping[str, Any]) -> Any:
    return (row["n"], row["total"], int(round(row["mean"] * TWELVE, 6)), row["least"], row["most"])


def _selected(row: Mapping[str, Any]) -> Any:
    return (row["x"], row["y"] + SELECTION_LIMITS)


def _referring(row: Mapping[str, Any]) -> Any:
    return (row["y"], row["z"])


def _present(_row: Mapping[str, Any]) -> Any:
    return ("in",)


def _rows(*columns: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: frozenset(tuple(it.get(name) for name in columns) for it in row["rows"])


REAL: Mapping[str, Real] = {
    "count": Real(view="count", variant="signature", value=_column("n")),
    "count_paper": Real(view="count", variant="letter", value=_column("n")),
    "sum": Real(view="sum", variant="signature", value=_column("total")),
    "sum_without_count": Real(view="sum", variant="letter", value=_column("total")),
    "avg": Real(view="avg", variant="signature", value=_times_twelve("mean")),
    "all": Real(view="count-sum-avg-min-max", variant="signature", value=_everything),
    "distinct": Real(view="count-distinct", variant="signature", value=_column("n")),
    "variance": Real(view="variance", variant="signature", value=_times_twelve("spread", 1)),
    "having": Real(view="having", variant="signature", value=_column("n")),
    "min": Real(view="min", variant="multiplicities", value=_column("least")),
    "min_read": Real(view="min", variant="base-reading", value=_column("least")),
    "min_scan": Real(view="min", variant="always-scan", value=_column("least")),
    "min_paper": Real(view="min", variant="letter", value=_column("least")),
    "min_paper_scan": Real(view="min", variant="letter-always-scan", value=_column("least")),
    "selection": Real(view="selection", variant="signature", value=_selected),
    "selection_fields": Real(view="selection", variant="changed-fields", value=_selected),
    "projection": Real(view="projection-keeping-key", variant="signature", value=_column("x")),
    "projection_rekeyed": Real(view="projection-moving-key", variant="signature", value=_column("x")),
    "projection_losing": Real(view="projection-losing-key", variant="signature", value=_present),
    "join_read": Real(view="foreign-key-join", variant="base-reading", value=_referring),
    "join_entry": Real(view="foreign-key-join", variant="letter", value=_referring),
    **{name: Real(view=view, variant="counter-column", value=_present) for name, view in SETS.items()},
    **{
        f"{name}_read": Real(view=view, variant="base-reading", value=_present) for name, view in SETS.items()
    },
    **{
        f"join_{kind}": Real(view=f"{kind}-join", variant="reverse-join", value=_rows("r.k", "s.k", "s.z"))
        for kind in JOINS
    },
    "top": Real(view="top-2", variant="kept", value=_rows("k", "x", "y")),
    "not_in": Real(view="not-in", variant="kept", value=_rows("k", "y")),
}
"""Program of the spec -> that of the suite."""


def real(program: str) -> Real:
    """Return the real program, or say that there is none."""
    if program not in REAL:
        raise SpecsError(f'no program of the suite is the spec\'s "{program}"')
    return REAL[program]


def policy_of(off: set[str]) -> Policy:
    """Return the policy that has these rules off."""
    if strange := off - set(POLICIES) - {FREE, MARK}:
        raise SpecsError(f"no policy has {sorted(strange)} off")
    return replace(SIGNATURE_BASED, **{POLICIES[rule]: False for rule in off - {FREE, MARK}})


def table(program: str, record: str) -> str:
    """Name the base table of a record."""
    return "r" if program in ("top", "having") else record[0]


def keys(program: str, records: list[str]) -> tuple[int, dict[str, int]]:
    """Return the number of streams, and a key for each record, so that each has a stream of its own."""
    streams, wanted = STREAMS_OF[len(records)]
    if program.removesuffix("_read") in SETS:  # both tables have the row under one key
        both = (
            k for k in range(1, 1000) if [stream_of(name[0], (k,), streams) for name in records] == [0, 1]
        )
        return streams, dict.fromkeys(records, next(both))
    found: dict[str, int] = {}
    for name, stream in zip(records, wanted, strict=True):
        at = table(program, name)
        free = (
            k for k in range(1, 1000) if k not in found.values() and stream_of(at, (k,), streams) == stream
        )
        found[name] = next(free)
    return streams, found


def row(program: str, record: str, version: Mapping[str, Any], named: Keys) -> dict[str, Any] | None:
    """Return the base row of a version here."""
    if version["x"] == MISSING:
        return None
    key, x, y = named[record], version["x"], version["y"]
    if program.removesuffix("_read") in SETS:
        return {"k": key, "x": x}
    if program in FOREIGN:
        return {"k": key, "z": str(y)} if record[0] == "s" else {"k": key, "y": named["s1"]}
    if program.startswith("join_"):
        return {"k": key, "y": _number(x)} | ({"z": str(y)} if record[0] == "s" else {})
    if program == "not_in":
        return {"k": key, "y": _number(x)}
    if program == "projection_losing":
        return {"k": key, "x": x, "y": 0}
    return {"k": key, "x": x, "y": y - (SELECTION_LIMITS if program.startswith("selection") else 0)}


def _number(x: str) -> int | None:
    return None if x == NULL else ord(x)


def view_key(program: str, key: Any, named: Keys) -> tuple[Any, ...]:
    """Name a view record as the real program does."""
    if program.removesuffix("_read") in SETS:
        return (next(iter(named.values())), key)
    if program in ("top", "not_in"):
        return ()
    if program in ("projection", "selection", "selection_fields", *FOREIGN):
        return (named[key],)
    if program == "projection_rekeyed":
        return (key[0], named[key[1]])
    if program == "projection_losing":
        return (key, 0)
    if program.startswith("join_"):
        return (_number(key),)
    return (key,)


def spec_value(program: str, state: Any, named: Keys) -> Any:
    """Return a state the spec shows in the form of `Real.value`; None: no record."""
    if not state:
        return None
    if program in FOREIGN:
        return (named["s1"], str(state[2]))
    if program.startswith("join_"):
        return frozenset(
            (named.get(r), named.get(s), None if s == MISSING else str(z)) for r, s, _y, z in state
        )
    if program == "top":
        return frozenset((named[r], x, y) for r, x, y in state)
    if program == "not_in":
        return frozenset((named[r], _number(x)) for r, x in state)
    return tuple(state)
