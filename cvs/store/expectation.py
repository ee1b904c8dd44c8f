"""What a cluster with given settings can and cannot do for cvs: freshness, capture, speed of test-and-sets."""

from collections.abc import Mapping, Sequence

Settings = Mapping[str, str]


def expectation(nodes: Sequence[Settings]) -> list[str]:
    """Say in sentences what to expect; the worst node decides. Numbers: one node, 2 cores (README)."""
    if not nodes:
        return []
    return [_capture(nodes), _freshness(nodes), _speed(nodes), _restarts(nodes)]


def _capture(nodes: Sequence[Settings]) -> str:
    if any(not _true(node.get("cdc_enabled")) for node in nodes):
        return (
            "Capture: none from the commit log (CDC is off on some node): `cvs apply` refuses, unless others fill "
            "the feed."
        )
    if any(not _true(node.get("cdc_block_writes", "true")) for node in nodes):
        return (
            "Capture: from the commit log, but a full cdc_raw folder drops changes (cdc_block_writes: false)."
        )
    return (
        "Capture: from the commit log of every node; a full cdc_raw folder makes writes to CDC tables fail "
        "rather than lose a change."
    )


def _freshness(nodes: Sequence[Settings]) -> str:
    worst = max(_sync_ms(node) for node in nodes)
    words = f"{worst / 1000:g} s" if worst >= 1000 else f"{worst:g} ms"
    if worst >= 1000:
        return (
            f"Freshness: a change is durable, hence captured, up to {words} after its write, plus the epoch; for "
            "less set commitlog_sync: group with a window of 2 ms, or a shorter commitlog_sync_period."
        )
    return f"Freshness: a change is durable, hence captured, within about {words}, plus the epoch."


def _sync_ms(node: Settings) -> float:
    kind = node.get("commitlog_sync", "periodic")
    if kind == "batch":
        return 10.0
    if kind == "group":
        return milliseconds(node.get("commitlog_sync_group_window", "15ms"))
    return milliseconds(node.get("commitlog_sync_period", "10000ms"))


def milliseconds(text: str) -> float:
    """Read a duration as Cassandra writes it: 10ms, 2s, 1m; a bare number counts milliseconds."""
    for unit, factor in (("ms", 1.0), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)


def _speed(nodes: Sequence[Settings]) -> str:
    if any(node.get("paxos_variant", "v1") != "v2" for node in nodes):
        return "Test-and-sets: right under Paxos v1, at four round trips each; v2 needs two, often one."
    return "Test-and-sets: two round trips each, often one (Paxos v2)."


def _restarts(nodes: Sequence[Settings]) -> str:
    wanted = []
    if any(not _true(node.get("cdc_enabled")) for node in nodes):
        wanted.append("cdc_enabled: true")
    if any(node.get("paxos_variant", "v1") != "v2" for node in nodes):
        wanted.append("paxos_variant: v2")
    if max(_sync_ms(node) for node in nodes) >= 1000:
        wanted.append("commitlog_sync")
    if not wanted:
        return "Restarts: no setting that cvs would like changed needs one."
    return f"Restarts: changing {', '.join(wanted)} in cassandra.yaml takes a rolling restart."


def _true(value: str | None) -> bool:
    return (value or "false").lower() == "true"
