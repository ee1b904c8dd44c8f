"""What `cvs audit` and `cvs report` make of the folder into which `cvs run` records."""

from pathlib import Path
from typing import Any

from cvs.checker.classify import Judgement, nothing_shown
from cvs.errors import HistoryError
from cvs.report.summary import Document
from cvs.sidecar.recordings import history_of_recording, judged_recording
from cvs.sidecar.settings import Settings
from cvs.stream.epochs import epochs
from cvs.stream.recorded import Recorded
from cvs.stream.recording import recording_files


def judged(
    settings: Settings, runs: tuple[Path, ...], *, last: int, **options: Any
) -> tuple[Document, Judgement, Recorded]:
    """Judge a recording; where nothing was written since the views were built, say so."""
    try:
        return judged_recording(settings, runs, last=last, **options)
    except HistoryError as refusal:
        if refusal.what != nothing_shown().what:
            raise
        raise _nothing_since(history_of_recording(settings, runs, last=last), runs) from None


def _nothing_since(found: Recorded, runs: tuple[Path, ...]) -> HistoryError:
    """Say of which views nothing is recorded: those of before are served no more, and are not judged for these."""
    incarnations = {it.incarnation for it in epochs(file for run in runs for file in recording_files(run))}
    older = sorted(incarnations - {found.incarnation})
    before = f"; what is recorded of incarnation {', '.join(map(str, older))} is of views served no more"
    return HistoryError(
        f"there is nothing to judge: no view record moved since incarnation {found.incarnation} of the views was built"
        + (before if older else ""),
        where=", ".join(map(str, runs)),
        next_step="write to the base tables, then audit; cvs verify compares what the views hold now",
    )
