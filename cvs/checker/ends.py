"""How a whole view ended, told by its records: it shows what they show, and nothing else."""

from collections.abc import Iterable
from typing import Any

from cvs.checker.subject import Index
from cvs.checker.verdict import Finding, Verdict, Witness

Answer = tuple[Verdict, Witness | None, str, str]  # verdict, evidence, tier, reason


def ends_of(records: Iterable[Finding], index: Index) -> Answer | None:
    """Return whether a written view converged if its records say: all of them did, or one did not.

    `records` are what was found about the end of every record that a base state shows or somebody wrote; where it is
    not known which those are, they say nothing of the whole.
    """
    found = list(records)
    bad = next((finding for finding in found if finding.verdict is Verdict.VIOLATED), None)
    if bad is not None:
        witness = Witness(kind="final", facts=_facts(bad))
        return Verdict.VIOLATED, witness, bad.tier, "a record is not"
    all_there = index.known and index.lattice(None).known
    if found and all_there and all(finding.verdict is Verdict.HOLDS for finding in found):
        return Verdict.HOLDS, Witness(kind="final"), "value", ""
    return None


def _facts(record: Finding) -> dict[str, Any]:
    """Return what one record showed at the end, and should have."""
    facts = record.witness.facts if record.witness is not None else {}
    return {
        name: frozenset({(record.key, value)}) if value is not None else frozenset()
        for name, value in facts.items()
    }
