"""Many statements in flight, sent by the thread that asks: one that finds no room on its connection waits for some.

The driver's own loop (`cassandra.concurrent`) sends the next statement from the thread that hears answers, where
nothing may wait. A connection whose socket is full refuses at once, so large statements were refused as fast as they
were made, each a level deeper on the stack.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from cassandra.cluster import NoHostAvailable, ResponseFuture, ResultSet, Session
from cassandra.connection import ConnectionBusy

IN_FLIGHT = 64
NO_ROOM_PAUSE, NO_ROOM_SECONDS = 0.001, 30.0
"""How long a full connection is left alone, and after how long a statement is answered by the refusal."""

ROWS_FIRST, BYTES_A_PAGE = 100, 4 << 20
"""How many rows the first page of a table has, and how large others are at most: a thousand documents at once are more
than a small node has memory for, and the driver's time grows with the square of what comes at once.
"""


def answers_of(
    driver: Session,
    statements: Iterable[Any],
    *,
    check: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Send bound statements; return each one's result, or the exception it ended in.

    `check` is asked while one waits for room: it may end all of it.
    """
    answers: list[Any] = []
    room = threading.Semaphore(IN_FLIGHT)
    for statement in statements:
        room.acquire()
        answers.append(None)
        _Asked(answers, room).send(driver, statement, check)
    for _ in range(IN_FLIGHT):
        room.acquire()
    return answers


def carry_out(driver: Session, statements: Iterable[Any]) -> None:
    """Send bound statements; raise the first failure once all have ended."""
    for answer in answers_of(driver, statements):
        if isinstance(answer, Exception):
            raise answer


class _Asked:
    """The place of one answer."""

    __slots__ = ("_answers", "_place", "_room")

    def __init__(self, answers: list[Any], room: threading.Semaphore) -> None:
        self._answers, self._room = answers, room
        self._place = len(answers) - 1

    def send(self, driver: Session, statement: Any, check: Callable[[], None]) -> None:
        end = time.monotonic() + NO_ROOM_SECONDS
        while True:
            try:
                future = driver.execute_async(statement)
            except Exception as failure:  # noqa: BLE001 -- because what is not sent is answered like what fails
                self._failed(failure)
                return
            refusal = future._final_exception  # what is refused at once is known at once, and only here
            if not no_room(refusal) or time.monotonic() >= end:
                future.add_callbacks(
                    callback=self._came, callback_args=(future,), errback=self._failed
                )  # at once if it is answered by now
                return
            time.sleep(NO_ROOM_PAUSE)
            check()

    def _came(self, rows: Any, future: ResponseFuture) -> None:
        future.clear_callbacks()
        self._is(ResultSet(future, rows))

    def _failed(self, failure: Exception) -> None:
        self._is(failure)

    def _is(self, answer: Any) -> None:
        self._answers[self._place] = answer
        self._room.release()


def no_room(failure: BaseException | None) -> bool:
    """Say whether a statement was sent to no host, because the sockets to them were full."""
    causes = (failure.errors or {}).values() if isinstance(failure, NoHostAvailable) else ()
    return bool(causes) and all(isinstance(cause, ConnectionBusy) for cause in causes)


def next_page(future: ResponseFuture, size: int, count: int, *, most: int) -> None:
    """Ask for another page of rows like those that came (so many, of so many bytes), as large as pages may be."""
    fits = BYTES_A_PAGE * count // max(1, size) if count else most
    future.message.fetch_size = max(1, min(most, fits))
    future.start_fetching_next_page()
