"""`cvs verify`: base tables against a view, row by row, while writes go on."""

import time

import click
import msgspec

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json, talk
from cvs.errors import ExitCode, StoreError
from cvs.model.values import many
from cvs.sidecar.scanning import give_way
from cvs.sidecar.verification import Report
from cvs.sidecar.views import opened_views

SHOWN_MAX = 20


@click.command(name="verify")
@click.argument("view", required=False)
@settings_option
@click.option(
    "--wait", "wait_s", default=2.0, show_default=True, help="Seconds a view gets to catch up, at least."
)
@json_option
def command(view: str | None, settings_file: str | None, wait_s: float, as_json: bool) -> int:
    """Compare a view (or every view) with its base tables, and list the rows that stay wrong.

    Rows are reported only if they were wrong in three reads, between which the view caught up with what had been
    written, so writers need not stop. Exit code 1 if any row is wrong; 3 if that is so of paused views only: they
    stand as they stood.

    \b
    cvs verify shop.orders_by_region --wait 5
    """
    give_way()
    with opened_views(read_settings(settings_file)) as views:
        found = views.asked_for(view)
        wanted = found.views
        reports = []
        for one in wanted:
            if views.building(one):
                time.sleep(wait_s)  # a newer incarnation may just be taking over
            if views.building(one):
                raise StoreError(
                    "the view is being built: its rows cannot be compared yet",
                    where=one.name,
                    next_step="wait until `cvs status` calls it live (does `cvs run` run?)",
                )
        for one in wanted:
            with talk().status(f"reading {one.name} and its base tables"):
                reports.append(views.verify(one, wait_s))
    wrong = [report for report in reports if report.differences]
    code = (
        ExitCode.MET
        if not wrong
        else ExitCode.UNDECIDED
        if all(it.stopped for it in wrong)
        else ExitCode.VIOLATED
    )
    if found.broken:
        code = ExitCode.VIOLATED
        talk().print(f"not compared: {found.refusal()}")
    if as_json:
        print_json("verify", msgspec.to_builtins(reports, enc_hook=str, str_keys=True), exit_code=code)
        return code
    for report in reports:
        _print(report)
    return code


def _print(report: Report) -> None:
    out = console()
    wrong = report.differences
    verdict = "every row is right"
    if wrong:
        verdict = (
            f"paused, {many(len(wrong), 'row differs', 'rows differ')} by now"
            if report.stopped
            else many(len(wrong), "row is wrong", "rows are wrong")
        )
    moving = f", {report.moving_count} of them moving" if report.moving_count else ""
    out.print(
        f"{report.view}: {verdict}  ({many(report.found_count, 'row')}{moving}, {many(report.rounds, 'read')})"
    )
    for difference in wrong[:SHOWN_MAX]:
        out.print(f"  {difference.kind:<9} {difference.key!r}")
        out.print(f"            should be {difference.expected}")
        out.print(f"            is        {difference.found}")
    if len(wrong) > SHOWN_MAX:
        out.print(f"  and {len(wrong) - SHOWN_MAX} more: cvs verify {report.view} --json")
    if report.unread_count:
        out.print(
            f"  {many(report.unread_count, 'base row')} that cannot be read contribute nothing: cvs quarantine"
        )
    if wrong and report.broken:
        out.print(
            f"next: cvs rebuild {report.view}: the view is broken (cvs status says why), and follows nothing any more"
        )
        return
    if wrong and report.stopped:
        out.print(f"next: {report.stopped}, then verify it again: it stands still because it was told to")
        return
    if wrong and report.lagging:
        out.print("  the view stayed behind what is written: it may lack only that. does it run? cvs status")
    if wrong:
        out.print(f"next: cvs repair {report.view}")
