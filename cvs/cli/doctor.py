"""`cvs doctor`: what cvs needs of this machine and of a cluster, and how to mend what is not there."""

import importlib
import pkgutil
from collections.abc import Iterator

import click
from cassandra import Unauthorized
from rich.markup import escape
from rich.table import Table

import cvs
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import CvsError, ExitCode
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import cluster_address, unanswered
from cvs.store.doctor import settings_of_nodes
from cvs.store.examination import Check, Examined, Finding, Grade
from cvs.store.expectation import expectation
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession, not_granted

STYLES = {Grade.GOOD: "green", Grade.ADVICE: "yellow", Grade.PROBLEM: "red", Grade.UNKNOWN: "dim"}


@click.command()
@settings_option
@json_option
def command(settings_file: str | None, as_json: bool) -> int:
    """Check this machine and a cluster; say what to mend and what freshness to expect.

    \b
    cvs doctor --settings cvs.toml
    """
    examined = examine(read_settings(settings_file))
    try:
        findings = [finding for check in registered_checks() for finding in guarded(check, examined)]
        can = expected(examined)
    finally:
        if examined.session is not None:
            examined.session.close()
    sick = any(finding.grade is Grade.PROBLEM for finding in findings)
    code = ExitCode.VIOLATED if sick else ExitCode.MET
    if as_json:
        print_json("doctor", {"findings": findings, "expect": can}, exit_code=code)
    else:
        _print(findings, can)
    return code


def examine(settings: Settings) -> Examined:
    """Connect, or remember why that failed: the checks that need no cluster still run."""
    address = cluster_address(settings)
    session: CassandraSession | None = CassandraSession(address)
    unreachable = way_in = ""
    try:
        assert session is not None
        _ = session.driver
    except (CvsError, *UNANSWERED) as fault:
        refusal = fault if isinstance(fault, CvsError) else unanswered(fault)
        session, unreachable, way_in = None, refusal.what, refusal.next_step
    return Examined(
        address=address,
        session=session,
        state_keyspace=settings.views.state_keyspace,
        published_keyspace=settings.views.published_keyspace,
        unreachable=unreachable,
        way_in=way_in,
    )


def expected(examined: Examined) -> list[str]:
    """Say what to expect of the cluster, if it is there and shows its settings to our role."""
    if examined.session is None:
        return []
    try:
        return expectation(settings_of_nodes(examined.session))
    except UNANSWERED as refusal:
        return [f"Unknown: the nodes do not show their settings to this role ({type(refusal).__name__})."]


def registered_checks() -> Iterator[Check]:
    """Find the checks of every room that has some (a file `doctor.py` with `CHECKS`)."""
    for room in sorted(module.name for module in pkgutil.iter_modules(cvs.__path__) if module.ispkg):
        name = f"cvs.{room}.doctor"
        if room != "cli" and importlib.util.find_spec(name) is not None:
            yield from importlib.import_module(name).CHECKS


def guarded(check: Check, examined: Examined) -> list[Finding]:
    """Run one check; one that fails is a finding, never the end of the others."""
    about = check.__name__.replace("_", " ")
    try:
        return list(check(examined))
    except Unauthorized as refused:
        refusal = not_granted(refused, "")
        return [Finding(about=about, grade=Grade.UNKNOWN, found=refusal.what, mend=refusal.next_step)]
    except Exception as fault:  # noqa: BLE001 -- because a cluster may fail in any way while it is looked at
        found = f"could not be checked: {type(fault).__name__}"
        return [Finding(about=about, grade=Grade.UNKNOWN, found=found)]


def _print(findings: list[Finding], can: list[str]) -> None:
    table = Table(box=None, show_header=False)
    for finding in findings:
        style = STYLES[finding.grade]
        table.add_row(f"[{style}]{finding.grade.value}[/]", escape(finding.about), escape(finding.found))
        if finding.mend:
            restart = " (needs a restart of the node)" if finding.restart else ""
            table.add_row("", "", escape(f"-> {finding.mend}{restart}"))
    console(markup=True).print(table)
    if can:
        console().print("\nWhat to expect of this cluster:")
        for line in can:
            console().print(f"  - {line}")
