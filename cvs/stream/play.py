"""The scenes of the demonstration, in order; the stage is `demo.py`'s."""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cvs.model.values import many
from cvs.stream.demo import (
    NAIVE,
    VIEWS,
    Compared,
    Load,
    Readers,
    Stage,
    caught_up,
    compare,
    lag_seconds,
    rows_of,
    wait_for,
)

SECONDS_MAX = 90.0
PAUSE = 0.02  # between two writes: a judge must be able to follow


@dataclass(slots=True)
class Play:
    """Two runs of one workload: as it should be, and without what makes it right."""

    stage: Stage
    say: Callable[[str], None]
    spark: bool = True
    seconds: float = 6.0
    compared: list[Compared] = field(default_factory=list)
    _last_write: int = 0

    def with_signatures(self) -> bool:
        """Live views; kill -9 in mid-epoch; a zombie; then all at rest."""
        stage, say = self.stage, self.say
        stage.capture()
        running = stage.pipeline(spark=self.spark)
        took = wait_for(lambda: self._epoch() > 0, seconds=SECONDS_MAX, what="the first epoch")
        how = "Spark Structured Streaming" if self.spark else "its own process"
        say(
            f"capture and pipeline ({how}) live after {took:.1f} s; four views: COUNT/SUM/AVG, MIN/MAX, join, join+SUM"
        )
        load, readers = Load(stage, pause=PAUSE), Readers(stage)
        try:
            self._watch(load)
            running.kill()
            running.wait()
            say(
                "[bold]kill -9[/bold] of the pipeline; the next one kills itself in mid-epoch,"
                " after 3 rounds of test-and-sets"
            )
            falling = stage.pipeline("--kill-at", "3", spark=False)
            wait_for(lambda: falling.poll() is not None, seconds=SECONDS_MAX, what="its death")
            control = stage.control()
            assert control is not None, "the control row was there before"
            say(
                f"dead with epoch {control.pin.epoch} half written, {control.committed} committed;"
                " a zombie now stops in mid-epoch"
            )
            zombie = stage.pipeline("--stop-at", "3", spark=False, log="zombie.log")
            wait_for(lambda: _stopped(zombie.pid), seconds=SECONDS_MAX, what="the zombie's sleep")
            began = time.time() * 1e6
            stage.pipeline(spark=self.spark)
            took = wait_for(lambda: self._watermark() > began, seconds=SECONDS_MAX, what="being live again")
            say(
                f"a new pipeline took the same pin and is live again after {took:.1f} s (start of Spark included)"
            )
            self._watch(load)
            zombie.send_signal(signal.SIGCONT)
            said = stage.file("zombie.log")
            wait_for(lambda: "overtaken" in said.read_text(), seconds=SECONDS_MAX, what="the zombie's end")
            say(f"the zombie woke: [italic]{_said(said, 'overtaken')}[/italic]")
            zombie.kill()
            self._watch(load)
        finally:
            load.stop()
            readers.stop()
        self._last_write = load.writer.last_time
        took = wait_for(lambda: caught_up(stage, self._last_write), seconds=SECONDS_MAX, what="catching up")
        say(
            f"{many(load.writer.written, 'base write')}; the writer stopped; all shown {took:.1f} s later,"
            f" in {many(self._epoch(), 'epoch')}"
        )
        self.compared = compare(stage)
        return not any(it.wrong for it in self.compared)

    def without_signatures(self) -> None:
        """The same feed into other views, a crash in mid-epoch, and signatures switched off."""
        stage, say = self.stage, self.say
        say(
            "the same feed again, into other views, with [bold]signatures switched off[/bold]"
            " and one crash in mid-epoch"
        )
        naive = "--without-signatures"
        falling = stage.pipeline(naive, "--kill-at", "5", views=NAIVE, spark=False)
        wait_for(lambda: falling.poll() is not None, seconds=SECONDS_MAX, what="its death")
        again = stage.pipeline(naive, views=NAIVE, spark=False)
        wait_for(
            lambda: again.poll() is not None or caught_up(stage, self._last_write, NAIVE),
            seconds=SECONDS_MAX,
            what="catching up",
        )
        if again.poll() is not None:
            reason = _said(stage.file(f"run-{NAIVE}.log"), "error")
            say(f"it counted rows twice until its own state was impossible: [italic]{reason}[/italic]")
        self.compared = compare(stage, NAIVE)

    def _epoch(self) -> int:
        control = self.stage.control()
        return 0 if control is None else control.committed

    def _watermark(self) -> int:
        control = self.stage.control()
        return 0 if control is None else control.committed_watermark

    def _watch(self, load: Load) -> None:
        """Say how the views follow."""
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(self.seconds / 3)
            control = self.stage.control()
            lag = lag_seconds(control) or 0.0
            cities = rows_of(self.stage.session, f"{VIEWS}.revenue_by_city")
            revenue = "  ".join(
                f"{it['city']} {it['revenue']}" for it in sorted(cities, key=lambda it: str(it["city"]))
            )
            epoch = 0 if control is None else control.committed
            self.say(
                f"{load.writer.written:5} writes, epoch {epoch:4}, lag {lag * 1000:5.0f} ms; revenue by city: {revenue}"
            )


def _said(log: Path, word: str) -> str:
    """Return the last thing a log says with a word in it."""
    lines = [line for line in log.read_text().splitlines() if word in line]
    if not lines:
        return "it ended"
    return str(json.loads(lines[-1])["event"]) if lines[-1].startswith("{") else lines[-1]


def _stopped(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state == "T"
