"""Many statements under way at once, made and sent by the thread that waits for them.

The driver's own `execute_concurrent` makes each next statement within the answer to one before: one call deeper
whenever an answer is there before it was asked for (a `RecursionError` after some hundred of them, where a node answers
sooner than large statements are made), or else in the thread that should read answers.
"""

from collections.abc import Iterable
from threading import Semaphore
from typing import Any

from cassandra.cluster import Session

IN_FLIGHT = 64


def answers(driver: Session, statements: Iterable[Any]) -> list[Any]:
    """Send bound statements; return what each ended in, a `ResultSet` or an exception."""
    free = Semaphore(IN_FLIGHT)

    def answered(_: Any) -> None:
        free.release()

    sent = []
    for statement in statements:
        free.acquire()
        try:
            future = driver.execute_async(statement)
        except Exception as failure:  # noqa: BLE001 -- because what this one ended in says nothing of the others
            free.release()
            sent.append(failure)
            continue
        future.add_callbacks(answered, answered)
        sent.append(future)
    return [it if isinstance(it, Exception) else _ended(it) for it in sent]


def carry_out(driver: Session, statements: Iterable[Any]) -> None:
    """Send bound statements; raise the first failure once all have ended."""
    for answer in answers(driver, statements):
        if isinstance(answer, Exception):
            raise answer


def _ended(future: Any) -> Any:
    try:
        return future.result()
    except Exception as failure:  # noqa: BLE001 -- because whoever asked says what each kind means
        return failure
