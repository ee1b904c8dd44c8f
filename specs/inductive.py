"""The core of the epoch protocol for any number of epochs, drivers, values and late requests: a proof by z3.

TLC looks at small worlds; this asks z3 whether an invariant of one bucket and the control row survives *every*
step from *every* state that satisfies it. If no step breaks it, it holds for ever, whatever the bounds.

    state      c, and of the bucket: signature, now, before (its row is at epoch = signature)
    view(e)    what the view says at epoch e; touched(e): epoch e changes the bucket (else view(e) = view(e - 1))
    request    any test-and-set on its way: (condition, e, now, before), by whatever driver, however old

    Committed  the row as of c is view(c): each epoch took effect exactly once
    Passed     a committed epoch that touched the bucket is in its signature
    Harmless   a request of a committed epoch cannot be applied; one of c + 1 that can be applied says view(c + 1)

    python specs/inductive.py        exit code 0: every step keeps the invariant; 1: z3 found one that breaks it
    python specs/inductive.py RULE   the same without a rule: "exact condition", "permanent signature", "commit known",
                                     "stop when newer"
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import z3

RULES = ("exact condition", "permanent signature", "commit known", "stop when newer")

view = z3.Function("view", z3.IntSort(), z3.IntSort())
touched = z3.Function("touched", z3.IntSort(), z3.BoolSort())


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The control row's committed epoch and one bucket."""

    c: z3.ArithRef
    signature: z3.ArithRef
    now: z3.ArithRef
    before: z3.ArithRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A test-and-set that may arrive at any time."""

    condition: z3.ArithRef
    e: z3.ArithRef
    now: z3.ArithRef
    before: z3.ArithRef


def pure() -> z3.BoolRef:
    """An epoch is a function of what is pinned: where it does not touch the bucket, the view stays."""
    e = z3.Int("e")
    return z3.ForAll([e], z3.Or(touched(e), view(e) == view(e - 1)))


def invariant(s: State) -> z3.BoolRef:
    e = z3.Int("e")
    committed = z3.And(
        s.c >= 0,
        s.signature >= 0,
        s.signature <= s.c + 1,
        z3.Implies(s.signature <= s.c, s.now == view(s.c)),
        z3.Implies(s.signature == s.c + 1, z3.And(s.before == view(s.c), s.now == view(s.c + 1))),
    )
    passed = z3.ForAll([e], z3.Implies(z3.And(e >= 1, e <= s.c, touched(e)), s.signature >= e))
    return z3.And(committed, passed)


def harmless(r: Request, s: State) -> z3.BoolRef:
    current = z3.And(r.before == view(s.c), r.now == view(s.c + 1))
    return z3.And(
        r.condition >= 0,
        r.condition < r.e,
        r.e >= 1,
        r.e <= s.c + 1,
        touched(r.e),
        z3.Implies(r.e <= s.c, s.signature >= r.e),
        z3.Implies(z3.And(r.e == s.c + 1, s.signature == r.condition), current),
    )


def state(name: str) -> State:
    return State(**{part: z3.Int(f"{part}{name}") for part in ("c", "signature", "now", "before")})


def request(name: str) -> Request:
    return Request(**{part: z3.Int(f"{part}{name}") for part in ("condition", "e", "now", "before")})


def obligations(off: str = "") -> Iterator[tuple[str, z3.BoolRef, z3.BoolRef]]:
    """Yield (step, what is known before, what must hold after) for every step of the protocol."""
    s, r, other = state(""), request("_r"), request("_other")
    known = z3.And(pure(), invariant(s), harmless(r, s), harmless(other, s))

    zero = z3.IntVal(0)
    first = State(c=zero, signature=zero, now=view(zero), before=view(zero))
    yield "init", pure(), invariant(first)

    # Apply: a request arrives whose condition the bucket meets.
    meets = s.signature == r.condition if off != "exact condition" else z3.BoolVal(True)
    after = replace(s, signature=r.e, now=r.now, before=r.before)
    yield "apply", z3.And(known, meets), z3.And(invariant(after), harmless(other, after))

    # Compute: a driver of epoch e, begun when e - 1 was committed, reads the bucket and sends what follows from it.
    e = z3.Int("e_driver")
    began = z3.And(e >= 1, e <= s.c + 1, touched(e))
    older = s.signature < e if off != "stop when newer" else z3.BoolVal(True)
    sent = Request(condition=s.signature, e=e, now=s.now + view(e) - view(e - 1), before=s.now)
    yield "compute", z3.And(known, began, older), harmless(sent, s)

    # Commit: the driver knows the bucket's signature reached the epoch, if the epoch touched it.
    done = z3.Implies(touched(s.c + 1), s.signature >= s.c + 1)
    if off == "commit known":
        done = z3.BoolVal(True)
    after = replace(s, c=s.c + 1)
    yield "commit", z3.And(known, done), z3.And(invariant(after), harmless(other, after))

    # Collect: dead rows may go, their signature stays; without the rule it goes too.
    if off == "permanent signature":
        after = replace(s, signature=zero)
        yield (
            "collect",
            z3.And(known, s.now == 0, s.signature <= s.c),
            z3.And(invariant(after), harmless(other, after)),
        )


def broken(off: str = "") -> list[str]:
    """Return the steps z3 could not show to keep the invariant."""
    found = []
    for name, before, after in obligations(off):
        solver = z3.Solver()
        solver.set("timeout", 20_000)
        solver.add(before, z3.Not(after))
        if solver.check() != z3.unsat:
            found.append(name)
    return found


def vacuous() -> bool:
    """Say whether no state at all satisfies what is assumed: then nothing would have been shown."""
    s, r = state(""), request("_r")
    solver = z3.Solver()
    solver.add(invariant(s), harmless(r, s), s.c == 3, view(3) == 7, view(4) == 9, s.signature == r.condition)
    solver.add(view(2) == 7, view(1) == 7, touched(4), z3.Not(touched(3)), r.e == 4)
    return bool(solver.check() != z3.sat)


def main() -> int:
    off = sys.argv[1] if len(sys.argv) > 1 else ""
    if off and off not in RULES:
        print(f"no rule {off!r}; one of {', '.join(RULES)}", file=sys.stderr)
        return 2
    steps = broken(off)
    print(f"broken by: {', '.join(steps)}" if steps else "every step keeps the invariant")
    return 1 if steps or vacuous() else 0


if __name__ == "__main__":
    sys.exit(main())
