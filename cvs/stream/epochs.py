"""What the files of a pipeline say of its epochs, whichever processes ran them and how often."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from cvs.errors import AssumptionError
from cvs.programs.stage_codec import Values
from cvs.stream.recording import BUILT, COMMITTED, RAN, RUNNING, UNJUDGED, read_log


@dataclass(slots=True, kw_only=True)
class Epoch:
    """What the logs say of one epoch."""

    incarnation: int
    number: int
    started: int
    ran: int = 0
    committed: int = 0
    built: bool = False
    unjudged: str = ""  # the log that says it showed more rows than a record keeps
    bases: Values = ()
    shown: Values = ()
    whole: tuple[str, ...] = ()  # views of which it showed every row there is
    hidden: tuple[str, ...] = ()  # views whose tables stood still
    otherwise: list[tuple[int, Values]] = field(default_factory=list)  # replays that showed something else


def epochs(logs: Iterable[Path]) -> list[Epoch]:
    """Return the epochs that ran to their end, in order, whichever processes ran them and how often."""
    found: dict[tuple[int, int], Epoch] = {}
    for log in logs:
        for moment, kind, incarnation, number, *rest in read_log(log):
            epoch = found.setdefault(
                (incarnation, number), Epoch(incarnation=incarnation, number=number, started=moment)
            )
            epoch.started = min(epoch.started, moment)
            if kind == UNJUDGED:
                epoch.unjudged = str(log)
            if kind in (RAN, BUILT, UNJUDGED) and not epoch.ran:
                epoch.ran, epoch.built = moment, kind == BUILT
                epoch.bases, epoch.shown, *views = rest
                epoch.whole, epoch.hidden = views or ((), ())  # an older cvs did not say
            elif kind == RAN and rest[:2] != [epoch.bases, epoch.shown]:
                epoch.otherwise.append((moment, rest[1]))
            elif kind == COMMITTED:
                epoch.committed = min(epoch.committed or moment, moment)
            else:
                assert kind in (RUNNING, RAN, BUILT, UNJUDGED), kind
    ran = [found[place] for place in sorted(found) if found[place].ran]
    for epoch, following in pairwise(ran):
        epoch.committed = epoch.committed or following.started  # nothing runs before what it is pinned after
    return ran


def carried(found: Iterable[Epoch]) -> list[Epoch]:
    """Give what moved while nothing was shown to the epoch that shows it: no level is claimed before.

    What an older incarnation showed meanwhile is its own; its epochs come first.
    """
    shown: list[Epoch] = []
    carried: Values = ()
    for epoch in found:
        if epoch.unjudged:
            raise AssumptionError(
                f"epoch {epoch.number} showed a whole view at once, with more rows than a record keeps",
                where=epoch.unjudged,
                next_step="judge by `cvs verify`, or a run over smaller base tables",
            )
        if epoch.built:
            carried += epoch.bases
            continue
        epoch.bases, carried = carried + epoch.bases, ()
        shown.append(epoch)
    return shown
