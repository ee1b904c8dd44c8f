"""A level looked up among all base states is the one the judge's search finds."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cvs.suite.judged import searched
from cvs.suite.lattice import Lattice, is_pairwise, level, showing

TOPS = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)


@st.composite
def runs(draw):
    """A world, what its view shows at each cut (few values: many cuts show the same), and what was seen of it."""
    tops = draw(TOPS)
    cuts = list(product(*(range(top + 1) for top in tops)))
    shown = {cut: draw(st.integers(0, 3)) for cut in cuts}
    wandering = draw(st.lists(st.sampled_from(cuts), max_size=8))
    walk = sorted(wandering, key=sum) if draw(st.booleans()) else wandering
    states = [shown[cuts[0]], *(shown[cut] for cut in walk), draw(st.sampled_from([shown[cuts[-1]], 0, 7]))]
    seen = [state for i, state in enumerate(states) if not i or states[i - 1] != state]
    return tops, shown, seen


@given(runs())
def test_the_level_looked_up_is_the_level_searched(run):
    """Not converged, converged, weak (pairwise strong or not), strong, complete: both say the same."""
    tops, shown, seen = run
    lattice = Lattice(tops)
    cuts_of = showing(shown.values())
    sets = [cuts_of.get(state, 0) for state in seen]
    found, pairs = searched(tops, shown.__getitem__, seen)
    assert level(lattice, sets) is found
    if found.value == "weak":
        assert is_pairwise(lattice, sets) == pairs
