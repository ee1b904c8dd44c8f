"""What uninstalling one pipeline leaves to another of the same cluster."""

from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import Unauthorized

from cvs.model.layout import delta_table
from cvs.sidecar import uninstalling
from cvs.sidecar.settings import Settings
from cvs.sidecar.uninstalling import carry_out_removal, removal

OFF = {"s.t": "ALTER TABLE s.t WITH cdc = false", "s.own": "ALTER TABLE s.own WITH cdc = false"}


class Session:
    """A cluster's schema, and what is sent to it."""

    def __init__(self, *, refused: tuple[str, ...] = ()) -> None:
        self.sent: list[str] = []
        self._refused = refused
        delta = delta_table("two", "s.t_3").name.split(".")[1]
        others = {
            "cvs": {"catalog_captured": None},
            "two": {"catalog_captured": None, delta: None},
            "three": {"catalog_captured": None, "delta_s_other_1": None},
            "app": {delta: None},  # no catalog of ours is beside it
        }
        keyspaces = {name: SimpleNamespace(name=name, tables=tables) for name, tables in others.items()}
        self.driver: Any = SimpleNamespace(
            cluster=SimpleNamespace(metadata=SimpleNamespace(keyspaces=keyspaces))
        )

    def define(self, statement: str) -> None:
        self.sent.append(statement)

    def insist(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        if any(f" {name}." in statement for name in self._refused):
            raise Unauthorized("no MODIFY permission")
        self.sent.append(f"{statement} {values}")
        return []


def views_of(session: Session, monkeypatch: pytest.MonkeyPatch) -> Any:
    catalog = SimpleNamespace(lives=dict, captured=lambda: sorted(OFF), keyspaces_made=list)
    monkeypatch.setattr(uninstalling, "switched", lambda _views, name, *, capture: (OFF[name],))
    return SimpleNamespace(session=session, settings=Settings(), catalog=catalog, kept=dict)


def test_cdc_stays_on_where_another_pipeline_keeps_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was switched off beneath the other, whose views stayed live and lacked what was written since."""
    session = Session()
    views = views_of(session, monkeypatch)
    found = removal(views)
    assert found.shared == {"s.t": ("two",)}
    assert carry_out_removal(views, found) == {}
    assert session.sent == [
        "INSERT INTO two.catalog_captured (name) VALUES (?) ('s.t',)",  # so that it is switched off in the end
        OFF["s.own"],
        "DROP KEYSPACE IF EXISTS cvs",
    ]


def test_what_may_be_noted_nowhere_is_left_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role of least permissions knows the other pipeline from the schema, and may not write into its keyspace."""
    session = Session(refused=("two",))
    views = views_of(session, monkeypatch)
    assert carry_out_removal(views, removal(views)) == {"s.t": ("two",)}
    assert session.sent == [OFF["s.own"], "DROP KEYSPACE IF EXISTS cvs"]
