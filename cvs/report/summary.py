"""The verdict as one plain object: what `--json` prints, and what the text and the page are drawn from."""

from collections.abc import Iterable
from typing import Any

from cvs.checker.classify import Judgement
from cvs.checker.judge import Judged
from cvs.checker.search import Searched
from cvs.checker.verdict import LEVELS, NOTHING, Finding, Interval, Verdict, at_least, worst
from cvs.errors import ExitCode
from cvs.report.explain import explain, shown_value
from cvs.version import VERSION

ORDER = (
    "linearizability", "certificates", "converged", "weak", "strong-pairwise", "strong", "complete",
    "complete-recorded-order", "no-future", "staleness",
)  # fmt: skip
VERDICT_FORMAT = 1
_SEVERITY = {Verdict.VIOLATED: 0, Verdict.UNDECIDED: 1, Verdict.HOLDS: 2}
Document = dict[str, Any]


def summarize(judgement: Judgement, files: list[dict[str, Any]], expected: dict[str, str]) -> Document:
    """Return the verdict on a run of ours; `expected` maps a granularity to a level."""
    run = judgement.run
    places = {(j.subject.view, j.subject.granularity, j.subject.key): j for j in judgement.judged}
    return {
        "verdict_format": VERDICT_FORMAT,
        "tool": VERSION,
        "run": run.name,
        "files": files,
        "reference": judgement.reference,
        "processes": len(run.processes),
        "views": sorted(run.views),
        "events": run.events,
        "seconds": (run.last_time - run.first_time) / 1e9,
        "granularities": [_granularity(judgement, name, places) for name in judgement.granularities],
        "torn_windows": [
            {
                "view": j.subject.view,
                "first_event": j.subject.states[a].event,
                "states": b - a + 1,
                "nanoseconds": n,
            }
            for j in judgement.judged
            if j.subject.granularity == "view"
            for a, b, n in j.torn
        ],
        "expected": expected,
        "exit_code": int(exit_code(judgement, expected)),
    }


def exit_code(judgement: Judgement, expected: dict[str, str]) -> ExitCode:
    """Weigh what was found: expectations if there are any; order and certificates always."""
    verdicts = [met(judgement.level(g), wanted) for g, wanted in expected.items()]
    beside = worst(f.verdict for f in judgement.findings if f.property in ("linearizability", "certificates"))
    if beside is Verdict.VIOLATED:
        return ExitCode.VIOLATED
    found = worst(verdicts)
    if found is Verdict.VIOLATED:
        return ExitCode.VIOLATED
    return ExitCode.UNDECIDED if found is Verdict.UNDECIDED else ExitCode.MET


def met(level: Interval, wanted: str) -> Verdict:
    """Say whether an interval reaches a level."""
    if at_least(level.proved, wanted):
        return Verdict.HOLDS
    return Verdict.UNDECIDED if at_least(level.not_refuted, wanted) else Verdict.VIOLATED


def _granularity(judgement: Judgement, name: str, places: dict[Any, Judged]) -> Document:
    level = judgement.level(name)
    properties = []
    for prop in ORDER:
        findings = judgement.of(prop, name)
        if findings:
            properties.append(_property(prop, findings, places))
    return {
        "granularity": name,
        "level": {"proved": level.proved, "not_refuted": level.not_refuted},
        "subjects": max((p["holds"] + p["violated"] + p["undecided"] for p in properties), default=0),
        "properties": properties,
    }


def _property(name: str, findings: list[Finding], places: dict[Any, Judged]) -> Document:
    ranked = sorted(findings, key=lambda f: (_SEVERITY[f.verdict], f.event or 0, repr(f.key)))
    worst_one = ranked[0]
    document: Document = {
        "property": name,
        "verdict": worst_one.verdict.value,
        **{v.value: sum(f.count for f in findings if f.verdict is v) for v in Verdict},
        "worst": finding_document(worst_one, places),
        "findings": [finding_document(f, places) for f in ranked if f.verdict is not Verdict.HOLDS],
    }
    measured = [f.witness.facts for f in findings if f.witness and f.witness.kind == "measure"]
    if measured:
        document["versions_behind"] = max(m["versions"] for m in measured)
        document["nanoseconds_behind"] = max(m["nanoseconds"] for m in measured)
    return document


def finding_document(finding: Finding, places: dict[Any, Judged]) -> Document:
    """Return one finding with its sentence and its evidence."""
    judged = places.get((finding.view, finding.granularity, finding.key))
    witness = finding.witness
    document: Document = {
        "property": finding.property,
        "verdict": finding.verdict.value,
        "view": finding.view,
        "key": None if finding.key is None else list(finding.key),
        "tier": finding.tier,
        "reason": finding.reason,
        "event": finding.event,
        "sentence": explain(finding, judged),
    }
    if witness is not None:
        document["witness"] = {
            "kind": witness.kind,
            "positions": witness.positions,
            "events": witness.events,
            "cuts": witness.cuts[:1000],
            "records": judged.lattice.records if judged else [],
            "facts": {k: v if isinstance(v, str | int) else shown_value(v) for k, v in witness.facts.items()},
        }
    return document


def summarize_foreign(
    registers: dict[Any, Searched], files: list[dict[str, Any]], *, operations: int, passed_over: int
) -> Document:
    """Return the verdict on registers of another system."""
    merged = worst(s.verdict for s in registers.values())
    code = {
        Verdict.HOLDS: ExitCode.MET,
        Verdict.VIOLATED: ExitCode.VIOLATED,
        Verdict.UNDECIDED: ExitCode.UNDECIDED,
    }
    shown = sorted(registers.items(), key=lambda item: (_SEVERITY[item[1].verdict], str(item[0])))
    return {
        "verdict_format": VERDICT_FORMAT,
        "tool": VERSION,
        "files": files,
        "operations": operations,
        "lines_passed_over": passed_over,
        "linearizability": merged.value,
        "registers": [
            {
                "key": key,
                "verdict": s.verdict.value,
                "event": s.event,
                "reason": s.reason,
                "steps": s.steps,
                "order": s.order if s.verdict is Verdict.VIOLATED else (),
            }
            for key, s in shown
        ],
        "exit_code": int(code[merged]),
    }


def difference(one: Document, other: Document) -> list[str]:
    """Name every property whose verdict differs between two verdicts, worst news of the second first."""
    lines = []
    first, second = dict(_flat(one)), dict(_flat(other))
    for name in first.keys() | second.keys():
        before, after = first.get(name, "not judged"), second.get(name, "not judged")
        if before != after:
            lines.append((0 if after == "violated" else 1, f"{' '.join(name)}: {before} -> {after}"))
    return [line for _, line in sorted(lines)]


def _flat(document: Document) -> Iterable[tuple[tuple[str, str], str]]:
    if "linearizability" in document:
        yield ("registers", "linearizability"), document["linearizability"]
    for granularity in document.get("granularities", []):
        level = granularity["level"]
        yield (granularity["granularity"], "level"), f"{level['proved']}..{level['not_refuted']}"
        for found in granularity["properties"]:
            yield (granularity["granularity"], found["property"]), found["verdict"]


def known_level(name: str) -> bool:
    """Say whether this is a level one can expect."""
    return name in LEVELS and name != NOTHING
