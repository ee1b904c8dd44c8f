"""Where a snapshot of one row looks for it."""

import random
from typing import Any

import pytest

from cvs.model.expressions import Column
from cvs.model.signature import Signature
from cvs.model.stages import DistinctStage, Edge, Plan, Publication, Zone
from cvs.model.views import BaseTable, Named
from cvs.programs.stage_bucket import SENTINEL, BucketRead, ReadBucket, StateRow, drive
from cvs.programs.stage_codec import framed
from cvs.programs.stage_publish import PublishCompute
from cvs.programs.stage_snapshot import MovedOnError, SnapshotReader, _as_of
from cvs.programs.stage_zone import ZoneCompute
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import World

BASE = BaseTable(name="t", columns=(("a", "int"), ("b", "int")), partition_key=("a",))
TYPED = (("a", "int"), ("b", "int"))
BUCKETS = 4


def edge(source: str, *names: str) -> Edge:
    columns = zip(("a", "b"), names, strict=True)
    return Edge(source=source, columns=tuple(Named(name=to, expression=Column(of)) for to, of in columns))


def asked_for(*edges: Edge) -> list[ReadBucket]:
    """Return what is read for the row (1, 2) of a view that takes rows of one stage over these edges."""
    stage = DistinctStage(name="d", inputs=(edge("t", "a", "b"),), output=TYPED)
    publication = Publication(
        view="v", table="k.v", inputs=edges, columns=TYPED, partition_key=("a",), clustering=(("b", False),)
    )
    plan = Plan(
        bases=(BASE,),
        zones=(Zone(name="z", stages=(stage,), buckets=BUCKETS),),
        publications=(publication,),
    )
    zones = [ZoneCompute(zone, plan) for zone in plan.zones]
    reader = SnapshotReader(PublishCompute(publication, plan), zones, {"z": "z"})
    asked: list[ReadBucket] = []

    def nothing(requests: list[ReadBucket]) -> list[BucketRead]:
        asked.extend(requests)
        return [BucketRead(signature=Signature(incarnation=1, version=0), rows={}) for _ in requests]

    assert drive(reader.rows(0, key=(1, 2)), nothing) == {}
    return asked


def test_a_key_that_is_the_stages_own_asks_for_one_row() -> None:
    (only,) = asked_for(edge("d", "a", "b"))
    assert not only.everything
    assert len(only.prefixes) == 1


def test_edges_of_one_source_that_agree_about_the_key_ask_for_one_row() -> None:
    assert asked_for(edge("d", "a", "b"), edge("d", "a", "b")) == asked_for(edge("d", "a", "b"))


def test_edges_of_one_source_that_disagree_about_the_key_ask_for_everything() -> None:
    """The row may have come over either edge: (1, 2) as it stands, or (2, 1) with its columns changed about."""
    asked = asked_for(edge("d", "a", "b"), edge("d", "b", "a"))
    assert [request.bucket for request in asked] == list(range(BUCKETS))
    assert {request.prefixes for request in asked} == {(framed(b"0", b"c"),)}, "all rows of the stage"


def test_groups_are_read_without_the_values_that_are_kept_beside_them() -> None:
    """What a snapshot of MIN costs follows the number of groups, not of values."""
    case = next(case for case in CASES if case.name == "by_city")
    world = World(case, random.Random(1))
    for _ in range(40):
        world.write()
    world.epoch()
    seen = []

    def door(requests: list[ReadBucket]) -> list[BucketRead]:
        answers = world.door(requests)
        seen.extend(row for answer in answers for row in answer.rows)
        return list(answers)

    (publication,) = world.program.publications
    reader = SnapshotReader(publication, world.program.zones, world.program.tables)
    assert len(drive(reader.rows(1), door)) == len(world.shown()) == len(seen)
    assert len(seen) < sum(len(rows) for (table, _), rows in world.door.rows.items() if table != "control")


@pytest.mark.parametrize(
    ("row", "strict", "seen"),
    [
        (StateRow(b"now", 5, True, b"before", 4, True), True, b"now"),
        (StateRow(b"now", 4, True), True, b"now"),
        (StateRow(b"", 5, False, b"before", 4, True), True, None),
        (StateRow(b"now", 6, True, b"before", 5, True), True, b"before"),
        (StateRow(b"now", 6, True, b"", 0, False), True, None),
        (StateRow(b"", 6, False, b"before", 5, True), True, b"before"),
        (StateRow(b"now", 7, True, b"before", 5, True), False, b"before"),
        (StateRow(b"now", 7, True, b"before", 5, True), True, MovedOnError),
    ],
)
def test_a_row_is_read_as_of_the_committed_epoch(row: StateRow, strict: bool, seen: Any) -> None:
    """Epoch 5 is committed, 6 may be running; of 7 nobody knows any more what was in 5."""
    signature = Signature(incarnation=1, version=6)
    found = BucketRead(signature=signature, rows={SENTINEL: row, b"key": row})
    if seen is MovedOnError:
        with pytest.raises(MovedOnError):
            _as_of(found, 5, strict=strict)
    else:
        assert _as_of(found, 5, strict=strict) == ({} if seen is None else {b"key": seen})
