"""The epoch machines on real Cassandra: the same worlds as in memory, with crashes and zombies between requests."""

import gc
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from cassandra.query import BatchStatement

from cvs.client.snapshot import ViewReader
from cvs.embedded.node import Node
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import Signature
from cvs.model.stages import Plan
from cvs.programs.epoch import commit
from cvs.programs.epoch_run import Program
from cvs.programs.stage_bucket import ReadBucket, SetBucket, StateRow, drive
from cvs.programs.stage_codec import framed
from cvs.programs.stage_delta import DropBucket, PutImages, ReadImages
from cvs.store.sending import answers_of
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream import door
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names, create
from cvs.stream.weights import BYTES_A_READ
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Case, Driver, World, as_shown, reader

pytestmark = pytest.mark.cluster


def world_on(node: Node, case: Case, seed: int) -> tuple[World, CassandraSession, Plan]:
    session = CassandraSession(ClusterAddress(contact_points=(node.address,), port=node.native_port))
    space = f"world_{uuid4().hex[:8]}"
    plan = _in_keyspace(case.plan, space)
    names = Names(keyspace=space)
    create(session, plan, names)
    opened = CassandraDoor(session, keyspace=space, publications={p.table: p for p in plan.publications})
    world = World(case, random.Random(seed), opened)
    bases = [replace(reader(base), delta=names.delta(base.name)) for base in plan.bases]
    world.program = Program.of(plan, bases, {zone.name: names.state(zone.name) for zone in plan.zones})
    return world, session, plan


def _in_keyspace(plan: Plan, space: str) -> Plan:
    (publication,) = plan.publications
    return replace(plan, publications=(replace(publication, table=f"{space}.shown"),))


def test_all_that_begins_with_a_prefix_is_read_and_nothing_else(cassandra_node: Node) -> None:
    """What lies between two prefixes is not, though it is in the same partition."""
    world, session, _ = world_on(cassandra_node, next(case for case in CASES if case.name == "left_join"), 1)
    (table,) = world.program.tables.values()
    keys = [framed(b"0", b"r", bytes([name]), bytes([row])) for name in range(20) for row in range(3)]
    rows = tuple((key, StateRow(now=key, epoch=1, alive=True)) for key in sorted(keys))
    new = Signature(incarnation=1, version=1)
    (outcome,) = world.door(
        [SetBucket(table=table, bucket=0, expected=Signature(incarnation=1), new=new, puts=rows)]
    )
    assert outcome.kind is OutcomeKind.APPLIED
    prefixes = tuple(framed(b"0", b"r", bytes([name])) for name in (1, 4, 17))
    (found,) = world.door([ReadBucket(table=table, bucket=0, prefixes=prefixes)])
    wanted = {key: row for key, row in rows if key.startswith(prefixes)}
    assert found.rows == wanted
    assert found.signature == new
    session.close()


def test_what_is_dropped_is_gone_and_an_older_put_does_not_bring_it_back(cassandra_node: Node) -> None:
    """H16: one image, or a whole bucket of notes; the put of a driver of an earlier epoch comes too late."""
    world, session, _ = world_on(cassandra_node, next(case for case in CASES if case.name == "by_city"), 1)
    table = world.program.bases[0].delta

    def put(epoch: int, *images: tuple[bytes, bytes | None], bucket: int = 0) -> PutImages:
        return PutImages(table=table, bucket=bucket, images=images, write_time=epoch)

    def found(bucket: int = 0) -> dict[bytes, bytes]:
        (images,) = world.door([ReadImages(table=table, bucket=bucket, prefixes=(b"",))])
        return dict(images)

    world.door([put(1, (b"a", b"1"), (b"b", b"1")), put(1, (b"note", b""), bucket=-5)])
    world.door([put(2, (b"a", None), (b"b", b"2")), DropBucket(table=table, bucket=-5, write_time=2)])
    world.door([put(1, (b"a", b"1"), (b"b", b"1")), put(1, (b"note", b""), bucket=-5)])
    assert (found(), found(-5)) == ({b"b": b"2"}, {})
    session.close()


def test_base_rows_whose_whole_key_is_longer_than_a_key_may_be_are_kept(cassandra_node: Node) -> None:
    """Partition and clustering may have 65,535 bytes each; DELTA has both, framed, in one clustering key."""
    world, session, _ = world_on(cassandra_node, next(case for case in CASES if case.name == "by_city"), 1)
    table = world.program.bases[0].delta
    partitions = [b"p" * 65_535, b"p" * 65_534 + b"q", b"p" * 20]
    keys = [framed(partition, c) for partition in partitions for c in (b"", b"c", b"c" * 65_535)]
    images = tuple((key, b"image of " + key[-3:]) for key in sorted([*keys, framed(partitions[0])]))
    world.door([PutImages(table=table, bucket=0, images=images, write_time=1)])
    (by_key,) = world.door([ReadImages(table=table, bucket=0, keys=tuple(keys))])
    assert by_key == {key: image for key, image in images if key in keys}
    for prefix in map(framed, partitions):
        (found,) = world.door([ReadImages(table=table, bucket=0, prefixes=(prefix,))])
        assert found == {key: image for key, image in images if key.startswith(prefix)}
    gone = tuple((key, None) for key in keys)
    world.door([PutImages(table=table, bucket=0, images=gone, write_time=2)])
    (left,) = world.door([ReadImages(table=table, bucket=0, prefixes=(b"",))])
    assert list(left) == [framed(partitions[0])]
    session.close()


