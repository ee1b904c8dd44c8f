"""How a process that goes on for ever is told to end."""

import signal
import threading
from queue import SimpleQueue
from typing import Any


def end_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set: what is at hand is finished, then the process ends.

    Another thread sets it. A handler runs in the main thread, wherever that is: in the event's own `wait` it would
    wait for a lock that the main thread holds itself, for ever, and the process would have to be killed.
    """
    ended, told = threading.Event(), SimpleQueue[Any]()

    def set_when_told() -> None:
        told.get()
        ended.set()

    threading.Thread(target=set_when_told, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(
            number, lambda number, _: told.put(number)
        )  # which a handler may, unlike anything that locks
    return ended
