"""What `cvs run` recorded, made ready for the judge: its files say what moved, the cluster says what the views are."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cvs.capture.opening import filled_by_others
from cvs.checker.classify import Judgement
from cvs.errors import HistoryError
from cvs.programs.epoch_run import without_claim
from cvs.programs.stage_bucket import drive
from cvs.report.audit import audit_events
from cvs.report.summary import Document
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import Serving, opened_views
from cvs.store.session import CassandraSession
from cvs.stream.epochs import Epoch, epochs
from cvs.stream.quarantine import quarantined
from cvs.stream.recipe import recipe_of
from cvs.stream.recorded import Recorded, history_of, images_of, recorded
from cvs.stream.recording import recording_files
from cvs.stream.tables import state_id


def history_of_recording(settings: Settings, folders: Iterable[Path], *, last: int = 0) -> Recorded:
    """Return the history of the incarnation that serves; standbys that led too have folders of their own.

    `last`: how many of the last base changes; 0: everything that is there.
    """
    with opened_views(settings) as views:
        serving = views.serving()
        files = _files(folders, state_id(views.session, serving.names.keyspace))
        captured = not filled_by_others(settings.feed.name)
        if serving.broken:
            return _of_sound(views.session, files, serving, captured=captured, last=last)
        return recorded(
            views.session,
            files,
            views_sql=serving.views_sql,
            keyspaces=serving.keyspaces,
            names=serving.names,
            captured=captured,
            last=last,
        )


def _files(folders: Iterable[Path], state: str) -> list[Path]:
    """Return what is recorded of the state that stands: another has the same numbers for other epochs."""
    folders = list(folders)
    found = [file for folder in folders for file in recording_files(folder, state=state)]
    if not found:
        raise HistoryError(
            "nothing is recorded of the views that the cluster keeps: what is there is of others, dropped since",
            where=", ".join(map(str, folders)),
            next_step="name the folder of [recording] of the `cvs run` that keeps them; it records what it does",
        )
    return found


def _of_sound(
    session: CassandraSession, files: Iterable[Path], serving: Serving, *, captured: bool, last: int
) -> Recorded:
    """Return the history of the views that can still be made, where the tables of others changed or are gone."""
    recipe, declared = recipe_of(
        session, serving.views_sql, names=serving.names, keyspaces=serving.keyspaces, captured=captured
    )
    program, door = recipe.program(), recipe.door(session)
    images, void = images_of(program, door), drive(without_claim(program), door)
    ran = [it for it in epochs(files) if it.incarnation == serving.names.incarnation]
    widths = {table.name: len(table.columns) for table in recipe.plan.bases}
    told = f"{serving.names.keyspace}, recorded"
    found = history_of(declared, recipe.plan, of_tables(ran, widths), images, run=told, last=last, void=void)
    stand = [name for name in found.unshown if name not in serving.broken]
    return replace(found, unshown=(*stand, *(f"{name} ({why})" for name, why in serving.broken.items())))


def of_tables(ran: Iterable[Epoch], widths: Mapping[str, int]) -> list[Epoch]:
    """Return what epochs did to some base tables, from when these had the columns that they have."""
    found: list[Epoch] = []
    for epoch in ran:
        epoch.bases = tuple(move for move in epoch.bases if move[0] in widths)
        fits = all(
            len(row) == widths[table] for table, _, *both in epoch.bases for row in both if row is not None
        )
        if not fits:
            found.clear()
            continue
        found.append(epoch)
    return found


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
