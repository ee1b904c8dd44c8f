"""The recorder: what a manager did, as history events; *called* leaves before the request, *returned* after.

"Leaves" means handed to the operating system: it survives our crash, not the host's. A call without a return
is an unknown outcome, which is why nothing else needs to be written when a process dies.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cvs.history.codec import line_of
from cvs.history.events import Event


class Recorder(Protocol):
    """Takes events in the order in which one process saw them."""

    def record(self, event: Event) -> None:
        """Keep the event; when this returns, our own crash cannot lose it."""
        ...


class ListRecorder:
    """Keeps events in memory, for the simulator and for tests."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)


class FileRecorder:
    """Appends one line of JSON an event to one file a process, unbuffered."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def record(self, event: Event) -> None:
        """Write the line in one system call."""
        self._file.write(line_of(event))

    def close(self) -> None:
        """Close the file; nothing was buffered."""
        self._file.close()


Clock = Callable[[], int]
"""Nanoseconds of the recording process's own clock; only differences inside one process are exact."""
