"""`cvs capture`: one node's commit log into a feed."""

from pathlib import Path

import click

from cvs.capture.node import NodeConnection
from cvs.capture.opening import open_feed, refuse_filled_by_others
from cvs.capture.runner import Capture, Status
from cvs.capture.signals import end_on_signals
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import json_option, print_json, talk
from cvs.errors import SpecificationError
from cvs.sidecar.views import cluster_address


@click.command(name="capture")
@click.option(
    "--feed", "name", help="A folder, or kafka://host:port/topic; that of [feed] in the settings by default."
)
@click.option("--node", "address", default="127.0.0.1", show_default=True, help="CQL address of the node.")
@click.option("--port", type=int, help="CQL port of the node; that of [cluster] in the settings by default.")
@settings_option
@click.option("--cdc-raw", type=click.Path(path_type=Path), default=None, help="The node's cdc_raw folder.")
@click.option("--stream", default="", help="Name of the stream; the node's host id by default.")
@click.option("--table", "tables", multiple=True, help="Only keyspace.table; all tables WITH cdc by default.")
@click.option("--eager", is_flag=True, help="Read before fsync: faster, but declares no level.")
@click.option("--keep", is_flag=True, help="Leave consumed segments in cdc_raw.")
@click.option("--once", is_flag=True, help="Take what the log has now, then end.")
@click.option("--last", is_flag=True, help="The node has left and is stopped: take the rest, end its stream.")
@json_option
def command(
    name: str | None,
    address: str,
    port: int | None,
    settings_file: str | None,
    cdc_raw: Path | None,
    stream: str,
    tables: tuple[str, ...],
    eager: bool,
    keep: bool,
    once: bool,
    last: bool,
    as_json: bool,
) -> None:
    """Follow a node's commit log; append every change of its captured tables to a feed.

    Runs on the node's own machine, one process a node. It may be killed at any moment: the next one goes on
    where the feed ends. Consumed segments are deleted from cdc_raw, so the node's limit is never reached
    while it runs. User, password and TLS are those of [cluster] in the settings.

    A node that left (decommissioned, or dead and replaced) and is stopped: capture the rest of its folder with
    --last, asking any other node for the schema; then no reader waits for its stream any more. If its disk is
    lost, say so with `cvs feed end`.

    \b
    Examples:
      cvs capture --node 127.0.0.1 --feed ./feed
      cvs capture --node 10.0.0.1 --settings /etc/cvs/cvs.toml
      cvs capture --last --node 127.0.0.2 --cdc-raw /var/lib/cassandra/cdc_raw --stream HOST_ID --feed ./feed
    """
    if last and not (stream and cdc_raw):
        raise SpecificationError(
            "--last is about a node that cannot be asked", next_step="name its --stream and its --cdc-raw"
        )
    settings = read_settings(settings_file)
    refuse_filled_by_others(name or settings.feed.name)
    feed = open_feed(name or settings.feed.name)
    connection = NodeConnection(address, port or settings.cluster.port, entry=cluster_address(settings))
    wanted = (lambda definition: definition.capture and definition.full_name in tables) if tables else None
    capture = Capture(
        connection, feed, stream=stream, folder=cdc_raw, eager=eager, delete=not keep, wanted=wanted
    )
    try:
        if last:
            capture.finish()
        elif once:
            capture.catch_up()
        else:
            capture.run(end_on_signals(), each=_say)
        _end(capture.status(), as_json=as_json)
    finally:
        capture.close()
        feed.close()


def _say(status: Status) -> None:
    """Tell how it goes, on stderr: progress, counters of what was left out, alarms."""
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(status.counters.items()))
    talk().print(f"{status.stream}: position {status.head.position}; {left_out or 'nothing yet'}")
    if status.alarm:
        talk().print(f"alarm: {status.alarm}")


def _end(status: Status, *, as_json: bool) -> None:
    if as_json:
        body = {"stream": status.stream, "position": status.head.position, "counters": status.counters}
        print_json("capture", body)
    else:
        _say(status)
