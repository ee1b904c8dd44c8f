"""What `cvs run` recorded, made ready for the judge: its files say what moved, the cluster says what the views are."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cvs.capture.opening import filled_by_others
from cvs.checker.classify import Judgement
from cvs.report.audit import audit_events
from cvs.report.summary import Document
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import opened_views
from cvs.stream.quarantine import quarantined
from cvs.stream.recorded import Recorded, recorded
from cvs.stream.recording import recording_files


def history_of_recording(settings: Settings, folders: Iterable[Path], *, last: int = 0) -> Recorded:
    """Return the history of the incarnation that serves; standbys that led too have folders of their own.

    `last`: how many of the last base changes; 0: everything that is there.
    """
    with opened_views(settings) as views:
        serving = views.serving()
        return recorded(
            views.session,
            [file for folder in folders for file in recording_files(folder)],
            views_sql=serving.views_sql,
            keyspaces=serving.keyspaces,
            names=serving.names,
            captured=not filled_by_others(settings.feed.name),
            last=last,
        )


def judged_recording(
    settings: Settings, folders: Iterable[Path], *, last: int, **options: Any
) -> tuple[Document, Judgement, Recorded]:
    """Judge what a sidecar recorded, by the base time-line that it absorbed: it knows no other.

    What is in quarantine contributes nothing to views nor to what they are judged by (H24): the document names it.
    """
    folders = list(folders)
    found = history_of_recording(settings, folders, last=last)
    files = [
        {
            "file": str(folder),
            "epochs": [found.first, found.last],
            "left_out": found.left_out,
            "unshown": found.unshown,
        }
        for folder in folders
    ]
    document, judgement = audit_events(found.events, files=files, **{**options, "reference": "absorbed"})
    with opened_views(settings) as views:
        entries = quarantined(views.session, settings.views.state_keyspace, found.incarnation)
    document["excluded"] = [{"source": it.source, "key": it.key, "reason": it.reason} for it in entries]
    return document, judgement, found


def note_levels(settings: Settings, levels: Mapping[str, str], found: Recorded) -> None:
    """Let `cvs status` show what was proved of each view."""
    with opened_views(settings) as views:
        views.catalog.create()
        for name, level in levels.items():
            views.catalog.note_audit(name, level, incarnation=found.incarnation, epoch=found.last)
