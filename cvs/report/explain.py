"""A finding in sentences. Facts come from the witness; only the wording here may change freely."""

from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from cvs.checker.judge import Judged
from cvs.checker.verdict import Finding, Verdict

_BECAUSE = {
    "final": "at the end it showed {shown}, but the view of the last base state is {expected}",
    "state": "it showed {state}, which is the view of no base state at all",
    "prefix": "one rising sequence of base states explains it up to there; what came then, {state}, continues none",
    "pair": "it showed {earlier} and later {state}: no base state of the first is older than one of the second",
    "count": "{changes} base updates change what it shows in whatever order, and it changed {shown} times",
    "beside": "it showed {rows} beside each other, which no base state has together",
    "jump": "one epoch changed view records there that no single base update changes together",
    "held": "by its own certificates it held contributions of different versions of one base record there",
}
KEY_MOST = 120
"""Characters of a part of a key, or of its name in quarantine, that are written out for people."""


def explain(finding: Finding, judged: Judged | None) -> str:
    """Say why, in one or two sentences."""
    subject = name_of(finding)
    if finding.verdict is Verdict.UNDECIDED:
        return (
            f"{subject}: {finding.property} could not be decided: {finding.reason or 'no reason recorded'}."
        )
    if finding.verdict is Verdict.HOLDS:
        return f"{subject}: {finding.property} holds ({finding.tier})."
    witness = finding.witness
    if witness is None:
        why = f": {finding.reason}" if finding.reason else ""
        return f"{subject} is not {_adjective(finding.property)}{why}."
    because = _because(witness.kind, witness.facts, witness.positions, judged)
    where = f" (event {finding.event:,})" if finding.event else ""
    needs = f" [{finding.reason}]" if finding.reason else ""
    return f"{subject} is not {_adjective(finding.property)}{needs}: {because}{where}."


def name_of(finding: Finding) -> str:
    """Name what the finding is about."""
    if finding.key is not None:
        return f'view "{finding.view}", record {shown_key(finding.key)}'
    what = "what snapshots saw of " if finding.granularity == "snapshots" else "the whole of "
    return f'{what}view "{finding.view}"'


def shown_key(key: tuple[Any, ...]) -> str:
    """Write a view key; long parts are cut, and say how long they are."""
    return ", ".join(cut(shown_scalar(part)) for part in key) if key else "()"


def cut(text: str, most: int = KEY_MOST) -> str:
    """Cut a text that is too long for a line."""
    return text if len(text) <= most else f"{text[: most // 2]}… ({len(text):,} characters)"


def shown_scalar(value: Any) -> str:
    """Write a value of a column: numbers, dates and the like as they are, texts in quotes."""
    return str(value) if isinstance(value, Decimal | date | time | UUID) else repr(value)


def _adjective(name: str) -> str:
    return {
        "linearizability": "linearizable",
        "no-future": "free of versions from the future",
        "certificates": "truly certified",
        "weak": "weakly consistent",
        "strong": "strongly consistent",
        "strong-pairwise": "strongly consistent even pairwise",
    }.get(name, name)


def _because(kind: str, facts: Mapping[str, Any], positions: tuple[int, ...], judged: Judged | None) -> str:
    if kind in ("order", "certificate"):
        line, why = facts.get("line"), str(facts.get("why", "the order in time contradicts it"))
        return why if line is None else f"{_claim(line)}: {why}"
    told: dict[str, str] = {name: shown_value(value) for name, value in facts.items()}
    if judged is not None and positions:
        states = judged.subject.states
        told["state"] = shown_value(states[min(positions[-1], len(states) - 1)].value)
        told["earlier"] = shown_value(states[positions[0]].value)
    if kind not in _BECAUSE:
        return "see the witness"
    return _BECAUSE[kind].format_map(_Blank(told))


def _claim(line: Any) -> str:
    """Write a line of a certificate."""
    record = f"{line.table} {shown_key(line.key)}"
    return f"its certificate takes {record} from version {line.from_version} to {line.to_version}"


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "something"


def shown_value(value: Any, *, limit: int = 160) -> str:
    """Write a frozen row, or the rows of a whole view, as a person would; long ones are cut, and say so."""
    text = _shown(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _shown(value: Any) -> str:
    if value is None:
        return "no record"
    if isinstance(value, frozenset):
        pairs = sorted(value, key=repr)
        if all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            return "(" + ", ".join(f"{name}={shown_scalar(inner)}" for name, inner in pairs) + ")"
        if all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
            return "{" + "; ".join(f"{shown_key(key)}: {_shown(row)}" for key, row in pairs) + "}"
    return repr(value)
