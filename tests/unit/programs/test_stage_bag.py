"""Bags: what nets to zero is not there, and what was made of a bag is forgotten when it changes."""

from cvs.programs.stage_bag import Bag
from cvs.programs.stage_codec import pack

A, B = ("a", 1), ("b", None)


def test_counts_add_up_and_what_nets_to_zero_is_not_there() -> None:
    bag = Bag([(A, 2), (B, 1), (A, -1), (B, -1), (("c",), 0)])
    assert list(bag) == [(A, 1)]
    assert len(bag) == 1
    bag.add(A, -3)
    assert list(bag.named()) == [(pack(A), (A, -2))]
    bag.add(A, 2, pack(A))
    assert not len(bag)


def test_bags_are_equal_if_their_rows_and_counts_are() -> None:
    assert Bag([(A, 1), (B, 2)]) == Bag([(B, 2), (A, 1)])
    assert Bag([(A, 1)]) != Bag([(A, 2)])
    assert Bag([(A, 1)]) != Bag([(B, 1)])
    assert Bag() != []
    assert repr(Bag([(A, 1)])) == "Bag([(('a', 1), 1)])"


def test_a_bag_takes_in_another_and_leaves_it_as_it_is() -> None:
    other = Bag([(A, 1), (B, -1)])
    for into in (Bag(), Bag([(B, 1)])):
        into.extend(other)
        into.extend([(A, 2), (A, 1)])
        assert into == Bag([(A, 4)] + ([(B, -1)] if into.entries.get(pack(B)) else []))
    assert other == Bag([(A, 1), (B, -1)])
    first, second = Bag(), Bag([(B, 1)])
    first.extend(other)
    second.extend(other)
    assert (first, second) == (other, Bag([(A, 1)]))


def test_what_was_made_of_a_bag_is_forgotten_when_it_changes() -> None:
    for change in (
        lambda it: it.add(A, 1),
        lambda it: it.extend(Bag([(A, 1)])),
        lambda it: it.extend([(A, 1)]),
    ):
        bag = Bag()
        bag.sorted = "made"
        change(bag)
        assert bag.sorted is None
