"""Levels, properties and what implies what."""

from itertools import pairwise

from cvs.model.levels import REQUIRED, Granularity, Level, Property, crosses, implies, level_of
from cvs.model.timeline import Timeline, all_cuts, base_state, final_cut, initial_cut, not_after


def test_each_level_asks_for_one_property_more() -> None:
    """The ladder has no gaps and no forks."""
    for lower, higher in pairwise(Level):
        assert len(set(REQUIRED[higher]) - set(REQUIRED[lower])) == 1
        assert higher.reaches(lower)
        assert not lower.reaches(higher)


def test_implications_are_closed_and_have_no_cycle() -> None:
    """Complete implies everything but the recorded order; nothing implies something stronger."""
    assert implies(Property.COMPLETE_RECORDED, Property.CONVERGED)
    assert implies(Property.STRONG, Property.STRONG_PAIRWISE)
    assert not implies(Property.STRONG_PAIRWISE, Property.STRONG)
    assert not implies(Property.COMPLETE, Property.COMPLETE_RECORDED)


def test_required_properties_are_closed_under_implication_of_their_own_kind() -> None:
    """Whatever a level requires, its implied headline properties are required too."""
    for level, required in REQUIRED.items():
        for stronger in required:
            implied = {p for p in (Property.CONVERGED, Property.WEAK) if implies(stronger, p)}
            assert implied <= set(required), level


def test_the_view_speaks_for_its_records_and_not_the_other_way() -> None:
    """A torn group move is right in each record and wrong in the view."""
    assert crosses(Granularity.RECORD, Granularity.VIEW)
    assert not crosses(Granularity.VIEW, Granularity.RECORD)


def test_level_of_a_set_of_properties() -> None:
    """Pairwise strong alone is weak."""
    assert level_of(set()) is Level.NOT_CONVERGED
    assert level_of({Property.CONVERGED, Property.WEAK, Property.STRONG_PAIRWISE}) is Level.WEAK
    assert level_of(set(Property)) is Level.COMPLETE


def test_cuts_are_all_combinations_of_prefixes() -> None:
    """Not only the states of one global order (001, model)."""
    a, b = ("t", (1,)), ("t", (2,))
    timelines = {
        a: Timeline(record=a).grown({"k": 1}).grown(None),
        b: Timeline(record=b, images=({"k": 2},)).grown({"k": 2, "y": 1}),
    }
    cuts = list(all_cuts(timelines))
    assert len(cuts) == 6
    assert cuts[0] == initial_cut(timelines)
    assert cuts[-1] == final_cut(timelines) == {a: 2, b: 1}
    assert base_state(timelines, {a: 1, b: 0}) == {"t": [{"k": 1}, {"k": 2}]}
    assert not_after({a: 1, b: 0}, {a: 2, b: 0})
    assert not not_after({a: 1, b: 0}, {a: 0, b: 1})
    assert timelines[a].versions_showing(None) == [0, 2]
