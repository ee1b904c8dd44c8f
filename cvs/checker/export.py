"""Our test-and-sets as Jepsen EDN, so that Knossos or Elle can cross-examine us.

Each view record is one independent register that holds its signature. A refusal that said what it saw is a
read of that signature; what was never sent is left out, because it did not happen; an unknown outcome is
`:info`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cvs.checker.edn import Keyword, write
from cvs.history import events as ev

_TYPES = {"applied": "ok", "rejected": "fail", "unknown": "info"}


def jepsen_edn(events: Sequence[Any]) -> Iterator[str]:
    """Yield one line an event; operations keep the order of the history."""
    returns = {(e.process, e.operation): e for e in events if isinstance(e, ev.TestAndSetReturned)}
    calls = {(e.process, e.operation): e for e in events if isinstance(e, ev.TestAndSetCalled)}
    threads = _threads(events)
    for event in events:
        name = (event.process, getattr(event, "operation", -1))
        if isinstance(event, ev.TestAndSetCalled):
            answer = returns.get(name)
            if answer is None or answer.outcome != "not_sent":
                yield _line(threads[name], "invoke", *_operation(event, answer, called=True), event.time)
        elif isinstance(event, ev.TestAndSetReturned) and name in calls and event.outcome != "not_sent":
            f, value = _operation(calls[name], event, called=False)
            kind = "ok" if f == "read" else _TYPES[event.outcome]
            yield _line(threads[name], kind, f, value, event.time)


def _threads(events: Iterable[Any]) -> dict[tuple[str, int], int]:
    """Give each operation a process number that is free; one whose outcome is unknown is never used again."""
    free: list[int] = []
    numbers: dict[tuple[str, int], int] = {}
    count = 0
    for event in events:
        name = (event.process, getattr(event, "operation", 0))
        if isinstance(event, ev.TestAndSetCalled):
            if not free:
                free.append(count)
                count += 1
            numbers[name] = free.pop()
        elif isinstance(event, ev.TestAndSetReturned) and name in numbers and event.outcome != "unknown":
            free.append(numbers[name])
    return numbers


def _operation(
    call: ev.TestAndSetCalled, answer: ev.TestAndSetReturned | None, *, called: bool
) -> tuple[str, Any]:
    key = write([call.view, *map(str, call.view_key)])
    if answer is not None and answer.outcome == "rejected" and answer.returned is not None:
        return "read", (key, None if called else answer.returned)
    return "cas", (key, (call.expected, call.new))


def _line(process: int, kind: str, f: str, value: Any, time: int) -> str:
    return write(
        {
            Keyword("process"): process,
            Keyword("type"): Keyword(kind),
            Keyword("f"): Keyword(f),
            Keyword("value"): value,
            Keyword("time"): time,
        }
    )
