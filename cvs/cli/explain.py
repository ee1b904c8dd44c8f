"""`cvs explain`: what a text of views becomes, before anything runs."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import click

from cvs.cli.options import read_settings, settings_option, text_of
from cvs.cli.output import console, json_option, print_json
from cvs.errors import SpecificationError, StoreError
from cvs.model.stages import Plan
from cvs.model.views import BaseTable
from cvs.plan.changes import difference
from cvs.plan.cost import plan_cost
from cvs.plan.cql import tables_of_schema
from cvs.plan.explain import Explanation
from cvs.plan.maintenance import Choices, maintenance_plan, with_declared_rows
from cvs.plan.measured import Measured, measured
from cvs.plan.picture import page
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Statistics, Weights
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import Views, opened_views
from cvs.store.observed import observe, write_rates
from cvs.store.session import CassandraSession

Found = TypeVar("Found")


@click.command()
@click.argument("views", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CQL file with the base tables; default: those of the cluster that the settings name.",
)
@settings_option
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
@click.option(
    "--analyze",
    is_flag=True,
    help="Sample the live tables, measure their update rates, and what a running pipeline writes.",
)
@click.option(
    "--seconds", default=5.0, show_default=True, help="With --analyze: how long rates are measured."
)
@click.option(
    "--before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The views as they are: say also what changing them to VIEWS keeps, rebuilds and drops.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write one HTML page with a picture."
)
@json_option
def command(
    views: Path,
    schema: Path | None,
    settings_file: str | None,
    keyspace: str | None,
    statistics: Path | None,
    weights: Path | None,
    analyze: bool,
    seconds: float,
    before: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Show the maintenance plan of VIEWS: zones, tables, programs, levels, costs.

    \b
    Examples:
      cvs explain views.sql --schema schema.cql --html plan.html
      cvs explain views.sql --analyze
    """
    if analyze and schema is not None:
        raise SpecificationError("there is nothing to measure in a file", next_step="leave --schema out")
    settings = read_settings(settings_file) if schema is None else Settings()
    if schema is None:
        keyspace = keyspace or settings.views.published_keyspace
    known = Statistics.of(_mapping(statistics)) if statistics is not None else Statistics()
    seen: Measured | None = None
    if schema is not None:
        tables = tables_of_schema(text_of(schema))
    else:
        tables = _bases(settings)
    declared = parse_views(text_of(views), tables, keyspace=keyspace)
    plan = maintenance_plan(declared, tables)
    if analyze:
        known, seen = _live(settings, lambda views: _analyzed(views.session, plan, known, seconds))
    known = with_declared_rows(known, declared)
    told = Weights.of(_mapping(weights)) if weights is not None else Weights()
    apart = maintenance_plan(declared, tables, Choices(share=False, merge_zones=False))
    explanation = Explanation(
        views=declared,
        plan=plan,
        cost=plan_cost(plan, known, told),
        apart=plan_cost(apart, known, told),
        guessed=tuple(base.name for base in plan.bases if base.name not in known.rows),
        measured=seen,
        skew_ms=settings.pipeline.skew_ms,
        changes=difference(parse_views(text_of(before), tables, keyspace=keyspace), declared)
        if before
        else (),
    )
    if html is not None:
        html.write_text(page(explanation))
    if as_json:
        print_json("explain", explanation.data())
        return
    out = console()
    for line in explanation.lines():
        out.print(line)


def _live(settings: Settings, ask: Callable[[Views], Found]) -> Found:
    with opened_views(settings) as opened:
        return ask(opened)


def _bases(settings: Settings) -> dict[str, BaseTable]:
    try:
        return _live(settings, Views.bases)
    except StoreError as refusal:
        advice = f"{refusal.next_step}; or name a file of CREATE TABLE statements with --schema"
        raise StoreError(refusal.what, where=refusal.where, next_step=advice) from refusal


def _analyzed(
    session: CassandraSession, plan: Plan, known: Statistics, seconds: float
) -> tuple[Statistics, Measured]:
    """Sample what is not told, and measure; what a file tells stands."""
    found = observe(session, plan.bases)
    sampled = replace(
        known,
        rows={**found.rows, **known.rows},
        distinct={**found.distinct, **known.distinct},
        bounds={**found.bounds, **known.bounds},
    )
    seen = measured(plan, write_rates(session, seconds=seconds))
    return seen.statistics(sampled), seen


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
