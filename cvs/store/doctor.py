"""What the store needs of a cluster: reachable, one version, Paxos, clocks, replication, permissions."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from cassandra import DriverException, Unauthorized

from cvs.model.values import many
from cvs.store.examination import Check, Examined, Finding, Grade
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession, ClusterAddress, nodes_in

CLOCK_APART_MS = 250.0  # because epoch clocks are compared over nodes: more makes every wait longer
SUPPORTED = ((4, 1), (5, 0))
REQUEST_SECONDS = 10.0
POOL_SECONDS = 3.0
NEEDED = ("CREATE", "ALTER", "SELECT", "MODIFY")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- because the driver gives times in UTC without a zone
ACCELERATORS = {"cassandra.cmurmur3": "token routing", "cassandra.row_parser": "row parsing"}


def driver_extensions(_: Examined) -> Iterator[Finding]:
    """Say whether the driver's compiled parts are there."""
    missing = [what for module, what in ACCELERATORS.items() if find_spec(module) is None]
    if missing:
        yield Finding(
            about="driver",
            grade=Grade.ADVICE,
            found=f"the Python driver's compiled parts are missing ({', '.join(missing)}): slower",
            mend="install cassandra-driver from a wheel, or with a C compiler at hand",
        )
    else:
        yield Finding(about="driver", grade=Grade.GOOD, found="the Python driver has its compiled parts")


def reachable(examined: Examined) -> Iterator[Finding]:
    """Say whether the cluster lets us in."""
    where = f"{', '.join(examined.address.contact_points)}, port {examined.address.port}"
    if examined.session is None:
        yield Finding(
            about="cluster",
            grade=Grade.PROBLEM,
            found=f"{where}: {examined.unreachable}",
            mend=f"{examined.way_in or 'check it'} ([cluster] of the settings), or `cvs node start`",
        )
        return
    who = f"as {examined.address.username}" if examined.address.username else "without a user name"
    safe = "with TLS" if examined.address.ca_file else "without TLS"
    yield Finding(about="cluster", grade=Grade.GOOD, found=f"{where} lets us in {who}, {safe}")


def nodes(examined: Examined) -> Iterator[Finding]:
    """Say which nodes do not answer: nothing below was asked of them."""
    for session in _session(examined):
        here = nodes_in(session.driver, examined.address.local_datacenter)
        answering = hosts(session)
        silent = sorted(str(host.address) for host in here if host not in answering)
        if silent:
            yield Finding(
                about="nodes",
                grade=Grade.PROBLEM,
                found=f"{len(silent)} of {len(here)} do not answer: {', '.join(silent)}",
                mend="bring them back, or take them out of the cluster: what follows was asked of the others only",
            )
        else:
            elsewhere = len(nodes_in(session.driver, "")) - len(here)
            more = f"; {elsewhere} in other datacentres are not asked" if elsewhere else ""
            yield Finding(about="nodes", grade=Grade.GOOD, found=f"{len(here)} of {len(here)} answer{more}")


def hosts(session: CassandraSession) -> list[Any]:
    """Return the nodes that a request can be sent to: those that are up, of the datacentre of the settings.

    A session that has just been opened still connects to some: those are waited for, not left out.
    """
    end = time.monotonic() + POOL_SECONDS
    here = nodes_in(session.driver, session.address.local_datacenter)
    while time.monotonic() < end and any(
        node.is_up is not False and node not in session.driver.get_pool_state() for node in here
    ):
        time.sleep(0.05)
    return list(session.driver.get_pool_state())


def versions(examined: Examined) -> Iterator[Finding]:
    """Say whether all nodes run one supported version and agree on the schema."""
    for session in _session(examined):
        peers = session.execute("SELECT release_version, schema_version FROM system.peers")
        rows = [*session.execute("SELECT release_version, schema_version FROM system.local"), *peers]
        found = sorted({row[0] for row in rows})
        yield _version_finding(found, len(rows))
        if len({row[1] for row in rows}) > 1:
            yield Finding(
                about="schema",
                grade=Grade.PROBLEM,
                found="nodes disagree about the schema",
                mend="`nodetool describecluster` names them; restart the odd one",
            )


