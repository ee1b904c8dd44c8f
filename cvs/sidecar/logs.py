"""Logs of a running sidecar: one JSON object a line, or words where a person looks on."""

import os
import sys
from typing import Any

import structlog


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
