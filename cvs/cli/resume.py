"""`cvs resume`: let a paused view, or the whole pipeline, go on."""

import click

from cvs.cli.options import asked_of, read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.sidecar.requests import Requests, resume
from cvs.sidecar.views import opened_views


@click.command(name="resume")
@click.argument("view", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole pipeline.")
@settings_option
@click.option(
    "--within", "seconds", default=600.0, show_default=True, help="Seconds the view gets to be shown."
)
@json_option
def command(
    view: str | None, everything: bool, settings_file: str | None, seconds: float, as_json: bool
) -> None:
    """Go on after `cvs pause`: all of the view is put again as it is now, then its table follows.

    \b
    cvs resume shop.orders_by_region
    """
    asked_of(view, everything)
    settings = read_settings(settings_file)
    with opened_views(settings) as views:
        requests = Requests(views.session, keyspace=settings.views.state_keyspace)
        views.kept()  # because tables of a newer cvs are refused there
        name = views.named(view).name if view else ""
        if name:
            resume(views.catalog, requests, name, seconds=seconds)
        else:
            requests.pause_all(paused=False)
    if as_json:
        print_json("resume", {"resumed": name or "all"})
        return
    console().print(f"{name or 'the pipeline'}: goes on")
