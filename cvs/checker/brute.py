"""Tiny, obvious, exponential: the definitions of the levels written out. Exists to disagree.

Shares nothing with the search but the shape of a problem. Use below a few hundred cuts and a dozen states.
"""

import itertools
from collections.abc import Callable, Hashable

Cut = tuple[int, ...]
Meaning = Callable[[Cut], Hashable]


def cuts(tops: Cut) -> list[Cut]:
    """List every base state."""
    return list(itertools.product(*(range(top + 1) for top in tops)))


def leq(a: Cut, b: Cut) -> bool:
    """Compare two base states as paper 001 does."""
    return all(x <= y for x, y in zip(a, b, strict=True))


def explanations(tops: Cut, meaning: Meaning, state: Hashable) -> list[Cut]:
    """List the base states whose view is this state."""
    return [cut for cut in cuts(tops) if meaning(cut) == state]


def converged(tops: Cut, meaning: Meaning, states: tuple[Hashable, ...]) -> bool:
    """V_f = View(B_f)."""
    return meaning(tops) == states[-1]


def weak(tops: Cut, meaning: Meaning, states: tuple[Hashable, ...]) -> bool:
    """Every state has an explanation."""
    return all(explanations(tops, meaning, state) for state in states)


def pairwise(tops: Cut, meaning: Meaning, states: tuple[Hashable, ...]) -> bool:
    """Every pair of states has a pair of ordered explanations."""
    return weak(tops, meaning, states) and all(
        any(
            leq(a, b)
            for a in explanations(tops, meaning, states[i])
            for b in explanations(tops, meaning, states[j])
        )
        for i, j in itertools.combinations(range(len(states)), 2)
    )


def chain(tops: Cut, meaning: Meaning, states: tuple[Hashable, ...]) -> bool:
    """One monotone sequence explains all: keep every cut that can stand at each step."""
    standing = explanations(tops, meaning, states[0])
    for state in states[1:]:
        options = explanations(tops, meaning, state)
        standing = [b for b in options if any(leq(a, b) for a in standing)]
    return bool(standing)


def serializations(tops: Cut) -> list[list[Cut]]:
    """List every path from the first base state to the last, one update a step."""
    updates = [index for index, top in enumerate(tops) for _ in range(top)]
    paths = []
    for order in set(itertools.permutations(updates)):
        at = [0] * len(tops)
        path = [tuple(at)]
        for index in order:
            at[index] += 1
            path.append(tuple(at))
        paths.append(path)
    return paths


def stutter_free(values: list[Hashable]) -> list[Hashable]:
    """Drop repetitions."""
    return [value for value, _ in itertools.groupby(values)]


def complete(tops: Cut, meaning: Meaning, states: tuple[Hashable, ...]) -> bool:
    """Some serialization shows exactly these states."""
    shown = stutter_free(list(states))
    return any(stutter_free([meaning(c) for c in path]) == shown for path in serializations(tops))
