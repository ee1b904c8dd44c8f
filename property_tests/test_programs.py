"""Programs under schedules that Hypothesis chooses and shrinks: at their prediction whatever happens."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cvs.programs.predicted import predicted
from cvs.simulate.scheduler import replayed
from cvs.simulate.world import Scenario
from cvs.suite.classes import CLASSES
from cvs.suite.judged import judged
from cvs.suite.story import Story, story_of, text_of

GUARDED = [
    (shape, variant)
    for shape in CLASSES
    for variant in shape.variants
    if variant.name in ("signature", "multiplicities", "reverse-join", "kept", "counter-column")
]

MANAGERS = st.integers(0, 2)
STEPS = st.one_of(
    st.just(("write", 0, 0)),
    st.tuples(st.just("take"), MANAGERS, st.integers(0, 2)),
    st.tuples(st.just("go"), MANAGERS, st.just(0)),
    st.tuples(st.just("go"), MANAGERS, st.just(0)),
    st.tuples(st.sampled_from(["lose", "drop", "delay", "crash", "takeover"]), MANAGERS, st.just(0)),
    st.tuples(st.sampled_from(["arrive", "checkpoint"]), MANAGERS, st.just(0)),
)


def rows_of(shape, table):
    columns = {name: st.sampled_from(domain) for name, domain in shape.domains[table].items()}
    return st.fixed_dictionaries(columns)


@st.composite
def worlds(draw):
    shape, variant = draw(st.sampled_from(GUARDED))
    writes = []
    for _ in range(draw(st.integers(1, 6))):
        table = draw(st.sampled_from(sorted(shape.domains)))
        key = draw(st.integers(1, 2))
        row = draw(st.none() | rows_of(shape, table))
        writes.append((table, (key,), None if row is None else {"k": key, **row}))
    scenario = Scenario(
        program=variant.program,
        policy=variant.policy,
        writes=tuple(writes),
        managers=draw(st.integers(1, 3)),
        streams=draw(st.integers(1, 3)),
        remember=draw(st.booleans()),
        definition=shape.recorded_definition,
        tables=tuple(shape.tables.values()),
    )
    schedule = tuple(draw(st.lists(STEPS, max_size=60)))
    return Story(view=shape.name, program=variant.name, scenario=scenario, schedule=schedule)


@given(worlds())
def test_guarded_programs_keep_their_level_under_any_schedule(story):
    judgement = judged(replayed(story.scenario, story.schedule), story.shape)
    record, whole = predicted(story.view, story.program, "zombies")
    assert judgement.record.reaches(record), text_of(story)
    assert judgement.view.reaches(whole), text_of(story)


@given(worlds())
def test_a_story_survives_being_written_down(story):
    again = story_of(text_of(story))
    assert again == replace(story, words=again.words)
    assert replayed(again.scenario, again.schedule).shown == replayed(story.scenario, story.schedule).shown
