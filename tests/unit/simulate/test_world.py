import msgspec
import pytest

from cvs.model.views import AggregateFunction
from cvs.programs.aggregate import Aggregated, AggregateProgram
from cvs.programs.machine import Policy
from cvs.programs.rows import column
from cvs.simulate.scheduler import CALM, CRASHES, ZOMBIES, replayed, simulated
from cvs.simulate.world import Scenario, World

COUNT = AggregateProgram(
    view="v",
    table="r",
    group=(("x", column("x")),),
    aggregates=(
        Aggregated(name="n", function=AggregateFunction.COUNT),
        Aggregated(name="sum", function=AggregateFunction.SUM, argument=column("y")),
    ),
)


def row(x, y):
    return {"x": x, "y": y}


WRITES = tuple(
    ("r", (k,), row(x, y) if x else None)
    for k, x, y in [
        (1, "a", 1), (2, "a", 2), (1, "b", 3), (3, "a", 4), (2, None, 0), (2, "b", 5), (1, "a", 6),
        (3, "b", 7),
    ]
)  # fmt: skip


def scenario(**more):
    return Scenario(
        **{
            "program": COUNT,
            "initial": (("r", (9,), row("a", 10)),),
            "writes": WRITES,
            "managers": 3,
            "streams": 2,
            **more,
        }
    )


RIGHT = {("a",): {"x": "a", "n": 2, "sum": 16}, ("b",): {"x": "b", "n": 2, "sum": 12}}


@pytest.mark.parametrize("faults", [CALM, CRASHES, ZOMBIES])
@pytest.mark.parametrize("remember", [False, True])
def test_every_run_ends_at_the_view_of_the_last_base_state(faults, remember):
    for seed in range(40):
        world, _ = simulated(scenario(remember=remember), faults, seed)
        assert world.store.view() == RIGHT


def test_the_same_seed_gives_the_same_history_byte_for_byte():
    def history(seed):
        world, schedule = simulated(scenario(), ZOMBIES, seed, record=True)
        return schedule, b"\n".join(msgspec.json.encode(event) for event in world.events)

    assert history(7) == history(7)
    assert history(7)[1] != history(8)[1]


def test_a_schedule_replays_to_the_same_states():
    world, schedule = simulated(scenario(), ZOMBIES, 11)
    assert replayed(scenario(), schedule).shown == world.shown


def test_recording_changes_nothing():
    quiet, loud = (simulated(scenario(), ZOMBIES, 3, record=r)[0] for r in (False, True))
    assert quiet.shown == loud.shown
    assert not quiet.events
    assert loud.events


def test_without_the_signature_check_a_redelivered_entry_counts_twice():
    counter = scenario(policy=Policy(signature_check=False))
    ends = [simulated(counter, CRASHES, seed)[0].store.view() for seed in range(20)]
    assert any(end != RIGHT for end in ends)


def test_a_crash_forgets_and_hands_the_stream_over_again():
    world = World(scenario(managers=1, streams=1, writes=WRITES[:1]))
    for step in [("write", 0, 0), ("take", 0, 0), ("go", 0, 0), ("go", 0, 0), ("go", 0, 0)]:
        assert world.take(step)
    assert len(world.shown) == 1  # applied, the answer still on its way
    assert world.take(("crash", 0, 0))
    assert world.positions == [0]
    world.finish()
    assert world.positions == [1]
    assert len(world.shown) == 1  # delivered again, absorbed once


def test_a_zombie_finishes_what_it_had_begun_and_harms_nothing():
    world = World(scenario(managers=2, streams=1, writes=WRITES[:1]))
    for step in [("write", 0, 0), ("take", 0, 0), ("go", 0, 0), ("go", 0, 0), ("takeover", 0, 0)]:
        assert world.take(step)
    assert world.take(("take", 1, 0))
    while world.tasks[1]:
        world.take(("go", 1, 0))
    assert len(world.shown) == 1
    world.finish()
    assert len(world.shown) == 1


def test_a_delayed_request_that_arrives_after_a_second_try_is_refused():
    world = World(scenario(managers=1, streams=1, writes=WRITES[:1]))
    for step in [("write", 0, 0), ("take", 0, 0), ("go", 0, 0), ("go", 0, 0), ("delay", 0, 0)]:
        assert world.take(step)
    while world.tasks[0]:
        world.take(("go", 0, 0))
    assert world.take(("arrive", 0, 0))
    assert len(world.shown) == 1


def test_steps_without_meaning_change_nothing():
    world = World(scenario(managers=1, streams=1, writes=()))
    for step in [("write", 0, 0), ("take", 0, 0), ("go", 0, 0), ("arrive", 0, 0), ("checkpoint", 0, 0)]:
        assert not world.take(step)
    assert not world.take(("takeover", 0, 0))
    assert not world.take(("go", 7, 0))


def test_without_flow_control_entries_may_overtake_each_other():
    world = World(scenario(managers=2, streams=1, writes=WRITES[:2], flow_control=False))
    for step in [("write", 0, 0), ("write", 0, 0), ("take", 0, 1)]:
        assert world.take(step)
    assert world.tasks[0].entry.entry == 2
