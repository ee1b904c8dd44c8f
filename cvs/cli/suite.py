"""`cvs suite`: the level table, held against runs."""

from pathlib import Path

import click

from cvs.cli.output import console, json_option, print_json, talk
from cvs.errors import ExitCode


@click.command()
@click.option("--table", "show_table", is_flag=True, help="Print the predicted levels with their citations.")
@click.option("--runs", default=20, type=click.IntRange(1), help="Judged runs a cell.")
@click.option("--seed", default=0, help="First seed.")
@click.option("--only", default="", help="Only view classes whose name contains this.")
@click.option("--switches", is_flag=True, help="Turn each rule off and look for the violation it prevents.")
@click.option(
    "--counter-examples",
    type=click.Path(file_okay=False, path_type=Path),
    help="Find, shrink and write the stories that show that no level above a prediction holds.",
)
@json_option
def command(
    show_table: bool,
    runs: int,
    seed: int,
    only: str,
    switches: bool,
    counter_examples: Path | None,
    as_json: bool,
) -> int:
    """Run the suites: no run below its prediction, a counter-example above each; exit 1 where one fails.

    \b
    cvs suite --table
    """
    from cvs.suite import reports

    if show_table:
        report = reports.predicted_table()
    elif switches:
        report = reports.switches_tried(runs=runs, seed=seed)
    elif counter_examples:
        report = reports.counter_examples(counter_examples, runs=runs, only=only, say=talk().print)
    else:
        report = reports.cells_examined(runs=runs, seed=seed, only=only)
    code = ExitCode.MET if report.met else ExitCode.VIOLATED
    if as_json:
        print_json("suite", report.result, exit_code=code)
        return code
    console().print("\n".join(report.lines), markup=False)
    return code