@pytest.mark.parametrize("size", [40, 150, 400, 3_000])
def test_puts_of_rows_of_any_size_are_taken_without_a_warning(cassandra_node: Node, size: int) -> None:
    """A node as it comes refuses a batch of 50 KiB over several partitions, and warns of one of 5."""
    world, session, _ = world_on(cassandra_node, next(case for case in CASES if case.name == "by_city"), 1)
    image = bytes(size)
    puts = [
        PutImages(
            table=world.program.bases[0].delta,
            bucket=bucket,
            images=tuple((bytes([number]), image) for number in range(rows)),
            write_time=1,
        )
        for bucket, rows in enumerate((10, 2, 1, 10, 4, 60, 1, 1, 10, 2, 3, 10, 120, 10, 10, 10))
    ]
    warned = cassandra_node.log.read_text().count("exceeding specified threshold")
    world.door(puts)
    assert cassandra_node.log.read_text().count("exceeding specified threshold") == warned
    session.close()


def test_large_rows_are_read_few_at_a_time(cassandra_node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four answers of hundreds of documents each take a node's memory, and the driver's time."""
    world, session, _ = world_on(cassandra_node, next(case for case in CASES if case.name == "by_city"), 1)
    table, keys = world.program.bases[0].delta, tuple(bytes([number]) for number in range(100))
    images = tuple((key, bytes(20_000)) for key in keys)
    world.door([PutImages(table=table, bucket=bucket, images=images, write_time=1) for bucket in range(3)])
    brought: list[int] = []

    def noted(*asked: Any, **options: Any) -> list[Any]:
        found = [list(it) for it in answers_of(*asked, **options)]
        brought.extend(sum(len(row[1]) for row in rows) for rows in found)
        return [SimpleNamespace(rows=rows) for rows in found]

    monkeypatch.setattr(door, "answers_of", noted)
    monkeypatch.setattr(door, "_rows_of", lambda answer: answer.rows)
    fresh = CassandraDoor(session, keyspace=world.door._keyspace, publications={})  # type: ignore[attr-defined]
    found = fresh([ReadImages(table=table, bucket=bucket, keys=keys) for bucket in range(3)])
    assert found == [dict(images)] * 3
    assert max(brought) <= BYTES_A_READ
    session.close()


def statements() -> list[BatchStatement]:
    """Return all that live; a proxy of something dead has no class to ask for, but a type."""
    return [it for it in gc.get_objects() if type(it) is BatchStatement]


def test_what_was_sent_is_let_go_once_it_is_answered(cassandra_node: Node) -> None:
    """The driver's timer of a request holds it until it would have timed out: an epoch's puts must not wait there."""
    world, session, _ = world_on(cassandra_node, next(case for case in CASES if case.name == "by_city"), 1)
    puts = PutImages(
        table=world.program.bases[0].delta,
        bucket=0,
        images=tuple((bytes([number]), b"") for number in range(100)),
        write_time=1,
    )
    gc.collect()
    gc.disable()
    try:
        before = set(map(id, statements()))
        world.door([puts])
        held = [it for it in statements() if id(it) not in before]
    finally:
        gc.enable()
    assert not held
    session.close()


@pytest.mark.parametrize("name", ["by_city", "left_join", "revenue", "intersect_all"])
def test_epochs_on_cassandra_equal_the_view_of_the_base(cassandra_node: Node, name: str) -> None:
    """Drivers die and sleep between requests, another runs the pin, sleepers wake: the rows are the recomputed ones."""
    case = next(case for case in CASES if case.name == name)
    world, session, plan = world_on(cassandra_node, case, 5)
    (publication,) = plan.publications
    sleepers: list[Driver] = []
    for _ in range(4):
        for _ in range(6):
            world.write()
        control = world.pinned()
        for patience in (world.chance.randrange(6), 10_000):
            driver = Driver.start(world, world.machine(control.pin))
            for _ in range(patience):
                if not driver.step():
                    break
            sleepers.append(driver)
        assert driver.done
        after = drive(commit(control, None), world.door)
        assert after.committed == control.pin.epoch
        for sleeper in sleepers[:-1]:
            sleeper.finish()
        found = session.execute(
            f"SELECT {', '.join(n for n, _ in publication.columns)} FROM {publication.table}"
        )
        rows = [dict(zip([n for n, _ in publication.columns], row, strict=True)) for row in found]
        assert as_shown(publication, rows) == world.expected()
        _check_client(session, publication.table.split(".", 1)[0], plan, world)
    session.close()


def _check_client(session: CassandraSession, space: str, plan: Plan, world: World) -> None:
    """What applications read, whole and by key, as snapshot and as plain CQL, is the view of the base."""
    (publication,) = plan.publications
    views = ViewReader(session, keyspace=space, plan_of=lambda _: plan)
    shot = views.scan(publication.view)
    assert as_shown(publication, shot.rows.values()) == world.expected()
    for key, row in list(shot.rows.items())[:5]:
        for snapshot in (True, False):
            found = views.read(publication.view, *key, snapshot=snapshot)
            assert as_shown(publication, [found]) == as_shown(publication, [row])
