"""From subjects to findings: certificates first, then the value tier; the ladder last.

For each subject: the cuts that the certificates name are re-evaluated against the base log; where they
explain every state in order, the chain is proved. Where they do not, the value tier searches within the
budget. Where that stays undecided and the certificates are true, the lineage verdict stands and says so.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from cvs.checker import cuts as search
from cvs.checker.components import Decider, by_component
from cvs.checker.ends import Answer
from cvs.checker.forms import EXTREMES
from cvs.checker.lineage import Lineage
from cvs.checker.problem import PLENTY, Problem, below, moved
from cvs.checker.replay import Run
from cvs.checker.subject import Index, Lattice, Subject, problem_of, staleness
from cvs.checker.verdict import Cut, Exhausted, Finding, Purse, Verdict, Witness, used_up, worst


@dataclass(slots=True, kw_only=True)
class Judged:
    """Everything found about one subject, with what is needed to re-check and explain it."""

    subject: Subject
    lattice: Lattice
    problem: Problem
    lineage: Lineage
    findings: list[Finding]
    torn: list[tuple[int, int, int]] = field(default_factory=list)  # first, last position, nanoseconds

    def finding(self, name: str) -> Finding:
        """Return one of the findings by its property."""
        return next(f for f in self.findings if f.property == name)


def judge_subject(
    subject: Subject, lineage: Lineage, *, index: Index, run: Run, purse: Purse, ends: Answer | None = None
) -> Judged:
    """Decide every property of one subject; `ends`: how a whole view ended, if its records told."""
    lattice = index.lattice(subject.key)
    problem = problem_of(subject, lattice, index, run)
    case = _Case(subject, lattice, problem, lineage, run, purse, index)
    own: dict[str, Answer] = {"converged": case.converged()}
    if own["converged"][0] is Verdict.UNDECIDED and ends is not None:
        own["converged"] = ends
    own["strong"] = case.strong()
    own["weak"] = case.weak(own["strong"])
    own["strong-pairwise"] = case.pairwise(own["strong"], own["weak"])
    own["complete"] = case.complete(own["strong"])
    own["complete-recorded-order"] = case.recorded(own["complete"])
    own["no-future"] = case.no_future(own["weak"])
    needs: dict[str, tuple[str, ...]] = {
        "weak": ("converged",),
        "strong-pairwise": ("converged", "weak"),
        "strong": ("converged", "weak"),
        "complete": ("converged", "weak", "strong"),
        "complete-recorded-order": ("converged", "weak", "strong"),
    }
    if own["complete"][0] is Verdict.VIOLATED:  # then no order shows it, the recorded one neither
        needs["complete-recorded-order"] += ("complete",)
    findings = [case.finding(name, own, needs.get(name, ())) for name in own]
    if lineage.certified or lineage.false_lines:
        findings.append(case.certificates())
    judged = Judged(subject=subject, lattice=lattice, problem=problem, lineage=lineage, findings=findings)
    judged.torn = (
        torn_windows(subject, case.explained, run.first_time, run.last_time) if lineage.certified else []
    )
    findings.append(case.staleness(own["strong"]))
    return judged


@dataclass(slots=True)
class _Case:
    subject: Subject
    lattice: Lattice
    problem: Problem
    lineage: Lineage
    run: Run
    purse: Purse
    index: Index
    explained: list[bool] = field(default_factory=list)
    cuts: tuple[Cut, ...] = ()

    def __post_init__(self) -> None:
        """Re-evaluate every cut the certificates name (C4)."""
        self.cuts = tuple(self.lattice.compressed(self.lineage.cuts))
        shown = self.problem.explained(self.cuts, PLENTY)
        certain = not self.subject.ambiguous
        self.explained = [
            certain and named and fits for named, fits in zip(self.lineage.explained, shown, strict=True)
        ]

    def _try(self, decide: Decider, problem: Problem | None = None) -> Answer:
        if self.subject.ambiguous:
            why = "whether a test-and-set with an unknown outcome took effect, and when, is not known"
            return Verdict.UNDECIDED, None, "value", why
        if not self.lattice.known:
            return (
                Verdict.UNDECIDED,
                None,
                "value",
                "part of the base log is missing, or its order is not known",
            )
        try:
            with self.purse.question() as budget:
                verdict, witness = decide(problem or self.problem, budget)
        except Exhausted:
            return Verdict.UNDECIDED, None, "value", used_up(budget.first, self.purse.each)
        if verdict is Verdict.VIOLATED and self.lattice.uncertain:
            return (
                Verdict.UNDECIDED,
                witness,
                "value",
                "a base update with an unknown outcome could explain it",
            )
        return verdict, witness, "value", ""

    def converged(self) -> Answer:
        if not self.subject.kept:
            return Verdict.HOLDS, None, "value", "it is not kept at the end, which claims nothing"
        if not self.run.quiescent:
            return Verdict.UNDECIDED, None, "value", "the run did not say that it came to rest"
        answer = self._try(search.converged)
        if self.subject.final_uncertain and self.subject.sampled:
            late = answer[0] is not Verdict.HOLDS
            return (
                (Verdict.UNDECIDED, None, "value", "nobody read it after the run came to rest")
                if late
                else answer
            )
        if self.subject.final_uncertain:  # whoever holds here might not, after it, and the other way round
            return Verdict.UNDECIDED, answer[1], "value", "the last test-and-set may or may not have happened"
        return answer

    def strong(self) -> Answer:
        if all(self.explained) and self.lineage.rising and _rising(self.cuts):
            return Verdict.HOLDS, Witness(kind="chain", cuts=self.cuts), "lineage", ""
        answer = self._settled(by_component(search.chain))
        return self._by_lineage(answer, back=True)

    def _by_lineage(self, answer: Answer, *, back: bool) -> Answer:
        """Where values are undecided: what true certificates say that the program held at some moment for certain.

        Of views that are no folds it says nothing: a row may hold versions of base records it does not show.
        """
        lineage, subject = self.lineage, self.subject
        true = lineage.verdict is Verdict.HOLDS and not self.lattice.uncertain
        true = true and (self.index.meaning.linear or subject.granularity == "snapshots")
        if answer[0] is not Verdict.UNDECIDED or not true or subject.ambiguous:
            return answer
        in_order = subject.ordered or subject.shown
        certain = (i for i, state in enumerate(subject.states) if in_order or state.quiet)
        where = next((i for i in certain if not lineage.explained[i]), None)
        if where is None and back and in_order:
            where = lineage.first_back
        if where is None:
            return answer
        return Verdict.VIOLATED, Witness(kind="held", positions=(where,)), "lineage", ""

    def _settled(self, decide: Decider) -> Answer:
        """Search; where the order of the states is not certain, a violation must show in the certain ones."""
        answer = self._try(decide)
        if answer[0] is not Verdict.VIOLATED or self.subject.ordered:
            return answer
        quiet = [i for i, state in enumerate(self.subject.states) if state.quiet]
        if not quiet:
            return (
                Verdict.UNDECIDED,
                None,
                "value",
                "writes overlap in time; another order could explain them",
            )
        again = self._try(decide, self.problem.at(quiet))
        if again[0] is Verdict.VIOLATED and again[1] is not None:
            where = tuple(quiet[p] for p in again[1].positions)
            return Verdict.VIOLATED, Witness(kind=again[1].kind, positions=where), "value", ""
        return Verdict.UNDECIDED, None, "value", "writes overlap in time; another order could explain them"

    def weak(self, strong: Answer) -> Answer:
        if strong[0] is Verdict.HOLDS and strong[1]:
            return Verdict.HOLDS, Witness(kind="cuts", cuts=strong[1].cuts), strong[2], ""
        if all(self.explained):
            return Verdict.HOLDS, Witness(kind="cuts", cuts=self.cuts), "lineage", ""
        weak = by_component(search.weak)
        answer = self._try(weak) if self.subject.shown else self._settled(weak)
        return self._by_lineage(answer, back=False)

    def pairwise(self, strong: Answer, weak: Answer) -> Answer:
        if strong[0] is Verdict.HOLDS:
            return strong
        if weak[0] is not Verdict.HOLDS:
            return weak
        return self._settled(search.pairwise)

    def complete(self, strong: Answer) -> Answer:
        if strong[0] is not Verdict.HOLDS:
            return strong
        if self.subject.gaps:
            return Verdict.UNDECIDED, None, "value", "what was there while it was not kept is not known"
        path = self._bridge() if strong[2] == "lineage" else None
        if path is not None:
            return Verdict.HOLDS, Witness(kind="path", cuts=path), "lineage", ""
        return self._unsure_if_unordered(self._try(search.complete))

    def _unsure_if_unordered(self, answer: Answer) -> Answer:
        if answer[0] is Verdict.VIOLATED and self.subject.sampled:
            return (
                Verdict.UNDECIDED,
                answer[1],
                answer[2],
                "only reads are known: what is missing may have been there unread",
            )
        if answer[0] is Verdict.VIOLATED and not self.subject.ordered:
            return Verdict.UNDECIDED, answer[1], answer[2], "writes overlap in time"
        return answer

    def _bridge(self) -> tuple[Cut, ...] | None:
        """Refine the chain into a serialization step by step: each gap is a small problem of its own."""
        path = [self.problem.bottom]
        last = len(self.cuts) - 1
        try:
            with self.purse.question() as budget:
                if not self.problem.explains(self.problem.bottom, 0, budget):
                    return None
                for position, cut in enumerate([*self.cuts, self.problem.tops]):
                    if cut == path[-1]:
                        continue
                    pair = (max(position - 1, 0), min(position, last))
                    part, places = self.problem.between(path[-1], cut, pair)
                    verdict, witness = search.complete(part, budget)
                    if verdict is not Verdict.HOLDS:
                        return None
                    low = path[-1]
                    path.extend(moved(low, places, step) for step in witness.cuts[1:])
        except Exhausted:
            return None
        return tuple(path)

    def recorded(self, complete: Answer) -> Answer:
        if self.problem.order is None:
            return Verdict.UNDECIDED, None, "value", "the order of the base updates is not known"
        if complete[0] is Verdict.VIOLATED or self.subject.gaps:
            return complete
        return self._unsure_if_unordered(self._try(search.complete_recorded))

    def no_future(self, weak: Answer) -> Answer:
        if weak[0] is not Verdict.HOLDS:
            return Verdict.UNDECIDED, None, weak[2], "needs weak"
        ceilings = self.problem.ceilings or ()
        if all(self.explained) and all(below(c, top) for c, top in zip(self.cuts, ceilings, strict=True)):
            return Verdict.HOLDS, Witness(kind="cuts", cuts=self.cuts), "lineage", ""
        return self._try(search.no_future)

    def certificates(self) -> Finding:
        lines = self.lineage.false_lines
        wrong = next((i for i, ok in enumerate(self.explained) if not ok and self.lineage.explained[i]), None)
        if lines:
            first = lines[0]
            witness = Witness(
                kind="certificate", events=(first.event,), facts={"why": first.why, "line": first.line}
            )
            verdict, event = Verdict.VIOLATED, first.event
        elif wrong is not None and self.subject.granularity == "snapshots":
            event = self.subject.states[wrong].event
            facts = {"why": "what it showed is not the view of the base state that its epoch names"}
            witness = Witness(kind="certificate", events=(event,), positions=(wrong,), facts=facts)
            verdict = Verdict.VIOLATED
        elif wrong is not None and (not self.index.meaning.linear or self._reads_base()):
            why = "the row is not the view of what the certificates name: the program reads base records too"
            return self._make("certificates", Verdict.UNDECIDED, None, tier="lineage", reason=why, event=None)
        elif wrong is not None and self.subject.granularity == "record":
            event = self.subject.states[wrong].event
            facts = {"why": "the row is not the view of what was absorbed"}
            witness = Witness(kind="certificate", events=(event,), positions=(wrong,), facts=facts)
            verdict = Verdict.VIOLATED
        else:
            verdict, event, witness = Verdict.HOLDS, -1, Witness(kind="certificate")
        return self._make("certificates", verdict, witness, tier="lineage", reason="", event=event)

    def _reads_base(self) -> bool:
        """Say whether a MIN or MAX may have looked its base records up where it shows more than it absorbed.

        The paper's programs do (001, algorithms 7-9): then the row is the view of some base state that has all that
        is held, and nothing that had not been called. A row that is none of these is a false fold.
        """
        fold = self.index.meaning.fold
        if fold is None or self.subject.granularity != "record" or not self.lattice.known:
            return False
        if not any(column.function in EXTREMES for column in fold.columns):
            return False
        ceilings = self.problem.ceilings or ()
        torn = [i for i, ok in enumerate(self.explained) if not ok and self.lineage.explained[i]]
        try:
            with self.purse.question() as budget:
                shown = (search.explanation(self.problem, i, budget, ceilings[i], self.cuts[i]) for i in torn)
                return all(cut is not None for cut in shown)
        except Exhausted:
            return True

    def staleness(self, strong: Answer) -> Finding:
        if strong[0] is not Verdict.HOLDS or strong[1] is None:
            return self._make(
                "staleness", Verdict.UNDECIDED, None, tier="value", reason="there is no chain", event=None
            )
        versions, time = staleness(self.subject, self.lattice, strong[1].cuts, self.run)
        witness = Witness(kind="measure", facts={"versions": versions, "nanoseconds": time})
        return self._make("staleness", Verdict.HOLDS, witness, tier=strong[2], reason="", event=None)

    def finding(self, name: str, own: dict[str, Answer], needs: tuple[str, ...]) -> Finding:
        """Make a finding; a level also needs the levels below it."""
        verdict, witness, tier, reason = own[name]
        lower = worst(own[n][0] for n in needs)
        inherited = next((n for n in needs[1:] if own[n][0] is Verdict.VIOLATED), None)
        if inherited or (verdict is not Verdict.VIOLATED and worst((lower, verdict)) is not verdict):
            failed = inherited or next(n for n in needs if own[n][0] is lower)
            reason = f"needs {failed}"
            verdict, witness = own[failed][0], own[failed][1]
        event = None
        if witness is not None and witness.positions and verdict is not Verdict.HOLDS:
            event = self.subject.states[witness.positions[-1]].event
        return self._make(name, verdict, witness, tier=tier, reason=reason, event=event)

    def _make(
        self,
        name: str,
        verdict: Verdict,
        witness: Witness | None,
        *,
        tier: str,
        reason: str,
        event: int | None,
    ) -> Finding:
        subject = self.subject
        return Finding(
            property=name,
            verdict=verdict,
            view=subject.view,
            granularity=subject.granularity,
            key=subject.key,
            tier=tier,
            reason=reason,
            event=None if event in (None, -1) else event,
            witness=witness,
        )


def _rising(cuts: tuple[Cut, ...]) -> bool:
    return all(below(a, b) for a, b in pairwise(cuts))


def torn_windows(subject: Subject, explained: list[bool], first: int, end: int) -> list[tuple[int, int, int]]:
    """List the windows in which the certificates name no base state for what the whole view showed."""
    windows: list[tuple[int, int, int]] = []
    start: int | None = None
    for position, fits in enumerate([*explained, True]):
        if not fits and start is None:
            start = position
        if fits and start is not None:
            last = min(position, len(explained) - 1)
            since, until = (min(max(subject.states[at].returned, first), end) for at in (start, last))
            length = until - since
            if length > 0 or position == len(explained):  # what lasted no time nobody saw
                windows.append((start, position - 1, max(length, 0)))
            start = None
    return windows
