"""`cvs apply`: make the views of a text, after showing what that does."""

import sys
from pathlib import Path

import click
import msgspec

from cvs.cli.options import read_settings, settings_option, text_of
from cvs.cli.output import console, json_option, print_json
from cvs.cli.waiting import wait_served
from cvs.errors import ExitCode, SpecificationError
from cvs.sidecar.apply import Proposal, carry_out, propose
from cvs.sidecar.soundness import told_aside
from cvs.sidecar.views import opened_views

SIGNS = {"create": "+", "replace": "~", "drop": "-", "unchanged": "=", "kept": "=", "aside": "!"}


@click.command(name="apply")
@click.argument("file")
@settings_option
@click.option("--dry-run", is_flag=True, help="Print every statement that would be sent, and send none.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--prune", is_flag=True, help="Drop views that are kept but not in FILE.")
@click.option(
    "--whole-feed",
    is_flag=True,
    help="The feed holds every write since the base tables were made: follow it and read no table.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the running `cvs run` shows all of them; exit code 1 if it cannot.",
)
@json_option
def command(
    file: str,
    settings_file: str | None,
    dry_run: bool,
    yes: bool,
    prune: bool,
    whole_feed: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Create, replace or drop views so that the cluster keeps those of FILE.

    Shows the difference and asks. Of your own tables only `cdc = true` is set, and that is shown too. Rows that are
    there already are read by the running pipeline (`cvs run`); a changed set of views is built beside the old one.

    \b
    cvs apply views.sql --dry-run
    """
    settings = read_settings(settings_file)
    text = sys.stdin.read() if file == "-" else text_of(Path(file))
    with opened_views(settings) as views:
        proposal = propose(views, text, prune=prune)
        if not as_json:
            _print(proposal, dry_run=dry_run)
        if not dry_run:
            proposal.refuse_deaf()  # before it asks
        agreed = not dry_run and not proposal.empty and (yes or _asked(as_json))
        if agreed:
            carry_out(views, proposal, whole_feed=whole_feed)
        waits = wait and (agreed or proposal.empty)
        code = wait_served(views, proposal.incarnation) if waits else ExitCode.MET
    if as_json:
        print_json("apply", {"applied": agreed, **_as_data(proposal)}, exit_code=code)
    elif agreed:
        console().print("applied" if wait else "applied. next: cvs run, then cvs status")
    return code


def _asked(as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise SpecificationError(
            "there are changes, and nobody to ask", next_step="look with --dry-run, agree with --yes"
        )
    return click.confirm("Do this?")


def _print(proposal: Proposal, *, dry_run: bool) -> None:
    out = console()
    for view in proposal.views:
        for warning in view.warnings:
            out.print(f"note: {view.name}: {warning}")
    for change in proposal.changes:
        out.print(f"  {SIGNS[change.kind]} {change.name} ({change.kind})")
    if proposal.aside and not proposal.empty:
        out.print(f"note: {told_aside(proposal.aside)}")
    for table in proposal.captured:
        out.print(
            f"  ~ {table} gets cdc = true (and gc_grace_seconds moves by a second and back: then statements that "
            "applications have prepared are captured too)",
        )
    if proposal.deaf and not proposal.empty:
        out.print(
            f"note: cdc_enabled is false on {', '.join(proposal.deaf)}: nothing would be captured there"
        )
    for table in proposal.filled:
        out.print(f"  < {table} has rows: they are read once, while writes go on")
    if proposal.incarnation > 1 and not proposal.empty:
        out.print(
            f"note: incarnation {proposal.incarnation} of all views is built beside the one that serves; "
            "readers see the old one until the new one is complete",
        )
    if proposal.empty:
        out.print("nothing to do: the cluster keeps these views already")
    elif dry_run:
        out.print("\n\n".join(f"{it};" for it in proposal.statements))
        if proposal.removals:
            out.print(f"\nonce incarnation {proposal.incarnation} serves:\n")
            out.print("\n\n".join(f"{it};" for it in proposal.removals))


def _as_data(proposal: Proposal) -> dict[str, object]:
    return {
        "changes": msgspec.to_builtins(proposal.changes),
        "captured": proposal.captured,
        "statements": proposal.statements,
        "removals": proposal.removals,
        "incarnation": proposal.incarnation,
        "filled": proposal.filled,
        "aside": dict(proposal.aside),
    }
