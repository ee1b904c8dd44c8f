"""`cvs dump`: the views the cluster keeps, as a `views.sql`."""

import click

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import json_option, print_json
from cvs.sidecar.views import Views, cluster_address
from cvs.store.session import CassandraSession


@click.command(name="dump")
@settings_option
@json_option
def command(settings_file: str | None, as_json: bool) -> None:
    """Write the views that the cluster keeps as statements that `cvs apply` takes.

    \b
    cvs dump > views.sql
    """
    settings = read_settings(settings_file)
    session = CassandraSession(cluster_address(settings))
    try:
        kept = Views(session=session, settings=settings).kept()
    finally:
        session.close()
    if as_json:
        print_json("dump", {name: view.statement for name, view in kept.items()})
        return
    click.echo("\n\n".join(view.statement for view in kept.values()))
