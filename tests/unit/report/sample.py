"""One violated run with every kind of outcome, and a value that wants to be script."""

from typing import Any

import msgspec

from cvs.model.definitions import definition_to_json
from tests.agree.problems import Recorder
from tests.stories.views import VIEWS

EVIL = "</script><script>document.title='broken'</script>"


def violated() -> list[Any]:
    run = Recorder()
    view = definition_to_json(VIEWS["sum"])
    run.named("sample", view)
    run.base("k0", {"x": "a", "y": 100})
    run.write("a", {"x": "a", "sum": 100}, [("k0", 0, 1)])
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", {"x": "a", "sum": 105}, [("k1", 0, 1)])
    run.base("k1", {"x": "b", "y": 5})
    run.write("b", {"x": "b", "sum": 5}, [("k1", 1, 2)])
    run.write("a", {"x": "a", "sum": 1}, outcome="rejected", returned=(0, 2, 0, True), process="m2")
    run.write("a", {"x": "a", "sum": 100}, [("k1", 1, 2)])
    run.base("k2", {"x": EVIL, "y": 5})
    run.write(EVIL, {"x": EVIL, "sum": 5}, [("k2", 0, 1)], process="m2")
    return run.rest()


def good() -> list[Any]:
    run = Recorder()
    view = definition_to_json(VIEWS["sum"])
    run.named("good", view)
    for number in range(5):
        run.base(f"k{number}", {"x": "a", "y": 1})
        run.write("a", {"x": "a", "sum": number + 1}, [(f"k{number}", 0, 1)])
    return run.rest()


def lines(events: list[Any]) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)
