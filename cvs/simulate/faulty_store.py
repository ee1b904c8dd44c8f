"""The memory store with a postman who may lose, delay or drop one message when the world tells him to."""

from enum import Enum

from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import UNTOUCHED
from cvs.programs.machine import RECORD, Row, shown
from cvs.store.memory import MemoryStore
from cvs.store.port import Key, PartitionId, TestAndSet


class Fault(Enum):
    """What happens to one test-and-set on its way."""

    LOSE = "lose"  # applied or refused, but the answer never comes
    DROP = "drop"  # the request never arrives
    DELAY = "delay"  # the request arrives later, the answer never
    UNSENT = "unsent"  # the request never leaves, and the manager is told so


UNKNOWN = Outcome(kind=OutcomeKind.UNKNOWN, reason="no answer")
UNSENT = Outcome(kind=OutcomeKind.NOT_SENT, reason="no connection")

State = tuple[PartitionId, Row | None]


class FaultyStore(MemoryStore):
    """Keeps what every view record showed, in order; `fault` is for the next test-and-set only."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self.in_flight: list[TestAndSet] = []
        self.shown: list[State] = []

    def test_and_set(self, request: TestAndSet) -> Outcome:
        """Ask the memory store, or let the postman have it."""
        fault, self.fault = self.fault, None
        if fault is Fault.DROP:
            return UNKNOWN
        if fault is Fault.UNSENT:
            return UNSENT
        if fault is Fault.DELAY:
            self.in_flight.append(request)
            return UNKNOWN
        outcome = self._carry_out(request)
        return UNKNOWN if fault is Fault.LOSE else outcome

    def arrive(self, index: int) -> None:
        """Let one delayed request reach the store; nobody waits for its answer any more."""
        self._carry_out(self.in_flight.pop(index))

    def _carry_out(self, request: TestAndSet) -> Outcome:
        outcome = super().test_and_set(request)
        if outcome.kind is OutcomeKind.APPLIED:
            self.shown.append((request.partition, shown(self.rows[request.partition].get(RECORD))))
            if request.new == UNTOUCHED:
                # What forgetting programs ask for: the record and its signature are gone, as if never there.
                del self.signatures[request.partition]
        return outcome

    def view(self) -> dict[Key, Row]:
        """Return what readers would see now, by view key."""
        found = {at.key: shown(rows.get(RECORD)) for at, rows in self.rows.items()}
        return {key: row for key, row in found.items() if row is not None}
