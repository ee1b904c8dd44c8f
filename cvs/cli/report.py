"""`cvs report`: the picture of a judged run."""

from pathlib import Path

import click

from cvs.checker.classify import Judgement
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import json_option, print_json, talk
from cvs.errors import ExitCode
from cvs.report.audit import audit, no_collection
from cvs.report.hand import BUDGET
from cvs.report.page import run_page
from cvs.report.registers import Registers, registers_page
from cvs.stream.recording import LAST, is_recording


@click.command(
    help="""Judge a recorded run and write one HTML page that opens from disk, without network.

    RUN is what `cvs audit` takes: the folder into which `cvs run` records, and histories of other systems, included.

    \b
    Example:
      cvs report run.ndjson --output run.html
    """
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="Where to; default: report.html beside RUN.")
@click.option(
    "--reference",
    default="writers",
    show_default=True,
    help="Base time-line: writers, write-time or absorbed.",
)
@click.option(
    "--budget", default=BUDGET, show_default=True, type=click.IntRange(1), help="Steps per question."
)
@settings_option
@json_option
def command(
    runs: tuple[Path, ...],
    output: Path | None,
    reference: str,
    budget: int,
    settings_file: str | None,
    as_json: bool,
) -> int:
    """Judge and write the page."""
    judgement: Judgement | Registers
    if is_recording(runs):
        from cvs.cli.recorded import judged  # as in `audit`

        settings = read_settings(settings_file)
        document, judgement, _ = judged(settings, runs, last=LAST, budget=budget, picture=True)
    else:
        document, judgement = audit(runs, reference=reference, budget=budget, picture=True)
    target = output or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    with no_collection():
        if isinstance(judgement, Registers):
            text = registers_page(judgement, document, name=runs[0].stem)
        else:
            text = run_page(judgement, document)
    target.write_text(text, encoding="utf-8")
    if as_json:
        print_json("report", {"page": str(target), "verdict": document}, exit_code=ExitCode.MET)
    else:
        talk().print(f"wrote {target}")
    return ExitCode.MET
