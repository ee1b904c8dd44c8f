"""The shop and a pipeline in memory: writers' log, epoch log, and the history they make."""

import random
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from cvs.capture.changes import Cell, Change, Column, ColumnKind, Deletion, Kind, Liveness, TableDefinition
from cvs.history import events as ev
from cvs.model.cql_bytes import encode_cql
from cvs.model.signature import Signature
from cvs.model.stages import columns_read
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from cvs.programs.epoch import PUBLISHING, Control, Pin
from cvs.programs.epoch_run import Program, run_epoch
from cvs.programs.epoch_whole import places, whole_step
from cvs.programs.stage_bucket import ALL_RULES, Rules, drive
from cvs.programs.stage_memory import MemoryDoor
from cvs.stream.bases import base_reader, base_table, delta_input
from cvs.stream.certificates import Assembler
from cvs.stream.epochs import epochs
from cvs.stream.recording import EpochLog

COLUMNS = {
    "orders": {"customer": "int", "product": "int", "quantity": "int", "total": "decimal"},
    "products": {"name": "text", "price": "decimal"},
    "customers": {"name": "text", "city": "text"},
}
DEFINITIONS = {
    f"shop.{table}": TableDefinition(
        id=table,
        keyspace="shop",
        name=table,
        columns=(
            Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
            *(Column(name=name, type=kind, kind=ColumnKind.REGULAR) for name, kind in columns.items()),
        ),
    )
    for table, columns in COLUMNS.items()
}


class MemoryShop:
    """Writes and epochs by hand; `history` is what the judge gets."""

    def __init__(self, views: str, folder: Path, *, seed: int = 1) -> None:
        tables = {name: base_table(it) for name, it in DEFINITIONS.items()}
        self.views = parse_views(views, tables)
        self.plan = maintenance_plan(self.views, tables, Choices(buckets=4))
        read = columns_read(self.plan)
        readers = [
            base_reader(DEFINITIONS[b.name], b, delta=f"delta_{b.name}", buckets=8, read=read[b.name])
            for b in self.plan.bases
        ]
        self.program = Program.of(self.plan, readers, {zone.name: zone.name for zone in self.plan.zones})
        places = {
            p.table: tuple([n for n, _ in p.columns].index(k) for k in p.key) for p in self.plan.publications
        }
        self.door = MemoryDoor(keys=places)
        self.now = self.epochs = 0
        self.log_folder = folder / "epochs"
        self.log = EpochLog(self.log_folder, clock=self.tick)
        self.written: list[Any] = []
        self.versions: dict[tuple[str, int], int] = {}
        self.pending: list[Change] = []
        self.chance = random.Random(seed)
        self.orders: set[int] = set()

    def tick(self) -> int:
        self.now += 1000
        return self.now

    def put(self, table: str, key: int, row: dict[str, Any] | None, *, expires: int | None = None) -> None:
        version = self.versions[table, key] = self.versions.get((table, key), 0) + 1
        stamp, name, data = self.tick(), f"shop.{table}", encode_cql("int", key)
        assert data is not None
        self.written += [
            ev.BaseUpdateCalled(
                process="w",
                time=self.tick(),
                operation=stamp,
                table=name,
                key=(key,),
                version=version,
                row=None if row is None else {"id": key, **row},
            ),
            ev.BaseUpdateReturned(process="w", time=self.tick(), operation=stamp, outcome="applied"),
        ]
        parts: dict[str, Any] = {"deletion": Deletion(stamp, 1)}
        ttl = 0 if expires is None else 1
        if row is not None:
            kinds = COLUMNS[table]
            cells = tuple(
                Cell(n, encode_cql(kinds[n], value), stamp, expires, ttl) for n, value in row.items()
            )
            parts = {"liveness": Liveness(stamp, ttl, expires), "cells": cells}
        self.pending.append(Change(kind=Kind.ROW, definition=name, key=data, **parts))

    def open(self) -> None:
        for number in range(4):
            self.put("products", number, {"name": f"p{number}", "price": Decimal(number + 1)})
        for number in range(8):
            self.put("customers", number, {"name": f"c{number}", "city": "ABC"[number % 3]})

    def write(self) -> None:
        chance, number = self.chance, self.chance.randrange(20)
        dice = chance.random()
        if dice < 0.05:
            self.put("customers", number % 8, {"name": "moved", "city": chance.choice("ABC")})
        elif dice < 0.25 and number in self.orders:
            self.orders.discard(number)
            self.put("orders", number, None)
        else:
            self.orders.add(number)
            row = {"customer": chance.randrange(8), "product": chance.randrange(4)}
            row |= {"quantity": chance.randrange(1, 9), "total": Decimal(chance.randrange(100, 5000)) / 100}
            self.put("orders", number, row)

    def epoch(
        self, *, times: int = 1, rules: Rules = ALL_RULES, views: Mapping[str, str] | None = None
    ) -> None:
        """Run one epoch over what was written, as often as it is killed before its commit; `views`: their phases."""
        self.epochs += 1
        pin = Pin(
            epoch=self.epochs,
            first=self.epochs == 1,
            clock=1,
            clock_before=min(self.epochs - 1, 1),
            views=dict(views or {}),
        )
        control = Control(signature=Signature(incarnation=1, version=self.epochs), pin=pin)
        for _ in range(times):
            self.log.running(control)
            changes = delta_input(self.pending, DEFINITIONS)[0]
            result = drive(run_epoch(self.program, pin, changes, rules=rules), self.door)
            for it in self.program.publications:
                if pin.views.get(it.publication.view) == PUBLISHING:
                    whole = drive(whole_step(self.program, it, pin, places(self.program, it)), self.door)
                    result.rows[it.publication.view] = whole.count
                    result.show(it, whole.shown)
            self.log.ran(control, result)
        self.log.committed(control)
        self.pending.clear()

    def history(self) -> list[Any]:
        views: Iterator[Any] = (
            (
                view.definition,
                tuple(name for name, _ in view.columns),
                (*view.key.partition, *(name for name, _ in view.key.clustering)),
            )
            for view in self.views
        )
        assembler = Assembler(views, {table.name: table for table in self.plan.bases})
        return assembler.history(self.written, epochs(sorted(self.log_folder.iterdir())), run="in memory")
