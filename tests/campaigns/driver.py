"""One pipeline process for tests that kill it: every epoch with changes is carried by Spark's tasks, if there is Spark.

python -m tests.campaigns.driver JSON, an object of what `settings_of` names.
"""

import json
import sys
from pathlib import Path
from typing import Any

from cvs.capture.signals import end_on_signals
from cvs.store.session import ClusterAddress
from cvs.stream.pipeline import Pipeline
from cvs.stream.runner import Life, RunSettings, run


def command(address: ClusterAddress, **words: Any) -> list[str]:
    """The command line of such a process."""
    words |= {"contact": address.contact_points, "port": address.port}
    return [sys.executable, "-m", "tests.campaigns.driver", json.dumps(words)]


def settings_of(words: dict[str, Any]) -> RunSettings:
    return RunSettings(
        address=ClusterAddress(contact_points=tuple(words["contact"]), port=words["port"]),
        views_sql=words["views"],
        base_keyspaces=(words["base"],),
        feed=words["feed"],
        state_keyspace=words["state"],
        record=Path(words["record"]) if "record" in words else None,
        replication=words.get("replication", 1),
        incarnation=words.get("incarnation", 1),
        older=Life(incarnation=words["older"], views_sql=words["views"]) if "older" in words else None,
        spark_master=words.get("spark", ""),
        skew_ms=words.get("skew_ms", 1_000),
        fall_at=words.get("stop_at", 0),
        fall_by="stop",
    )


def in_tasks(pipeline: Pipeline) -> None:
    pipeline.spread_from = 1


if __name__ == "__main__":
    run(
        settings_of(json.loads(sys.argv[1])),
        say=lambda text: print(text, flush=True),
        watch=in_tasks,
        ended=end_on_signals(),
    )
