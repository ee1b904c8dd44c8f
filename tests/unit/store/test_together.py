"""Many statements at once: each is asked for once, whoever is quicker, and none too many wait."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cvs.store.together import IN_FLIGHT, answers, carry_out


class Future:
    """An answer: there before anybody asks for it, or when the test says so."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.there, self.told = answer, threading.Event(), list[Callable[[Any], None]]()

    def add_callbacks(self, callback: Callable[[Any], None], errback: Callable[[Any], None]) -> None:
        tell = errback if isinstance(self.answer, Exception) else callback
        if self.there.is_set():
            tell(self.answer)
        else:
            self.told.append(tell)

    def arrive(self) -> None:
        self.there.set()
        for tell in self.told:
            tell(self.answer)

    def result(self) -> Any:
        assert self.there.wait(10)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Driver:
    """A session that answers each statement with itself; an exception cannot even be sent."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once, self.sent = at_once, list[Future]()

    def execute_async(self, statement: Any) -> Future:
        if isinstance(statement, KeyError):
            raise statement
        self.sent.append(Future(statement))
        if self.at_once:
            self.sent[-1].arrive()
        return self.sent[-1]


def test_answers_that_are_quicker_than_the_question_go_no_deeper() -> None:
    """The driver's own way ends in a RecursionError; failures stand in their places."""
    odd, unsent = OSError("lost"), KeyError("not sent")
    statements = [*range(20_000), odd, unsent, "last"]
    assert answers(Driver(at_once=True), statements) == statements  # type: ignore[arg-type]


def test_no_more_are_under_way_than_allowed_and_the_next_is_made_when_one_is_answered() -> None:
    """What is not sent yet is not even made: puts of an epoch would all lie in memory."""
    driver, made, done = Driver(at_once=False), list[int](), list[Any]()

    def statements() -> Iterator[int]:
        for number in range(3 * IN_FLIGHT):
            made.append(number)
            yield number

    asking = threading.Thread(target=lambda: done.extend(answers(driver, statements())))  # type: ignore[arg-type]
    asking.start()
    for number in range(3 * IN_FLIGHT):
        while len(driver.sent) <= number:
            assert len(made) <= number + IN_FLIGHT + 1
        driver.sent[number].arrive()
    asking.join(10)
    assert done == list(range(3 * IN_FLIGHT))


def test_what_must_be_carried_out_tells_its_first_failure_when_all_have_ended() -> None:
    """Nothing of it is under way any more by then."""
    driver = Driver(at_once=True)
    with pytest.raises(OSError, match="first"):
        carry_out(driver, [1, OSError("first"), OSError("second"), 2])  # type: ignore[arg-type]
    assert len(driver.sent) == 4


def test_a_failure_in_making_a_statement_is_for_who_asked() -> None:
    """It is not taken for an answer."""

    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no bytes for that")

    with pytest.raises(ValueError, match="no bytes"):
        answers(Driver(at_once=True), broken())  # type: ignore[arg-type]