def _version_finding(found: list[str], nodes: int) -> Finding:
    if len(found) > 1:
        return Finding(
            about="version",
            grade=Grade.PROBLEM,
            found=f"nodes run different versions: {', '.join(found)}",
            mend="finish the upgrade first",
        )
    release = tuple(int(part) for part in found[0].split("-")[0].split(".")[:2])
    if release < SUPPORTED[0]:
        return Finding(
            about="version",
            grade=Grade.PROBLEM,
            found=f"Cassandra {found[0]} is too old",
            mend="cvs needs 4.1 or newer (capture near real time, settings as a table)",
        )
    if release not in SUPPORTED:
        return Finding(
            about="version",
            grade=Grade.ADVICE,
            found=f"Cassandra {found[0]} was never tried with cvs",
            mend="try it with `cvs verify` before you rely on it",
        )
    return Finding(about="version", grade=Grade.GOOD, found=f"{nodes} node(s), all Cassandra {found[0]}")


def paxos(examined: Examined) -> Iterator[Finding]:
    """Say which Paxos the nodes run; both are right, one is twice as quick."""
    for settings in _settings_of_nodes(examined):
        variants = {node.get("paxos_variant", "v1") for node in settings}
        purging = {node.get("paxos_state_purging") for node in settings}
        if len(variants) > 1:
            yield Finding(
                about="paxos",
                grade=Grade.PROBLEM,
                found="nodes run different Paxos variants",
                mend="set paxos_variant: v2 on every node",
                restart=True,
            )
        elif variants == {"v1"}:
            yield Finding(
                about="paxos",
                grade=Grade.ADVICE,
                found="Paxos v1 (the stock setting): right, but four round trips a test-and-set instead of two",
                mend="paxos_variant: v2 on every node, then regular repair, then paxos_state_purging: repaired",
                restart=True,
            )
        elif purging != {"repaired"}:
            yield Finding(
                about="paxos",
                grade=Grade.ADVICE,
                found="Paxos v2 without purging by repair: Paxos state grows until gc_grace",
                mend="run regular Paxos repairs, then paxos_state_purging: repaired (never back to legacy)",
                restart=True,
            )
        else:
            yield Finding(about="paxos", grade=Grade.GOOD, found="Paxos v2, purged by repair")


def clocks(examined: Examined) -> Iterator[Finding]:
    """Compare each node's clock with ours, half a round trip taken off."""
    for session in _session(examined):
        worst, address = 0.0, ""
        for host in hosts(session):
            apart = _clock_apart_ms(session, host)
            if abs(apart) >= abs(worst):
                worst, address = apart, str(host.address)
        grade = Grade.GOOD if abs(worst) <= CLOCK_APART_MS else Grade.PROBLEM
        yield Finding(
            about="clocks",
            grade=grade,
            found=f"nodes' clocks are within {abs(worst):.0f} ms of ours (worst: {address})",
            mend="" if grade is Grade.GOOD else "run NTP or chrony on every node and here",
        )


def _clock_apart_ms(session: CassandraSession, host: Any) -> float:
    asked = time.time()
    row = session.driver.execute(
        "SELECT currentTimestamp() FROM system.local", host=host, timeout=REQUEST_SECONDS
    ).one()
    answered = time.time()
    their_ms: float = (row[0] - _EPOCH).total_seconds() * 1000
    slack = (answered - asked) * 500
    apart = their_ms - (asked + answered) * 500
    return 0.0 if abs(apart) <= slack + 1 else apart - slack if apart > 0 else apart + slack


def replication(examined: Examined) -> Iterator[Finding]:
    """Say whether cvs's keyspaces survive a lost node, and whether the levels can be met at all."""
    for session in _session(examined):
        metadata = session.driver.cluster.metadata
        count = len(metadata.all_hosts())
        datacenters = {host.datacenter for host in metadata.all_hosts()}
        for name in (examined.state_keyspace, examined.published_keyspace):
            keyspace = metadata.keyspaces.get(name)
            strategy = keyspace.replication_strategy if keyspace else None
            yield _replication_finding(name, strategy, count)
        yield _serial_finding(examined.address, datacenters)


def _replication_finding(name: str, strategy: Any, nodes: int) -> Finding:
    about = f"keyspace {name}"
    if strategy is None:
        return Finding(
            about=about,
            grade=Grade.ADVICE,
            found="not there yet",
            mend="`cvs apply` makes it if a view is to stand there",
        )
    factors = [int(it) for it in re.findall(r": '?(\d+)", strategy.export_for_schema())]
    copies = sum(factors)
    stand = f"{many(copies, 'copy', 'copies')} on {many(nodes, 'node')}"
    if copies > nodes:
        return Finding(
            about=about,
            grade=Grade.PROBLEM,
            found=f"{stand}: QUORUM fails sooner than it must, ALL always",
            mend=f"ALTER KEYSPACE with at most {nodes} copies, then repair",
        )
    if nodes > 1 and max(factors, default=1) < 3:
        return Finding(
            about=about,
            grade=Grade.ADVICE,
            found=f"{many(copies, 'copy', 'copies')}: one lost node stops the views",
            mend="ALTER KEYSPACE with 3 copies a datacentre, then repair",
        )
    return Finding(about=about, grade=Grade.GOOD, found=stand)


