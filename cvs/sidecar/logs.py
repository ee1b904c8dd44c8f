"""Logs of a running sidecar: one JSON object a line, or words where a person looks on."""

import os
import re
import sys
from typing import Any

import structlog

from cvs.sidecar.status import Status

UNWELL = ("broken", "degraded")


def logger(*, json: bool | None = None) -> Any:  # because structlog's loggers have any method
    """Return the logger of this process, to stderr; JSON unless that is a terminal."""
    as_json = not sys.stderr.isatty() if json is None else json
    words = structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR"))
    renderer = structlog.processors.JSONRenderer() if as_json else words
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    return structlog.get_logger()


class Told:
    """Logs what a person must hear of: views that break or recover, problems that come and go, each once."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._states: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def look(self, status: Status) -> None:
        """Say what is otherwise than at the last look."""
        for view in status.views:
            before = self._states.get(view.name, "")
            if view.state != before and (view.state in UNWELL or before in UNWELL):
                say = self._log.warning if view.state in UNWELL else self._log.info
                say(f"a view is {view.state}", view=view.name, was=before, problem=view.problem)
        self._states = {view.name: view.state for view in status.views}
        problems = {re.sub(r"\d+", "", text): text for text in status.problems}  # "since 75 s" grows
        for text in problems.keys() - self._problems.keys():
            self._log.warning("a problem", what=problems[text])
        for text in self._problems.keys() - problems.keys():
            self._log.info("a problem is over", what=self._problems[text])
        self._problems = problems
