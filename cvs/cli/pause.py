"""`cvs pause`: let a view, or the whole pipeline, stand still."""

import click

from cvs.cli.options import asked_of, read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.sidecar.requests import Requests, pause
from cvs.sidecar.views import opened_views


@click.command(name="pause")
@click.argument("view", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole pipeline: no epoch begins.")
@settings_option
@click.option(
    "--within", "seconds", default=30.0, show_default=True, help="Seconds the pipeline gets to answer."
)
@json_option
def command(
    view: str | None, everything: bool, settings_file: str | None, seconds: float, as_json: bool
) -> None:
    """Stop showing changes of a view, or keep the whole pipeline from going on.

    A paused view's table stands still; its state goes on, so views that share stages with it or read it do not
    notice. With --all the epoch at hand is finished and no other begins; captured changes wait in the feed: mind
    its disk.

    \b
    cvs pause shop.orders_by_region
    """
    asked_of(view, everything)
    settings = read_settings(settings_file)
    with opened_views(settings) as views:
        requests = Requests(views.session, keyspace=settings.views.state_keyspace)
        views.kept()  # because tables of a newer cvs are refused there
        name = views.named(view).name if view else ""
        if name:
            pause(views.catalog, requests, name, seconds=seconds)
        else:
            requests.pause_all(paused=True)
            requests.wait_idle(seconds=seconds)
    if as_json:
        print_json("pause", {"paused": name or "all"})
        return
    console().print(f"{name or 'the pipeline'}: paused. next: cvs resume {name or '--all'}")
