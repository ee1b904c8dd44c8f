"""`cvs explain`: what a text of views becomes, before anything runs."""

import json
from pathlib import Path

import click

from cvs.cli.output import console, json_option, print_json
from cvs.errors import SpecificationError
from cvs.model.views import BaseTable
from cvs.plan.cost import plan_cost
from cvs.plan.cql import tables_of_schema
from cvs.plan.explain import Explanation
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.picture import page
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Statistics, Weights
from cvs.store.schema import base_tables
from cvs.store.session import CassandraSession, ClusterAddress


@click.command()
@click.argument("views", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CQL file with the base tables.",
)
@click.option("--contact-points", help="Read the base tables from a live cluster: hosts, comma separated.")
@click.option("--port", default=9042, show_default=True, help="CQL port of the cluster.")
@click.option("--keyspace", help="Keyspace of views and tables written without one.")
@click.option(
    "--statistics",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON: rows, distinct, rates, epoch_updates.",
)
@click.option(
    "--weights",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON written by bench/calibrate.py.",
)
@click.option("--replicate", multiple=True, help="Small table to keep in every bucket (repeatable).")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write one HTML page with a picture."
)
@json_option
def command(
    views: Path,
    schema: Path | None,
    contact_points: str | None,
    port: int,
    keyspace: str | None,
    statistics: Path | None,
    weights: Path | None,
    replicate: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Show the maintenance plan of VIEWS: zones, tables, programs, levels, costs.

    \b
    Examples:
      cvs explain views.sql --schema schema.cql --html plan.html
      cvs explain views.sql --contact-points 127.0.0.1 --keyspace shop
    """
    if (schema is None) == (contact_points is None):
        raise SpecificationError(
            "the base tables are not known", next_step="give either --schema FILE or --contact-points HOSTS"
        )
    if schema is not None:
        tables = tables_of_schema(schema.read_text())
    else:
        tables = _live_tables(contact_points or "", port)
    declared = parse_views(views.read_text(), tables, keyspace=keyspace)
    choices = Choices(replicated=frozenset(replicate))
    plan = maintenance_plan(declared, tables, choices)
    known = _statistics(statistics)
    measured = Weights.of(_mapping(weights)) if weights is not None else Weights()
    apart = maintenance_plan(
        declared, tables, Choices(share=False, merge_zones=False, replicated=choices.replicated)
    )
    explanation = Explanation(
        views=declared,
        plan=plan,
        cost=plan_cost(plan, known, measured),
        apart=plan_cost(apart, known, measured),
    )
    if html is not None:
        html.write_text(page(explanation))
    if as_json:
        print_json("explain", explanation.data())
        return
    out = console()
    for line in explanation.lines():
        out.print(line, markup=False)


def _live_tables(contact_points: str, port: int) -> dict[str, BaseTable]:
    hosts = tuple(host.strip() for host in contact_points.split(","))
    session = CassandraSession(ClusterAddress(contact_points=hosts, port=port))
    try:
        return base_tables(session)
    finally:
        session.close()


def _mapping(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text())
    except ValueError as mistake:
        raise SpecificationError(
            f"{path} is not JSON: {mistake}", next_step="see `cvs explain --help`"
        ) from None
    if not isinstance(found, dict):
        raise SpecificationError(f"{path} is not a JSON object", next_step="see `cvs explain --help`")
    return found


def _statistics(path: Path | None) -> Statistics:
    values = _mapping(path) if path is not None else {}
    unknown = sorted(set(values) - {"rows", "distinct", "rates", "epoch_updates"})
    if unknown:
        raise SpecificationError(
            f"no statistic is called {unknown[0]}", next_step="rows, distinct, rates, epoch_updates"
        )
    return Statistics(**values)  # type: ignore[arg-type]  # because the names were checked and numbers are used as such
