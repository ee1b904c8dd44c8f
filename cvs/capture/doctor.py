"""What capture needs of the nodes: a readable commit log, CDC on, room in cdc_raw, tables WITH cdc."""

import os
from collections.abc import Iterator
from itertools import groupby

from cvs.capture.node import NodeSettings, fullness, node_settings
from cvs.capture.schema import SYSTEM_KEYSPACES
from cvs.store.doctor import settings_of_nodes
from cvs.store.examination import Check, Examined, Finding, Grade

SLOW_MS = 1000.0  # commit-log period from which on it alone decides how fresh views are


def commit_log(examined: Examined) -> Iterator[Finding]:
    """Say whether every node's commit log can be read: CDC on, plain, not in direct access mode."""
    nodes = _nodes(examined)
    complaints = sorted(complaint for node in nodes for complaint in node.complaints())
    for (what, mend), found in groupby(complaints):
        yield Finding(
            about="commit log",
            grade=Grade.PROBLEM,
            found=f"{what} on {len(list(found))} of {len(nodes)} node(s): nothing is captured there",
            mend=mend,
            restart=True,
        )
    if nodes and not complaints:
        found_text = (
            f"CDC is on and the log is plain on {len(nodes)} node(s); capture reads it itself, without Java"
        )
        yield Finding(about="commit log", grade=Grade.GOOD, found=found_text)


def commit_log_sync(examined: Examined) -> Iterator[Finding]:
    """Say how soon a write is durable, which is when it can be captured."""
    for session in [examined.session] if examined.session else []:
        said = settings_of_nodes(session)
        slow = [node for node in said if node.get("commitlog_sync", "periodic") == "periodic"]
        periods = sorted({node.get("commitlog_sync_period", "10000ms") for node in slow})
        if slow:
            yield Finding(
                about="commit log sync",
                grade=Grade.ADVICE,
                found=f"periodic ({', '.join(periods)}) on {len(slow)} of {len(said)} node(s): changes wait that long",
                mend="commitlog_sync: group with commitlog_sync_group_window: 2ms, or a period of 100 ms",
                restart=True,
            )
        else:
            modes = ", ".join(sorted({node["commitlog_sync"] for node in said}))
            yield Finding(
                about="commit log sync", grade=Grade.GOOD, found=f"{modes}: durable within milliseconds"
            )


def cdc_raw(examined: Examined) -> Iterator[Finding]:
    """Say whether cdc_raw is here and may be emptied, how full it is, and what happens when it is full."""
    for node in _nodes(examined):
        if not node.cdc_enabled:
            continue
        about = f"cdc_raw of {node.cdc_raw.parent}"
        if not node.cdc_raw.is_dir():
            yield Finding(
                about=about,
                grade=Grade.UNKNOWN,
                found=f"{node.cdc_raw} is not on this machine",
                mend="run `cvs doctor` beside the node, as the user of `cvs capture`",
            )
        elif not os.access(node.cdc_raw, os.R_OK | os.W_OK | os.X_OK):
            yield Finding(
                about=about,
                grade=Grade.PROBLEM,
                found=f"{node.cdc_raw} may not be read and emptied by this user",
                mend="run capture as the node's user, or give its group read and write",
            )
        else:
            taken = sum(path.stat().st_size for path in node.cdc_raw.glob("CommitLog-*.log"))
            alarm = fullness(node, taken)
            yield Finding(
                about=about,
                grade=Grade.PROBLEM if alarm else Grade.GOOD,
                found=alarm or f"{taken >> 20} of {node.cdc_total_space >> 20} MiB taken",
                mend="start `cvs capture` beside it (is the feed writable?), or raise cdc_total_space"
                if alarm
                else "",
            )


def when_full(examined: Examined) -> Iterator[Finding]:
    """Say what nodes do when cdc_raw is full, and whether repaired data comes through the log."""
    nodes = _nodes(examined)
    drops = [node for node in nodes if node.cdc_enabled and not node.blocks_writes]
    if drops:
        yield Finding(
            about="cdc_block_writes",
            grade=Grade.ADVICE,
            found=f"false on {len(drops)} of {len(nodes)} node(s): a full cdc_raw loses changes, and views are rebuilt",
            mend="cdc_block_writes: true, unless the users' writes matter more than the views",
            restart=True,
        )
    silent = [node for node in nodes if node.cdc_enabled and not node.on_repair]
    if silent:
        yield Finding(
            about="cdc_on_repair_enabled",
            grade=Grade.PROBLEM,
            found=f"false on {len(silent)} of {len(nodes)} node(s): what repair brings is never captured",
            mend="cdc_on_repair_enabled: true",
            restart=True,
        )


def captured_tables(examined: Examined) -> Iterator[Finding]:
    """Name the tables that are captured."""
    for session in [examined.session] if examined.session else []:
        rows = session.execute("SELECT keyspace_name, table_name, cdc FROM system_schema.tables")
        names = sorted(f"{row[0]}.{row[1]}" for row in rows if row[2] and row[0] not in SYSTEM_KEYSPACES)
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            found = f"{len(names)} WITH cdc = true: {', '.join(names[:5])}{more}"
            yield Finding(about="captured tables", grade=Grade.GOOD, found=found)
        else:
            yield Finding(
                about="captured tables",
                grade=Grade.ADVICE,
                found="no table has cdc = true: there is nothing to capture yet",
                mend="`cvs apply` sets it on the base tables of your views, after asking",
            )


def _nodes(examined: Examined) -> list[NodeSettings]:
    """Read every node's settings; none where the cluster is unreachable (said once, by the store's check)."""
    return [node_settings(said) for said in settings_of_nodes(examined.session)] if examined.session else []


CHECKS: tuple[Check, ...] = (commit_log, commit_log_sync, cdc_raw, when_full, captured_tables)