def _serial_finding(address: ClusterAddress, datacenters: set[str]) -> Finding:
    serial, local = address.serial_consistency, address.local_datacenter
    if serial == "LOCAL_SERIAL" and len(datacenters) > 1 and not local:
        return Finding(
            about="serial",
            grade=Grade.ADVICE,
            found=f"LOCAL_SERIAL over {len(datacenters)} datacentres: two of them would not see each other's rounds",
            mend='name the one where cvs runs as local_datacenter, or set serial_consistency = "SERIAL"',
        )
    here = f", here in {local}" if local else ""
    return Finding(
        about="serial", grade=Grade.GOOD, found=f"{serial} with {len(datacenters)} datacentre(s){here}"
    )


def permissions(examined: Examined) -> Iterator[Finding]:
    """Say whether our role may do what cvs does, and whether others are kept from writing views."""
    user = examined.address.username
    if not user:
        for _ in _session(examined):
            yield Finding(
                about="permissions",
                grade=Grade.ADVICE,
                found="no user name: whoever reaches the cluster may write view tables, which makes them wrong",
                mend="switch authentication on and give cvs a role of its own",
                restart=True,
            )
        return
    for session in _session(examined):
        yield _permission_finding(session, user, examined)


def _permission_finding(session: CassandraSession, user: str, examined: Examined) -> Finding:
    quoted = user.replace("'", "''")
    try:
        role = session.driver.execute(f"LIST ROLES OF '{quoted}'").all()
        if any(row[1] for row in role if row[0] == user):
            return Finding(about="permissions", grade=Grade.GOOD, found=f"{user} is a superuser")
        rows = session.driver.execute(f"LIST ALL PERMISSIONS OF '{quoted}'").all()
    except (Unauthorized, DriverException) as refusal:
        return Finding(
            about="permissions",
            grade=Grade.UNKNOWN,
            found=f"the role may not be looked at: {type(refusal).__name__}",
        )
    missing = []
    for name in (examined.state_keyspace, examined.published_keyspace):
        wanted = {"<all keyspaces>", f"<keyspace {name}>"}
        held = {str(row[3]) for row in rows if str(row[2]) in wanted}
        missing += [f"{verb} on {name}" for verb in NEEDED if verb not in held]
    if missing:
        return Finding(
            about="permissions",
            grade=Grade.PROBLEM,
            found=f"{user} lacks {', '.join(missing)}",
            mend="; ".join(f"GRANT {lack.replace(' on ', ' ON KEYSPACE ')} TO {user}" for lack in missing),
        )
    return Finding(about="permissions", grade=Grade.GOOD, found=f"{user} may do what cvs does")


def _session(examined: Examined) -> Iterator[CassandraSession]:
    """Give the session, or nothing where the cluster is unreachable (said once, by `reachable`)."""
    if examined.session is not None:
        yield examined.session


def settings_of_nodes(session: CassandraSession) -> list[Mapping[str, str]]:
    """Read what each node is set to, asking every node that answers for itself."""
    rows: list[Mapping[str, str]] = []
    for host in hosts(session):
        answer = session.driver.execute(
            "SELECT name, value FROM system_views.settings", host=host, timeout=REQUEST_SECONDS
        )
        rows.append({name: value for name, value in answer if value is not None})
    return rows


def nodes_without(session: CassandraSession, setting: str) -> Iterator[str]:
    """Name the nodes whose setting is false; one that says nothing is passed over."""
    statement = f"SELECT value FROM system_views.settings WHERE name = '{setting}'"
    for host in hosts(session):
        with suppress(*UNANSWERED):
            row = session.driver.execute(statement, host=host, timeout=REQUEST_SECONDS).one()
            if row is not None and row[0] == "false":
                yield str(host.address)


def _settings_of_nodes(examined: Examined) -> Iterator[list[Mapping[str, str]]]:
    for session in _session(examined):
        yield settings_of_nodes(session)


CHECKS: tuple[Check, ...] = (
    driver_extensions,
    reachable,
    nodes,
    versions,
    paxos,
    clocks,
    replication,
    permissions,
)
