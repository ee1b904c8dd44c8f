"""`cvs feed ls|cat|tail|end`: look into a feed; end the stream of a node that is lost."""

import sys
import time
from typing import Any

import click
import msgspec

from cvs.capture.changes import Change, Kind
from cvs.capture.describe import describe
from cvs.capture.feed import ENDED, Feed
from cvs.capture.opening import AnyFeed, open_feed
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import HistoryError
from cvs.stream.build import ALWAYS

BATCH = 1000


@click.group(name="feed")
def command() -> None:
    """Look into a feed of captured changes: a folder, or kafka://host:port/topic; without a name that of the settings.

    \b
    Examples:
      cvs feed ls ./feed
      cvs feed cat ./feed --stream node1 --from 1000 --limit 20
      cvs feed tail ./feed --json
    """


@command.command(name="ls")
@click.argument("name", metavar="[FEED]", required=False)
@settings_option
@json_option
def list_streams(name: str | None, settings_file: str | None, as_json: bool) -> None:
    """List streams: positions kept, clock, where the producer stands."""
    feed = _opened(name, settings_file)
    rows = []
    for stream in _streams(feed, ""):
        head = feed.head(stream)
        rows.append(
            {
                "stream": stream,
                "first": feed.first(stream),
                "next": head.position,
                "clock": head.clock,
                "age_ms": None
                if head.clock >= ALWAYS or not head.clock
                else time.time_ns() // 1_000_000 - head.clock // 1000,
                "source": f"{head.source.segment}:{head.source.offset}",
            }
        )
    if as_json:
        print_json("feed ls", rows)
        return
    for row in rows:
        positions = f"positions {row['first']} to {row['next']}"
        clock = f"clock {row['age_ms']} ms ago"
        if row["age_ms"] is None:
            built = "what a build read" if row["clock"] else "no clock yet"
            clock = "ended" if row["clock"] == ENDED else built
        console().print(f"{row['stream']}  {positions}  {clock}  log {row['source']}")


@command.command(name="cat")
@click.argument("name", metavar="[FEED]", required=False)
@settings_option
@click.option("--stream", default="", help="Only this stream.")
@click.option("--from", "start", type=int, default=None, help="First position; the oldest by default.")
@click.option("--limit", type=int, default=None, help="At most so many changes a stream.")
@json_option
def show(
    name: str | None,
    settings_file: str | None,
    stream: str,
    start: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print changes; with --json one object a line."""
    feed = _opened(name, settings_file)
    for one in _streams(feed, stream):
        at = feed.first(one) if start is None else start
        end = feed.head(one).position if limit is None else at + limit
        _print_from(feed, one, at, end, as_json=as_json)


@command.command(name="tail")
@click.argument("name", metavar="[FEED]", required=False)
@settings_option
@click.option("--stream", default="", help="Only this stream.")
@click.option("--for", "seconds", type=float, default=None, help="Stop after so many seconds.")
@json_option
def follow(
    name: str | None, settings_file: str | None, stream: str, seconds: float | None, as_json: bool
) -> None:
    """Print changes as they come; with --json one object a line."""
    feed = _opened(name, settings_file)
    at = {one: feed.head(one).position for one in _streams(feed, stream)}
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is None or time.monotonic() < deadline:
        for one in _streams(feed, stream):
            at[one] = _print_from(feed, one, at.get(one, 0), sys.maxsize, as_json=as_json)
        time.sleep(0.05)


@command.command(name="end")
@click.argument("name", metavar="[FEED]", required=False)
@settings_option
@click.option("--stream", required=True, help="The stream of the lost node (its host id).")
def end(name: str | None, settings_file: str | None, stream: str) -> None:
    """End the stream of a node whose log is lost.

    Readers wait for its clock no longer. What the node had not handed over is unknown, so a gap is said: every
    view is broken, and stands as it stood, until `cvs rebuild --all`. If the node's disk is still there,
    `cvs capture --last` loses nothing.
    """
    feed = _opened(name, settings_file)
    head = feed.head(_streams(feed, stream)[0])
    if head.clock != ENDED:
        gap = Change(
            Kind.GAP, "", detail=f"the node is lost; its log was read up to segment {head.source.segment}"
        )
        feed.append(stream, [gap], source=head.source, clock=ENDED)
        sys.stdout.write("ended, with a gap: every view is broken by it. next: cvs rebuild --all\n")
    else:
        sys.stdout.write("it has ended already: nothing was done\n")
    feed.close()


def _opened(name: str | None, settings_file: str | None) -> AnyFeed:
    """Open the feed that is named, or the one of the settings."""
    return open_feed(name or read_settings(settings_file).feed.name)


def _streams(feed: Feed, wanted: str) -> list[str]:
    found = feed.streams()
    if not found or (wanted and wanted not in found):
        raise HistoryError(
            f"there is no stream {wanted!r}" if wanted else "there is no stream in this feed",
            next_step=f"streams here: {', '.join(found)}" if found else "start `cvs capture` first",
        )
    return [wanted] if wanted else found


def _print_from(feed: Feed, stream: str, start: int, end: int, *, as_json: bool) -> int:
    while start < end and (changes := feed.read(stream, start, min(BATCH, end - start))):
        for change in changes:
            definition = feed.definition(change.definition) if change.definition else None
            _print({"stream": stream} | describe(start, change, definition), as_json=as_json)
            start += 1
    return start


def _print(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(shown, enc_hook=_plain).decode() + "\n")
    else:
        skipped = ("stream", "position", "kind", "table", "origin")
        words = "  ".join(f"{name} {_words(value)}" for name, value in shown.items() if name not in skipped)
        start = f"{shown['stream']} {shown['position']:>8}  {shown['kind']:<18} {shown.get('table', '-')}"
        sys.stdout.write(f"{start}  {words}\n")
    sys.stdout.flush()


def _words(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_words(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return "null" if value is None else str(value)


def _plain(value: object) -> object:
    return str(value)
