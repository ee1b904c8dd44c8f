"""`cvs query`: rows of a view, by key or all."""

from collections.abc import Mapping
from typing import Any

import click
from cassandra.util import SortedSet
from rich.table import Table

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json, talk
from cvs.errors import SpecificationError
from cvs.model.types import native, normal
from cvs.model.values import many
from cvs.plan.sql import DeclaredView
from cvs.sidecar.views import opened_views


@click.command(name="query")
@click.argument("view")
@click.argument("key", nargs=-1)
@settings_option
@click.option("--limit", default=50, show_default=True, help="Rows shown as text; --json gives all.")
@json_option
def command(view: str, key: tuple[str, ...], settings_file: str | None, limit: int, as_json: bool) -> None:
    """Read a view: all rows, or those whose key columns begin with the given values.

    \b
    cvs query shop.orders_by_region EU
    """
    with opened_views(read_settings(settings_file)) as views:
        declared = views.named(view)
        rows = [_plain(row) for row in views.rows(declared, _condition(declared, key))]
        if views.building(declared):
            talk().print(f"{declared.name} is being built: what it shows is not whole; see `cvs status`")
    if as_json:
        print_json("query", rows)
        return
    table = Table(*(name for name, _ in declared.columns), box=None, pad_edge=False)
    for row in rows[:limit]:
        table.add_row(*("null" if row[name] is None else str(row[name]) for name, _ in declared.columns))
    console().print(table)
    if len(rows) > limit:
        console().print(f"{many(len(rows) - limit, 'more row')}: --limit, or --json")


def _plain(value: Any) -> Any:
    """Turn the driver's own sets and maps into what people and JSON know."""
    if isinstance(value, SortedSet | list):
        return [_plain(item) for item in value]
    return {_plain(k): _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _condition(view: DeclaredView, key: tuple[str, ...]) -> dict[str, object]:
    """Give the values of a command line the types of the key columns they stand for."""
    names = view.key.columns
    if key and not len(view.key.partition) <= len(key) <= len(names):
        raise SpecificationError(
            f"{len(key)} key values for a view keyed by ({', '.join(names)})",
            where=view.name,
            next_step=f"give at least {', '.join(view.key.partition)}",
        )
    types = dict(view.columns)
    return {
        name: native(types[name], _typed(types[name], text)) for name, text in zip(names, key, strict=False)
    }


def _typed(kind: str, text: str) -> object:
    numbers = {"int", "bigint", "smallint", "tinyint", "varint", "counter"}
    value: object = text
    try:
        if kind in numbers:
            value = int(text)
        elif kind in ("float", "double"):
            value = float(text)
        elif kind == "boolean":
            value = {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError) as fault:
        raise SpecificationError(f'"{text}" is no {kind}') from fault
    return normal(kind, value)
