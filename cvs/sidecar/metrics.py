"""Metrics: one table of names, each with what it means and what to do when it is wrong; own registry.

The table is documentation too: `docker/README.md` prints it, a test keeps the two equal.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cvs.sidecar.status import Status, StatusBoard

VIEW_STATES = ("building", "live", "paused", "degraded", "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: name, labels, meaning, and the alarm with its remedy."""

    name: str
    meaning: str
    alarm: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric(
        name="cvs_view_lag_seconds",
        labels=("view",),
        meaning="age of the newest base change that the view has not shown yet",
        alarm="above the freshness target for 5 minutes: see `cvs status`; add Spark cores or buckets",
    ),
    Metric(
        name="cvs_view_state",
        labels=("view", "state"),
        meaning="1 for the state the view is in (building, live, paused, degraded, broken), else 0",
        alarm="degraded: `cvs quarantine`; broken: `cvs rebuild VIEW`",
    ),
    Metric(
        name="cvs_view_rows",
        labels=("view",),
        meaning="rows of the published table",
        alarm="a sudden fall: `cvs verify VIEW`",
    ),
    Metric(
        name="cvs_view_quarantined",
        labels=("view",),
        meaning="base rows whose value the view cannot compute",
        alarm="above 0: `cvs quarantine` lists them with the reason",
    ),
    Metric(
        name="cvs_view_untimely",
        labels=("view",),
        meaning="base rows that were shown out of the order of write times (0 without the write-time line)",
        alarm="grows: clocks differ by more than `[pipeline] skew_ms`, or writers set old write times; `cvs status`",
    ),
    Metric(
        name="cvs_committed_epoch",
        meaning="the epoch the control row says is done",
        alarm="does not grow for 1 minute while the queue is not empty: read the log of the leader",
    ),
    Metric(
        name="cvs_epoch_duration_seconds",
        meaning="how long the newest epoch took",
        alarm="above the freshness target: `cvs explain` shows what is dear",
    ),
    Metric(
        name="cvs_queued_changes",
        meaning="captured changes that wait for an epoch",
        alarm="grows for 10 minutes: writers are faster than the views; add cores or drop views",
    ),
    Metric(
        name="cvs_watermark_seconds",
        meaning="the minimum over all streams of their durable clocks, as unix time",
        alarm="stands still: one node's capture is down; `cvs feed ls` names it",
    ),
    Metric(
        name="cvs_problems",
        meaning="problems of the pipeline that `cvs status` names: a node without capture, `cdc` that is off",
        alarm="above 0 for 5 minutes: `cvs status` says which, and what to do",
    ),
    Metric(
        name="cvs_leader",
        meaning="1 in the process that drives the epochs, 0 in a standby",
        alarm="no process says 1 for 1 minute: none leads; read the logs",
    ),
)


class StatusCollector(Collector):  # type: ignore[misc]  # because the library is not checked here
    """Makes the metrics from the current status each time they are asked for."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each metric of the table with its samples."""
        samples = _samples(self._board.status)
        for metric in METRICS:
            family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in samples[metric.name]:
                family.add_metric(labels, value)
            yield family


def exposition(board: StatusBoard) -> bytes:
    """Return the text Prometheus scrapes."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(board))
    text: bytes = generate_latest(registry)
    return text


def _samples(status: Status) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    newest = status.epochs[-1] if status.epochs else None
    return {
        "cvs_view_lag_seconds": [((v.name,), v.lag_ms / 1000) for v in status.views],
        "cvs_view_state": [
            ((v.name, state), float(v.state == state)) for v in status.views for state in VIEW_STATES
        ],
        "cvs_view_rows": [((v.name,), float(v.row_count)) for v in status.views],
        "cvs_view_quarantined": [((v.name,), float(v.quarantined_count)) for v in status.views],
        "cvs_view_untimely": [((v.name,), float(v.untimely_count)) for v in status.views],
        "cvs_committed_epoch": [((), float(status.committed_epoch))],
        "cvs_epoch_duration_seconds": [((), newest.duration_ms / 1000)] if newest else [],
        "cvs_queued_changes": [((), float(status.queued_change_count))],
        "cvs_watermark_seconds": [((), status.watermark)],
        "cvs_problems": [((), float(len(status.problems)))],
        "cvs_leader": [((), float(status.leader))],
    }
