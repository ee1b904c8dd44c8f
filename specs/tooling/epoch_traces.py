"""From what drivers of a pipeline asked of storage to a module TLC can check against the epoch protocol.

`Recording` stands before any door (memory or Cassandra) for one driver's life and notes its requests, in the
order they left and were answered. The table of actions and events is at the top of `EpochTrace.tla`.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.model.signature import Signature
from cvs.programs.epoch import CONTROL_BUCKET, CONTROL_TABLE, LIVE, Pin, control_of
from cvs.programs.epoch_run import BaseMove, Program, base_bag, decoded
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import SENTINEL, BucketRead, ReadBucket, SetBucket, StateRow
from cvs.programs.stage_codec import pack
from cvs.programs.stage_delta import DropBucket, PutImages, ReadImages, split
from cvs.programs.stage_publish import PutRows
from cvs.programs.stage_state import State
from cvs.programs.stored import Emitted, decode_row
from tooling.tlc import SpecsError
from tooling.traces import Matched, asked, record_of, sequence_of, set_of, text_of

CONTROL = f"{CONTROL_TABLE}/{CONTROL_BUCKET}"
STEPS_MAX = 20_000
Door = Callable[[list[Any]], list[Any]]
CFG = "SPECIFICATION Spec\nCHECK_DEADLOCK FALSE\nINVARIANT NotMatchedInv\n" + "".join(
    f"CONSTANT {name} <- My{name}\n"
    for name in ("Log", "Places", "Drivers", "Control", "Incarnation", "Must", "Show")
)


EVENTS: Mapping[type, tuple[str, ...]] = {
    ReadBucket: ("read",),
    SetBucket: ("call", "return"),
    ReadImages: ("images",),
    PutImages: ("put",),
    DropBucket: (),  # notes are not in the model
    PutRows: ("rows",),
}
"""Request -> the kinds of events it leaves; their actions are in the table on top of `EpochTrace.tla`."""


@dataclass(slots=True)
class Log:
    """The requests of all drivers of one pipeline, each as the text of a record.

    `program`: whose plan says which buckets a change in DELTA leads to, so that leaving one out is noticed.
    """

    keys: Mapping[str, tuple[int, ...]]  # published table -> places of its primary key in a row
    program: Program | None = None
    incarnation: int = 1
    steps: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=lambda: {CONTROL})
    drivers: set[str] = field(default_factory=set)
    moved: dict[int, dict[tuple[str, bytes], bytes]] = field(default_factory=dict)  # epoch -> images put
    written: dict[int, dict[tuple[str, int], dict[bytes, StateRow]]] = field(
        default_factory=dict
    )  # epoch -> rows set
    pins: dict[int, Pin] = field(default_factory=dict)
    _short: dict[bytes, str] = field(default_factory=dict)
    _operations: int = 0

    def driver(self, name: str, door: Door) -> Door:
        """Return a door that notes what this driver asks."""
        self.drivers.add(name)
        return lambda requests: self._carried(name, door, requests)

    def _carried(self, name: str, door: Door, requests: list[Any]) -> list[Any]:
        operations = [self._called(name, request) for request in requests]
        answers = door(requests)
        for request, operation, answer in zip(requests, operations, answers, strict=True):
            self._answered(name, request, operation, answer)
        return answers

    def _called(self, name: str, request: Any) -> int:
        self._operations += 1
        if isinstance(request, SetBucket):
            self._step(
                name,
                "call",
                place=self._place(request),
                operation=self._operations,
                expected=_scalars(request.expected),
                new=_scalars(request.new),
                puts=_puts({self._name(key): self._row(row) for key, row in request.puts}),
                deletes=set_of(text_of(self._name(key)) for key in request.deletes),
                **self._pinned(request),
            )
            bucket = self.written.setdefault(request.new.version, {})
            bucket.setdefault((request.table, request.bucket), {}).update(request.puts)
        return self._operations

    def _pinned(self, request: SetBucket) -> dict[str, str]:
        """Return from where to where in the feed a test-and-set of the control row pins an epoch."""
        if request.table != CONTROL_TABLE:
            return {}
        pin = control_of(BucketRead(signature=request.new, rows=dict(request.puts))).pin
        self.pins[pin.epoch] = pin
        ranges = {"since": pin.since, "until": pin.until}
        return {
            what: _puts({self._name(stream.encode()): str(at) for stream, at in positions.items()})
            for what, positions in ranges.items()
        }

    def _answered(self, name: str, request: Any, operation: int, answer: Any) -> None:
        match request:
            case SetBucket():
                self._step(name, "return", operation=operation, outcome=text_of(answer.kind.value))
            case ReadBucket():
                at, serial = _scalars(answer.signature), str(request.serial).upper()
                self._step(name, "read", place=self._place(request), signature=at, serial=serial)
            case ReadImages():
                self._step(name, "images")
            case PutImages():
                puts = {
                    self._in(request.table, key): "gone" if image is None else self._name(image)
                    for key, image in request.images
                }
                images = {(request.table, key): image or b"" for key, image in request.images}
                self.moved.setdefault(request.write_time, {}).update(images)
                self._put(name, "put", puts, request.write_time)
            case DropBucket():
                pass
            case PutRows():
                self._put(name, "rows", self._rows(request), request.write_time)
            case _:
                raise SpecsError(f"a request {type(request).__name__} has no action and no reason why not")

    def _put(self, name: str, kind: str, puts: Mapping[str, str], time: int) -> None:
        values = _puts({key: text_of(value) for key, value in puts.items()})
        self._step(name, kind, puts=values, time=time)

    def _rows(self, request: PutRows) -> dict[str, str]:
        at = self.keys[request.publication]
        found = {pack(tuple(row[place] for place in at)): self._name(pack(row)) for row in request.puts}
        found |= {pack(key): "gone" for key in request.deletes}
        return {self._in(request.publication, key): value for key, value in found.items()}

    def _step(self, driver: str, kind: str, **fields: Any) -> None:
        self.steps.append(record_of(kind=text_of(kind), driver=text_of(driver), **fields))

    def _place(self, request: ReadBucket | SetBucket) -> str:
        place = f"{request.table}/{request.bucket}"
        self.places.add(place)
        return text_of(place)

    def _row(self, row: StateRow) -> str:
        now = _image(row.alive, self._name(row.now))
        return record_of(epoch=row.epoch, now=now, before=_image(row.alive_before, self._name(row.before)))

    def _in(self, table: str, key: bytes) -> str:
        return self._name(table.encode() + b"/" + key)

    def _name(self, data: bytes) -> str:
        return self._short.setdefault(data, f"v{len(self._short)}")

    def must(self) -> tuple[dict[int, set[str]], dict[int, set[str]]]:
        """Return the buckets and the published rows each epoch's changes lead to, zone after zone, as the plan has it.

        Into the first zones come the images that were put into DELTA, into later ones what the buckets before them
        were set to: what came of a bucket is the difference of its contents, made without the program's own outputs.
        """
        if self.program is None:
            return {}, {}
        found: dict[int, set[str]] = {}
        shown: dict[int, set[str]] = {}
        stood: dict[tuple[str, int], dict[bytes, StateRow]] = {}
        for epoch in sorted({*self.moved, *self.written}):
            flowing = self._flowing(epoch)
            written = self.written.get(epoch, {})
            found[epoch] = set()
            for zone in self.program.zones:
                table = self.program.tables[zone.name]
                found[epoch].update(f"{table}/{bucket}" for bucket in zone.route(flowing))
                for stage in zone.zone.stages:
                    flowing[stage.name] = Bag()
                for at in (at for at in written if at[0] == table):
                    before = stood.get(at, {})
                    stood[at] = {**before, **written[at]}
                    for sign, rows in ((-1, before), (1, stood[at])):
                        for name, bag in zone.contents(_state_of(rows)).items():
                            for row, count in bag:
                                flowing[name].add(row, sign * count)
            if epoch in self.pins and all(it == LIVE for it in self.pins[epoch].views.values()):
                shown[epoch] = self._showing(flowing)
        return found, shown

    def _showing(self, flowing: Mapping[str, Bag]) -> set[str]:
        """Return the rows of published tables that changes lead to."""
        assert self.program is not None
        return {
            self._in(it.publication.table, pack(moved.key))
            for it in self.program.publications
            for moved in it.shown(flowing)
            if not moved.refused and moved.before != moved.now
        }

    def _flowing(self, epoch: int) -> dict[str, Bag]:
        """Return what an epoch's images change in the base tables."""
        assert self.program is not None
        bases = {base.delta: base for base in self.program.bases}
        moves: dict[str, list[BaseMove]] = {base.name: [] for base in self.program.bases}
        for (table, key), image in self.moved.get(epoch, {}).items():
            partition, clustering = split(key)
            if table in bases and clustering is not None and image:
                row = decode_row(image)
                emitted = Emitted(clustering, row.before, row.now, 0)
                moves[bases[table].name] += decoded(bases[table], [(partition, emitted)])
        return {name: base_bag(them) for name, them in moves.items()}

    def module(self) -> str:
        """Return the text of the module EpochTraceRun."""
        if not self.steps:
            raise SpecsError("no request was noted: an empty trace proves nothing")
        if len(self.steps) > STEPS_MAX:
            raise SpecsError(f"{len(self.steps)} steps; at most {STEPS_MAX} are checked at once")
        must, shown = self.must()
        lines = [
            "---- MODULE EpochTraceRun ----",
            "EXTENDS EpochTrace",
            f"MyPlaces == {set_of(map(text_of, sorted({*self.places, *itertools.chain(*must.values())})))}",
            f"MyMust == {function_of({e: set_of(map(text_of, sorted(them))) for e, them in must.items()})}",
            f"MyShow == {function_of({e: set_of(map(text_of, sorted(them))) for e, them in shown.items()})}",
            f"MyDrivers == {set_of(map(text_of, sorted(self.drivers)))}",
            f"MyControl == {text_of(CONTROL)}",
            f"MyIncarnation == {self.incarnation}",
            "MyLog == <<\n  " + ",\n  ".join(self.steps) + " >>",
            "====",
        ]
        return "\n".join(lines) + "\n"


def matched(jar: Path, log: Log) -> Matched:
    """Ask TLC how far the log fits the protocol."""
    return asked(jar, "EpochTraceRun", CFG, log.module(), log.steps)


def _state_of(rows: Mapping[bytes, StateRow]) -> State:
    """Return a whole bucket as its rows stand."""
    live = {key: row.now for key, row in rows.items() if row.alive and key != SENTINEL}
    return State(rows=live, keys=set(), prefixes=set(), everything=True)


def _puts(values: Mapping[str, str]) -> str:
    """Write a function from names: a record, which TLC makes once (a function written with @@, at every look)."""
    return record_of(**values) if values else "<<>>"


def function_of(values: Mapping[int, str]) -> str:
    """Write a function from numbers."""
    return " @@ ".join(f"{key} :> {value}" for key, value in sorted(values.items())) or "<<>>"


def _scalars(signature: Signature) -> str:
    return sequence_of("TRUE" if s is True else "FALSE" if s is False else str(s) for s in signature.scalars)


def _image(alive: bool, value: str) -> str:
    return sequence_of(("TRUE", text_of(value)) if alive else ("FALSE", text_of("")))
