"""`cvs run`: one pipeline process, from a feed to published tables."""

from dataclasses import replace
from pathlib import Path

import click

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import talk
from cvs.errors import SpecificationError
from cvs.programs.stage_bucket import ALL_RULES
from cvs.sidecar.lifecycle import serve
from cvs.store.session import ClusterAddress
from cvs.stream.runner import RunSettings, run


@click.command(
    help="""Run one pipeline: epochs from a feed, through Spark, into the published tables of views.

    With --settings (or a cvs.toml here) it keeps the views that were applied and serves the status page; with
    --contact, --views, --base and --feed it runs from those alone.

    \b
    Examples:
      cvs run --settings /etc/cvs/cvs.toml
      cvs run --contact 10.0.0.1 --views views.sql --base shop --feed /var/lib/cvs/feed
    """
)
@settings_option
@click.option("--contact", "contacts", multiple=True, metavar="HOST", help="May be repeated.")
@click.option("--port", default=9042, show_default=True, help="CQL port.")
@click.option("--views", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--base", "bases", multiple=True, metavar="KEYSPACE", help="Of base tables.")
@click.option("--feed", type=click.Path(path_type=Path), help="Folder of captured changes.")
@click.option("--state", default="cvs", show_default=True, help="Keyspace of cvs's own tables.")
@click.option("--replication", default=1, show_default=True, help="Replicas of cvs's own keyspace.")
@click.option("--record", type=click.Path(path_type=Path), help="Folder of the epoch log, for the judge.")
@click.option("--spark", default="local[2]", show_default=True, help="Spark master; empty: without Spark.")
@click.option("--kill-at", default=0, help="Test: kill -9 itself after so many rounds of test-and-sets.")
@click.option("--without-signatures", is_flag=True, help="Test: what is lost without them.")
@click.option("--changes", default=20_000, show_default=True, help="The most changes one epoch takes.")
@click.option("--stop-at", default=0, help="Test: stop itself there, as a zombie to be woken.")
def command(
    settings_file: str | None,
    contacts: tuple[str, ...],
    port: int,
    views: Path | None,
    bases: tuple[str, ...],
    feed: Path | None,
    state: str,
    replication: int,
    record: Path | None,
    spark: str,
    kill_at: int,
    stop_at: int,
    without_signatures: bool,
    changes: int,
) -> None:
    """Run until SIGTERM."""
    if not contacts:
        serve(read_settings(settings_file), say=talk().print)
        return
    if views is None or feed is None or not bases:
        raise SpecificationError(
            "--contact goes with --views, --base and --feed", next_step="or use --settings alone"
        )
    settings = RunSettings(
        address=ClusterAddress(contact_points=contacts, port=port),
        views_sql=views.read_text(),
        base_keyspaces=bases,
        feed=feed,
        state_keyspace=state,
        replication=replication,
        record=record,
        spark_master=spark,
        rules=replace(ALL_RULES, signatures=not without_signatures),
        changes_an_epoch=changes,
        fall_at=kill_at or stop_at,
        fall_by="kill" if kill_at else "stop",
    )
    run(settings, say=talk().print)
