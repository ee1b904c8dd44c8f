"""`cvs simulate`: one run of the deterministic world, judged."""

from pathlib import Path

import click

from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode
from cvs.suite.classes import CLASSES
from cvs.suite.rules import RULES
from cvs.suite.strategies import FAULT_SETS


@click.command(
    epilog="Example: cvs simulate --seed 7 --view count --faults crashes --without signature-check"
)
@click.option("--seed", type=int, required=True, help="Decides everything; the same seed gives the same run.")
@click.option("--view", default="count", type=click.Choice([c.name for c in CLASSES]), help="View class.")
@click.option("--program", default="", help="Its program variant; the first one if not given.")
@click.option(
    "--faults", default="zombies", type=click.Choice([f.name for f in FAULT_SETS]), help="Fault set."
)
@click.option("--updates", default=8, type=click.IntRange(1, 40), help="Base updates written.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(RULES),
    help="Turn a rule off; repeatable.",
)
@click.option("--story", type=click.Path(path_type=Path), help="Write the run as a story file.")
@click.option("--shrink", is_flag=True, help="Shrink the story to the smallest that shows the same levels.")
@click.option("-o", "--history", type=click.Path(path_type=Path), help="Write the history, one event a line.")
@json_option
def command(
    seed: int,
    view: str,
    program: str,
    faults: str,
    updates: int,
    without: tuple[str, ...],
    story: Path | None,
    shrink: bool,
    history: Path | None,
    as_json: bool,
) -> int:
    """Run one world under one seed and say which level it had; exit 1 if below the predicted one.

    \b
    cvs simulate --seed 7 --view count --faults crashes --without signature-check
    """
    from cvs.suite.single import single_run

    run = single_run(
        view=view, program=program, faults=faults, seed=seed, updates=updates, without=without, shrink=shrink
    )
    if story:
        story.write_text(run.story_text)
    if history:
        history.write_bytes(b"".join(run.history_lines))
    code = ExitCode.MET if run.met else ExitCode.VIOLATED
    if as_json:
        print_json("simulate", run.result, exit_code=code)
        return code
    out = console()
    for line in run.lines:
        out.print(line)
    return code
