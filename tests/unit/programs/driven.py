"""Drive one program by hand: entries in, view out."""

from typing import Any

from cvs.manager.view_manager import ViewManager
from cvs.model.signature import Signature
from cvs.programs.machine import RECORD, SIGNATURE_BASED, Ending, Entry, Policy, UpdateProgram, shown
from cvs.store.memory import MemoryStore


class Driven:
    """One manager, one memory store, one stream a table; base writes are propagated at once unless told."""

    def __init__(self, program: UpdateProgram, policy: Policy = SIGNATURE_BASED, *, remember: bool = False):
        self.program = program
        self.store = MemoryStore()
        self.manager = ViewManager(store=self.store, policy=policy, remember=remember)
        self.entries: list[Entry] = []
        self.versions: dict[tuple[str, Any], int] = {}

    def write(self, table: str, key: Any, after: dict[str, Any] | None) -> Entry:
        rows = self.store.base.setdefault(table, {})
        before = rows.get((key,))
        version = self.versions[table, key] = self.versions.get((table, key), 0) + 1
        if after is None:
            rows.pop((key,), None)
        else:
            rows[(key,)] = after
        entry = Entry(
            stream="s",
            entry=len(self.entries) + 1,
            table=table,
            key=(key,),
            version=version,
            before=before,
            after=after,
        )
        self.entries.append(entry)
        return entry

    def propagate(self, entry: Entry) -> Ending:
        return self.manager.maintain(self.program, entry)

    def update(self, table: str, key: Any, after: dict[str, Any] | None) -> Ending:
        return self.propagate(self.write(table, key, after))

    @property
    def view(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        found = {p.key: shown(rows.get(RECORD)) for p, rows in self.store.rows.items()}
        return {key: row for key, row in found.items() if row is not None}

    def signature(self, *key: Any) -> Signature | None:
        return next((s for p, s in self.store.signatures.items() if p.key == key), None)
