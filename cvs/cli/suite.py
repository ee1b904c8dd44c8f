"""`cvs suite`: the level table, and the user's own views, held against runs."""

import shlex
from pathlib import Path
from typing import Any

import click

from cvs.cli.options import text_of
from cvs.cli.output import console, json_option, print_json, talk
from cvs.errors import ExitCode
from cvs.model.levels import Level
from cvs.plan.cql import tables_of_schema
from cvs.simulate.hazards import NAMES


@click.command()
@click.option("--table", "show_table", is_flag=True, help="Print the predicted levels with their citations.")
@click.option("--runs", default=20, type=click.IntRange(1), help="Judged runs a cell.")
@click.option("--seed", default=0, help="First seed.")
@click.option("--only", default="", help="Only view classes (or rules) whose name contains this.")
@click.option("--switches", is_flag=True, help="Turn each rule off and look for the violation it prevents.")
@click.option("--hazards", is_flag=True, help="The same for the rules of the epoch protocol (H1-H30).")
@click.option(
    "--counter-examples",
    type=click.Path(file_okay=False, path_type=Path),
    help="Find, shrink and write the stories that show that no level above a prediction holds.",
)
@click.option(
    "--views",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your own views (SQL) in generated runs, against the levels they declare.",
)
@click.option("--maintainer", help="Command of a maintainer of your own, spoken to in lines of JSON.")
@click.option("--view", default="count", help="The view class it maintains (--maintainer).")
@click.option("--instances", default=1, type=click.IntRange(1), help="Processes of it that share one view.")
@click.option(
    "--expect", default="strong", type=click.Choice([level.value for level in Level]), help="Its level."
)
@click.option("--examples", type=click.IntRange(1), help="Runs of your views; 100, on a cluster 3.")
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CQL file with the base tables, if --views has no CREATE TABLE.",
)
@click.option("--contact-points", help="A live cluster: for the base tables, and for --on cluster.")
@click.option("--port", default=9042, show_default=True, help="CQL port of the cluster.")
@click.option("--keyspace", help="Keyspace of views and tables written without one.")
@click.option(
    "--on",
    "place",
    type=click.Choice(["simulator", "cluster"]),
    default="simulator",
    help="Where your views run; a cluster is booted for it unless --contact-points name one.",
)
@click.option(
    "--without", multiple=True, type=click.Choice(NAMES), help="Turn a rule of the protocol off (--views)."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for story, history and page of a failure; default: here.",
)
@json_option
def command(**options: Any) -> int:
    """Run the suites: no run below its prediction, a counter-example above each; exit 1 where one fails.

    \b
    cvs suite --table
    cvs suite --views views.sql --examples 200
    cvs suite --maintainer "python mine.py" --view count --runs 50
    """
    if options["maintainer"]:
        report = _maintainer(options)
    else:
        report = _views(options) if options["views"] else _table(options)
    code = ExitCode.MET if report.met else ExitCode.VIOLATED
    if options["as_json"]:
        print_json("suite", report.result, exit_code=code)
        return code
    console().print("\n".join(report.lines))
    return code


def _table(options: dict[str, Any]) -> Any:
    from cvs.suite import reports

    runs, seed, only = options["runs"], options["seed"], options["only"]
    if options["show_table"]:
        return reports.predicted_table()
    if options["switches"]:
        return reports.switches_tried(runs=runs, seed=seed)
    if options["hazards"]:
        return reports.hazards_tried(runs=runs, seed=seed, only=only)
    if options["counter_examples"]:
        return reports.counter_examples(options["counter_examples"], runs=runs, only=only, say=talk().print)
    return reports.cells_examined(runs=runs, seed=seed, only=only)


def _maintainer(options: dict[str, Any]) -> Any:
    from cvs.suite import foreign

    return foreign.examined_command(
        shlex.split(options["maintainer"]),
        view=options["view"],
        instances=options["instances"],
        runs=options["runs"],
        seed=options["seed"],
        expected=Level(options["expect"]),
    )


def _views(options: dict[str, Any]) -> Any:
    from cvs.suite import view_reports
    from cvs.suite.on_cluster import live_tables, views_on_cluster
    from cvs.suite.user_views import user_views

    hosts = options["contact_points"]
    tables = None
    if options["schema"]:
        tables = tables_of_schema(text_of(options["schema"]))
    elif hosts and "create table" not in text_of(options["views"]).lower():
        tables = live_tables(hosts, options["port"])
    user = user_views(text_of(options["views"]), tables=tables, keyspace=options["keyspace"])
    examples, seed, without = options["examples"], options["seed"], options["without"]
    if options["place"] == "cluster":
        found = views_on_cluster(
            user, hosts=hosts, port=options["port"], examples=examples or 3, seed=seed, without=without
        )
    else:
        found = view_reports.examine_views(user, examples=examples or 100, seed=seed, without=without)
    view_reports.written(found, options["output"])
    return view_reports.report_of(found)
