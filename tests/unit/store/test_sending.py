"""Statements that find no room on their connection wait; each has its own answer, in its place."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionShutdown

from cvs.store import sending
from cvs.store.sending import answers_of, carry_out, next_page, weight_of

FULL = NoHostAvailable("none", {"a": ConnectionBusy("overloaded")})
AWAY = NoHostAvailable("none", {"a": ConnectionShutdown("closed")})


class Future:
    """What the driver gives: answered by now, or later by another thread."""

    def __init__(self, driver: "Driver", value: Any, failure: Exception | None) -> None:
        self.driver, self.value, self._final_exception = driver, value, failure
        self._col_names = self._col_types = None
        self.has_more_pages = False

    def add_callbacks(
        self, callback: Callable[..., None], errback: Callable[..., None], callback_args: Any = ()
    ) -> None:
        if self._final_exception is not None:
            errback(self._final_exception)
        elif self.driver.at_once:
            callback([self.value], *callback_args)
        else:
            self.driver.waiting.append((callback, callback_args, self.value))
            if len(self.driver.waiting) == min(sending.IN_FLIGHT, self.driver.full):
                threading.Timer(0.02, self.driver.answer).start()

    def clear_callbacks(self) -> None:
        self.driver.cleared += 1


class Driver:
    """Refuses some of what is asked, as the driver does: at once."""

    def __init__(self, *refusals: Exception | None, at_once: bool = True, full: int = 1000) -> None:
        """`full`: how many questions wait when the answers come."""
        self.refusals, self.at_once, self.full = deque(refusals), at_once, full
        self.asked: list[Any] = []
        self.waiting: list[Any] = []
        self.most = self.cleared = 0

    def execute_async(self, statement: Any) -> Future:
        if statement == "wrong":
            raise ValueError("cannot be bound")
        self.asked.append(statement)
        refusal = self.refusals.popleft() if self.refusals else None
        self.most = max(self.most, len(self.waiting) + 1)
        return Future(self, statement, refusal)

    def answer(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback, arguments, value in waiting:
            callback([value], *arguments)


def told(found: list[Any]) -> list[Any]:
    return [it if isinstance(it, Exception) else list(it) for it in found]


def test_ten_thousand_answers_that_are_there_at_once_are_no_depth() -> None:
    driver = Driver()
    assert told(answers_of(driver, iter(range(10_000)))) == [[number] for number in range(10_000)]
    assert driver.cleared == 10_000, "or each would keep itself, and all it sent, alive"


def test_what_finds_no_room_is_sent_again_and_nothing_after_it_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks: list[int] = []
    driver = Driver(None, FULL, FULL, None)
    found = answers_of(driver, "abc", check=lambda: checks.append(1))
    assert told(found) == [["a"], ["b"], ["c"]]
    assert (driver.asked, len(checks)) == ([*"abbbc"], 2)
    monkeypatch.setattr(sending, "NO_ROOM_SECONDS", 0.0)
    assert told(answers_of(Driver(FULL), "a")) == [FULL]


def test_who_waits_for_room_may_be_stopped() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        answers_of(Driver(FULL), "a", check=stop)


def test_other_failures_are_answers() -> None:
    """A host that closed may have been asked; who asked decides what that means."""
    away, wrong, fine = told(answers_of(Driver(AWAY), ["a", "wrong", "c"]))
    assert (away, str(wrong), fine) == (AWAY, "cannot be bound", ["c"])


def test_no_more_are_in_flight_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "IN_FLIGHT", 5)
    driver = Driver(at_once=False)
    assert told(answers_of(driver, range(25))) == [[number] for number in range(25)]
    assert driver.most == 5


def test_no_more_bytes_are_in_flight_than_may_be_and_what_is_larger_goes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small node ends of sixty-four documents of a megabyte."""
    monkeypatch.setattr(sending, "BYTES_IN_FLIGHT", 3_000)
    puts = [SimpleNamespace(values=(number, bytes(900), None)) for number in range(12)]
    driver = Driver(at_once=False, full=3)
    assert told(answers_of(driver, puts)) == [[put] for put in puts]
    assert driver.most == 3
    batch = SimpleNamespace(_statements_and_parameters=[(True, b"id", (bytes(1_600),))] * 2)
    assert weight_of(batch) == 3_200
    driver = Driver(at_once=False, full=1)
    assert told(answers_of(driver, [batch, batch])) == [[batch], [batch]]
    assert driver.most == 1


def test_what_must_be_carried_out_tells_its_first_failure_when_all_have_ended() -> None:
    driver = Driver(None, AWAY, FULL)
    with pytest.raises(NoHostAvailable) as raised:
        carry_out(driver, "abcd")
    assert (raised.value, len(driver.asked)) == (AWAY, 5)


def test_a_failure_in_making_a_statement_is_for_who_asked() -> None:
    """It is no answer."""

    def broken() -> Iterator[str]:
        yield "a"
        raise ValueError("no bytes for that")

    with pytest.raises(ValueError, match="no bytes"):
        answers_of(Driver(), broken())


@pytest.mark.parametrize(
    ("size", "count", "page"),
    [(100 * 50_000, 100, 83), (100 * 10, 100, 2_000), (9 << 20, 1, 1), (0, 100, 2_000), (0, 0, 2_000)],
)
def test_a_page_is_as_large_as_the_one_before_says_that_it_may_be(size: int, count: int, page: int) -> None:
    asked: list[int] = []
    message = SimpleNamespace(fetch_size=100)
    future: Any = SimpleNamespace(
        message=message, start_fetching_next_page=lambda: asked.append(message.fetch_size)
    )
    next_page(future, size, count, most=2_000)
    assert asked == [page]
