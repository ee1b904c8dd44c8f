"""Who leads goes on asking, whatever the cluster answers meanwhile."""

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
