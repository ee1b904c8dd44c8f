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

IN_FLIGHT, BYTES_IN_FLIGHT = 64, 8 << 20
"""So many statements at once, of so many bytes: a node has a fortieth of its heap for what one client asks at once."""
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
    room = _Room()
    for statement in statements:
        weight = weight_of(statement)
        room.take(weight)
        answers.append(None)
        _Asked(answers, room, weight).send(driver, statement, check)
    room.take(BYTES_IN_FLIGHT, alone=True)
    return answers


def carry_out(driver: Session, statements: Iterable[Any]) -> None:
    """Send bound statements; raise the first failure once all have ended."""
    for answer in answers_of(driver, statements):
        if isinstance(answer, Exception):
            raise answer


def weight_of(statement: Any) -> int:
    """Return how many bytes of values a statement carries: a bound one, or a batch of them."""
    parts = getattr(
        statement, "_statements_and_parameters", None
    )  # the driver tells what is in a batch only so
    if parts is None:
        return sum(len(it) for it in getattr(statement, "values", None) or () if isinstance(it, bytes))
    return sum(len(it) for _, _, values in parts for it in values or () if isinstance(it, bytes))


class _Room:
    """What may be in flight: so many statements, of so many bytes; a larger one goes alone."""

    __slots__ = ("_bytes", "_changed", "_count")

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = self._bytes = 0

    def take(self, weight: int, *, alone: bool = False) -> None:
        """Wait for room: beside others, or until nothing else is in flight."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count or (not alone and self._fits(weight)))
            self._count += 1
            self._bytes += weight

    def give(self, weight: int) -> None:
        with self._changed:
            self._count -= 1
            self._bytes -= weight
            self._changed.notify()

    def _fits(self, weight: int) -> bool:
        return self._count < IN_FLIGHT and self._bytes + weight <= BYTES_IN_FLIGHT


class _Asked:
    """The place of one answer."""

    __slots__ = ("_answers", "_place", "_room", "_weight")

    def __init__(self, answers: list[Any], room: _Room, weight: int) -> None:
        self._answers, self._room, self._weight = answers, room, weight
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
        self._room.give(self._weight)


def no_room(failure: BaseException | None) -> bool:
    """Say whether a statement was sent to no host, because the sockets to them were full."""
    causes = (failure.errors or {}).values() if isinstance(failure, NoHostAvailable) else ()
    return bool(causes) and all(isinstance(cause, ConnectionBusy) for cause in causes)


def next_page(future: ResponseFuture, size: int, count: int, *, most: int) -> None:
    """Ask for another page of rows like those that came (so many, of so many bytes), as large as pages may be."""
    fits = BYTES_A_PAGE * count // max(1, size) if count else most
    future.message.fetch_size = max(1, min(most, fits))
    future.start_fetching_next_page()
