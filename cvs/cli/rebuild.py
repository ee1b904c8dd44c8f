"""`cvs rebuild`: build the views anew from their base tables, beside the ones that are read."""

import sys

import click

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.cli.waiting import wait_served
from cvs.errors import ExitCode, SpecificationError
from cvs.sidecar.apply import Proposal, carry_out, propose
from cvs.sidecar.soundness import told_aside
from cvs.sidecar.views import opened_views


@click.command(name="rebuild")
@click.argument("view", required=False)
@click.option("--all", "everything", is_flag=True, help="Instead of naming a view.")
@settings_option
@click.option("--dry-run", is_flag=True, help="Print every statement that would be sent, and send none.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Wait until the running `cvs run` has built them.")
@json_option
def command(
    view: str | None,
    everything: bool,
    settings_file: str | None,
    dry_run: bool,
    yes: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Build views anew: after TRUNCATE, DROP, a gap in the capture, or rows that `cvs verify` found wrong.

    The views of a pipeline share what they keep of the base tables, so all of them are built; readers see the old
    ones until the new ones are complete. The running `cvs run` does it; `cvs status` shows how far it is.

    \b
    cvs rebuild shop.orders_by_region --yes
    """
    if bool(view) == everything:
        raise SpecificationError("a view, or --all, says what to rebuild", next_step="cvs rebuild --all")
    with opened_views(read_settings(settings_file)) as views:
        views.asked_for(view)  # so that a name nobody has is refused
        proposal = propose(views, "", rebuild=True)
        agreed = not dry_run and (yes or _asked(proposal, as_json))
        if agreed:
            carry_out(views, proposal)
        code = wait_served(views, proposal.incarnation) if wait and agreed else ExitCode.MET
    if as_json:
        names = [one.name for one in proposal.views]
        result = {
            "rebuilding": agreed,
            "views": names,
            "incarnation": proposal.incarnation,
            "aside": dict(proposal.aside),
        }
        print_json("rebuild", result, exit_code=code)
    else:
        _print(proposal, agreed=agreed and not wait, dry_run=dry_run)
    return code


def _asked(proposal: Proposal, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise SpecificationError("nobody to ask", next_step="look with --dry-run, agree with --yes")
    return click.confirm(f"Read {', '.join(proposal.filled) or 'the base tables'} again?")


def _print(proposal: Proposal, *, agreed: bool, dry_run: bool) -> None:
    out = console()
    names = ", ".join(view.name for view in proposal.views)
    out.print(f"incarnation {proposal.incarnation} of {names}")
    if proposal.aside:
        out.print(f"note: {told_aside(proposal.aside)}")
    if dry_run:
        out.print("\n\n".join(f"{it};" for it in proposal.statements))
        out.print(f"\nonce incarnation {proposal.incarnation} serves:\n")
        out.print("\n\n".join(f"{it};" for it in proposal.removals))
    elif agreed:
        out.print("asked for. next: cvs run, if it is not running, then cvs status")
