"""The independent verifier: re-checks a witness with loops anyone can read; shares no code with the search.

Positive witnesses are checked in time linear in their length. Negative ones are checked by enumeration of all
base states, without dominance or memo, up to `limit` of them; beyond it the answer is None: not re-checked.
"""

import itertools
from collections.abc import Callable, Hashable

from cvs.checker.verdict import Cut, Witness


def verify(
    claim: str,
    witness: Witness,
    *,
    tops: Cut,
    meaning: Callable[[Cut], Hashable],
    states: tuple[Hashable, ...],
    limit: int = 20_000,
) -> bool | None:
    """Say whether the witness shows the claim ("strong holds", "weak violated", ...); None: too large."""
    kind, cuts = witness.kind, witness.cuts
    inside = all(len(c) == len(tops) and all(0 <= v <= t for v, t in zip(c, tops, strict=True)) for c in cuts)
    if not inside:
        return False
    if kind == "final":
        return (meaning(tops) == states[-1]) == claim.endswith("holds")
    if kind in ("cuts", "chain"):
        explained = len(cuts) == len(states) and all(
            meaning(c) == s for c, s in zip(cuts, states, strict=True)
        )
        rising = all(all(a <= b for a, b in zip(c, d, strict=True)) for c, d in itertools.pairwise(cuts))
        return explained and (kind == "cuts" or rising) and claim.endswith("holds")
    if kind == "pairs":
        places = witness.positions
        told = {(states[i], states[j]) for i, j in zip(places[::2], places[1::2], strict=True)}
        asked = {(states[i], states[j]) for i, j in itertools.combinations(range(len(states)), 2)}
        fits = all(meaning(c) == states[p] for c, p in zip(cuts, places, strict=True))
        ordered = all(
            all(a <= b for a, b in zip(c, d, strict=True)) for c, d in zip(cuts[::2], cuts[1::2], strict=True)
        )
        return asked <= told and fits and ordered
    if kind == "path":
        one = all(sum(b - a for a, b in zip(c, d, strict=True)) == 1 for c, d in itertools.pairwise(cuts))
        shown = [v for v, _ in itertools.groupby(meaning(c) for c in cuts)]
        whole = bool(cuts) and cuts[0] == (0,) * len(tops) and cuts[-1] == tops
        return whole and one and shown == [v for v, _ in itertools.groupby(states)]
    return (
        _refuted(claim, tops, meaning, states, limit)
        if kind in ("state", "pair", "prefix", "count")
        else None
    )


def _refuted(
    claim: str, tops: Cut, meaning: Callable[[Cut], Hashable], states: tuple[Hashable, ...], limit: int
) -> bool | None:
    if claim.split()[0] not in ("weak", "strong-pairwise", "strong", "complete"):
        return None
    size = 1
    for top in tops:
        size *= top + 1
    if size * len(states) > limit or (claim.startswith("complete") and size > limit // 10):
        return None
    every = list(itertools.product(*(range(top + 1) for top in tops)))
    standing = {c for c in every if meaning(c) == states[0]}
    where = [{c for c in every if meaning(c) == s} for s in states]
    if claim.startswith("weak"):
        return not all(where)
    if claim.startswith("strong-pairwise"):
        pairs = itertools.combinations(where, 2)
        return not all(where) or not all(
            any(all(x <= y for x, y in zip(a, b, strict=True)) for a in s for b in t) for s, t in pairs
        )
    if claim.startswith("strong"):
        for options in where[1:]:
            standing = {
                d for d in options if any(all(x <= y for x, y in zip(c, d, strict=True)) for c in standing)
            }
        return not standing
    return _no_path(tops, meaning, [v for v, _ in itertools.groupby(states)])


def _no_path(tops: Cut, meaning: Callable[[Cut], Hashable], shown: list[Hashable]) -> bool:
    reach = {((0,) * len(tops), 0)} if meaning((0,) * len(tops)) == shown[0] else set()
    for _ in range(sum(tops)):
        reach = {
            (d, at)
            for c, i in reach
            for r, top in enumerate(tops)
            if c[r] < top
            for d in [(*c[:r], c[r] + 1, *c[r + 1 :])]
            for at in (i, i + 1)
            if at < len(shown) and meaning(d) == shown[at] and (at == i or shown[at] != shown[i])
        }
    return (tops, len(shown) - 1) not in reach
