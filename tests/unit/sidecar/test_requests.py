"""What operators ask for is looked at every second, whatever the cluster answers meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import OperationTimedOut, Unavailable
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.protocol import OverloadedErrorMessage, ServerError

from cvs.sidecar.requests import PIPELINE, Asked

WHILE_A_NODE_STOPS = (
    ConnectionShutdown("the node closed it"),
    OverloadedErrorMessage(0x1001, "it drains", None),
    ServerError(0, "it starts", None),
    NoHostAvailable("none", {}),
    OperationTimedOut(),
    Unavailable("too few"),
)


@pytest.mark.parametrize("silence", WHILE_A_NODE_STOPS, ids=lambda it: type(it).__name__)
def test_a_node_that_stops_leaves_the_last_answer(silence: Exception) -> None:
    """The first two, seen at a drained node, ended the sidecar of a rolling restart as our mistake."""
    now, answers = [0.0], [{PIPELINE: 0}, silence, {}]

    def rows() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    catalog: Any = SimpleNamespace(views=dict, audits=lambda _incarnation: {})
    requests: Any = SimpleNamespace(rows=rows)
    asked = Asked(catalog=catalog, requests=requests, paused=lambda _: None, monotonic=lambda: now[0])
    for moment, halted in ((0.0, True), (1.0, True), (2.0, False)):
        now[0] = moment
        assert asked().halt is halted
    assert not answers
