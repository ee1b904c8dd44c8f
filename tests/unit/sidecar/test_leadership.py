"""Who leads goes on asking, whatever the cluster answers meanwhile."""

import threading
from typing import Any

from cassandra.protocol import OverloadedErrorMessage, ServerError

from cvs.sidecar.leadership import Leadership


class Cluster:
    """Answers what is next; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def execute(self, _statement: str, _values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]


def test_a_node_that_fails_to_answer_ends_no_lead_before_its_lease() -> None:
    """A starting node answers with errors outside the driver's own family: the thread must survive them."""
    now = [0.0]
    failures = [ServerError(0, "starting", None), OverloadedErrorMessage(0x1001, "busy", None)]
    cluster = Cluster((True,), *failures, (False, "another"))
    lead = Leadership(session=cluster, keyspace="k", process="me", monotonic=lambda: now[0])  # type: ignore[arg-type]
    for moment, leads in ((0.0, True), (3.0, True), (6.0, True), (9.5, False)):
        now[0] = moment
        lead.ask()
        assert lead.leads() is leads
    assert lead.leader == "another"


def test_a_thread_that_cannot_go_on_is_told_of() -> None:
    """Else the process would stand by for ever, and nobody would lead."""
    told = threading.Event()
    cluster: Any = Cluster((True,), ValueError("no answer of a cluster"))
    lead = Leadership(session=cluster, keyspace="k", process="me", lease_seconds=0, failed=told.set)
    lead.start()
    assert told.wait(10)
    assert isinstance(lead.failure, ValueError)
