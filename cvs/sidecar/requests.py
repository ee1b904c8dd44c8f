"""What operators ask of a running pipeline: rows of a bookkeeping table that whoever leads reads every second.

Asking twice is asking once: a view is shown anew when a greater write time is asked for than it has (`Pin.lifted`),
so a request needs no answer and no removal, and it does not matter which process grants it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from cvs.client.control import read_control
from cvs.errors import StoreError
from cvs.model.layout import quoted
from cvs.programs.epoch import LIVE, PAUSED
from cvs.sidecar.catalog import Catalog
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession
from cvs.stream.phases import Wishes

PIPELINE = "*"  # the name under which the whole pipeline is paused
PAUSE, SHOW = "pause", "show"
ASK_SECONDS = 1.0
PATIENCE_SECONDS = 0.2  # that an epoch waits for an answer
LIFT_MAX = 2**62
"""Above it no room is left for epochs: rows with such write times need a new table."""


class Requests:
    """The table, of one pipeline."""

    def __init__(self, session: CassandraSession, *, keyspace: str) -> None:
        self._session = session
        self._keyspace = keyspace
        self._table = f"{quoted(keyspace)}.catalog_requests"

    def pause_all(self, *, paused: bool) -> None:
        """Ask that no epoch begins, or that they go on."""
        if paused:
            insert = f"INSERT INTO {self._table} (name, kind, write_time) VALUES (?, ?, 0)"
            self._session.execute(insert, (PIPELINE, PAUSE))
        else:
            self._session.execute(f"DELETE FROM {self._table} WHERE name = ?", (PIPELINE,))

    def show(self, view: str, *, above: int = 0) -> int:
        """Ask that all of a view is put again, above every write time until now and a given one; return which."""
        lift = max(time.time_ns() // 1000, above) + 1
        if lift > LIFT_MAX:
            raise StoreError(
                f"rows were written with a write time of {above}: nothing can be put above that",
                where=view,
                next_step=f"make a new table: cvs drop {view}, then cvs apply",
            )
        insert = f"INSERT INTO {self._table} (name, kind, write_time) VALUES (?, ?, ?)"
        self._session.execute(insert, (view, SHOW, lift))
        return lift

    def rows(self) -> dict[str, int]:
        """Return what is asked for: views with their write times; the pipeline's own name if it is paused."""
        found = self._session.execute(f"SELECT name, write_time FROM {self._table}")
        return {name: write_time or 0 for name, write_time in found}

    def halted(self) -> bool:
        """Say whether the whole pipeline is to stand still."""
        return PIPELINE in self.rows()

    def wait_idle(self, *, seconds: float) -> None:
        """Wait until no epoch is pinned: what began is finished, whoever runs it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(StoreError):
                if not read_control(self._session, self._keyspace).pinned:
                    return
            time.sleep(0.2)
        raise StoreError(
            f"an epoch that had begun is not finished after {seconds:.0f} s; the pause stays asked for",
            where=self._keyspace,
            next_step="see that `cvs run` runs: cvs status",
        )

    def wait(self, view: str, *, seconds: float, lift: int = 0, state: str = LIVE) -> None:
        """Wait until a view is in a state (and was shown above a write time): the pipeline granted it.

        A pipeline that is paused grants nothing, so it is not waited for.
        """
        if self.halted():
            raise StoreError(
                "the pipeline is paused; what was asked stays asked", where=view, next_step="cvs resume --all"
            )
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(StoreError):
                control = read_control(self._session, self._keyspace)
                pin = control.pin
                if pin.views.get(view, LIVE) == state and pin.lifted.get(view, 0) >= lift:
                    return
            time.sleep(0.2)
        raise StoreError(
            f"the pipeline did not answer within {seconds:.0f} s; what was asked stays asked",
            where=view,
            next_step="see that `cvs run` runs and that the pipeline is not paused: cvs status",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the cluster said operators ask for."""

    wishes: Wishes
    audits: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Asked:
    """The latest answer, asked for at most every second; a cluster that is away leaves the one before.

    Epochs do not wait for it: of what reads a whole table no replica is asked a second time, so that for ten seconds
    after a node has died each question may be lost.
    """

    catalog: Catalog
    requests: Requests
    paused: Callable[[bool], None]  # told when the whole pipeline is paused, or goes on
    audited: Callable[[dict[str, str]], None] = lambda _levels: None  # told what audits proved
    incarnation: int = 1
    monotonic: Callable[[], float] = time.monotonic
    wishes: Wishes = field(default_factory=Wishes)
    _due: float = 0.0
    _question: "Future[Answer] | None" = None

    def __call__(self) -> Wishes:
        """Return what is asked of single views."""
        patience: float | None = 0.0
        if self._question is None and self.monotonic() >= self._due:
            patience = PATIENCE_SECONDS if self._due else None  # nothing is known before the first
            self._due = self.monotonic() + ASK_SECONDS
            self._question = _aside(self._ask)
        if self._question is not None:
            with suppress(TimeoutError):
                self._question.exception(patience)
                self._take(self._question)
        return self.wishes

    def _ask(self) -> Answer:
        paused = frozenset(name for name, view in self.catalog.views().items() if view.paused)
        rows = self.requests.rows()  # after the views, because resuming writes here first
        lifts = {name: at for name, at in rows.items() if name != PIPELINE}
        wishes = Wishes(paused=paused, lifts=lifts, halt=PIPELINE in rows)
        return Answer(wishes=wishes, audits=self.catalog.audits(self.incarnation))

    def _take(self, question: "Future[Answer]") -> None:
        self._question = None
        with suppress(*UNANSWERED):
            answer = question.result()
            before, self.wishes = self.wishes.halt, answer.wishes
            if before != self.wishes.halt:
                self.paused(self.wishes.halt)
            self.audited(answer.audits)


def _aside(ask: Callable[[], Answer]) -> "Future[Answer]":
    """Ask in a thread that nobody waits for when the process ends."""
    question: Future[Answer] = Future()

    def run() -> None:
        try:
            question.set_result(ask())
        except Exception as fault:  # noqa: BLE001 -- because whoever takes the answer judges it
            question.set_exception(fault)

    threading.Thread(target=run, name="asked", daemon=True).start()
    return question


def pause(catalog: Catalog, requests: Requests, view: str, *, seconds: float) -> None:
    """Let a view's table stand still; its state goes on, so other views do not notice."""
    catalog.pause(view, paused=True)
    requests.wait(view, seconds=seconds, state=PAUSED)


def resume(catalog: Catalog, requests: Requests, view: str, *, seconds: float) -> None:
    """Show all of a view as it is now, then let its table follow again."""
    lift = requests.show(view)
    catalog.pause(view, paused=False)
    requests.wait(view, seconds=seconds, lift=lift)
