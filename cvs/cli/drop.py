"""`cvs drop`: keep a view no more."""

import sys

import click

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode, SpecificationError
from cvs.plan.sql import base_names
from cvs.sidecar.apply import carry_out, propose
from cvs.sidecar.views import Views, full_name, not_applied, opened_views


@click.command(name="drop")
@click.argument("view")
@settings_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(view: str, settings_file: str | None, yes: bool, as_json: bool) -> int:
    """Drop one view; the others of the pipeline are built beside themselves and served without a gap.

    Views of a pipeline share state, so a set without this one is a new incarnation of the others; the dropped view's
    table goes once that serves. A view that others read is not dropped. The last one goes with `cvs uninstall`.

    \b
    cvs drop shop.orders_by_region --yes
    """
    with opened_views(read_settings(settings_file)) as views:
        kept = views.kept()
        if not kept:
            raise not_applied()
        gone = full_name(view, [*kept])
        _refuse(views, gone, count=len(kept))
        proposal = propose(views, "", gone=gone)
        agreed = yes or _asked(gone, as_json)
        if agreed:
            carry_out(views, proposal)
    if as_json:
        print_json("drop", {"dropped": agreed, "view": gone, "removals": proposal.removals})
    elif agreed:
        console().print(f"{gone}: dropped. its table goes once the others are built; see cvs status")
    return ExitCode.MET


def _refuse(views: Views, gone: str, *, count: int) -> None:
    declared = views.sound().views
    readers = [it.name for it in declared if gone in base_names(it.definition)]
    if readers:
        raise SpecificationError(
            f"{gone} is read by {', '.join(readers)}", where=gone, next_step=f"first: cvs drop {readers[-1]}"
        )
    if count == 1:
        raise SpecificationError("it is the last view", where=gone, next_step="cvs uninstall")


def _asked(name: str, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise SpecificationError("nobody to ask", next_step="agree with --yes")
    return click.confirm(f"Drop {name} and its table?")
