"""Repair: what stays wrong in a view is put right by the pipeline itself, as an input of an epoch.

First the view's state, which only test-and-sets write, is taken for right: all rows are put again from it with write
times above everything that stands in the table, and rows it does not know are deleted. If rows stay wrong even so,
what the state was computed from is wrong: the base tables are read again, and what DELTA missed goes into the feed as
changes, like any other (`stream/reread.py`). Writers go on meanwhile.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from cvs.capture.opening import filled_by_others, open_feed
from cvs.client.control import read_control
from cvs.errors import StoreError
from cvs.plan.sql import DeclaredView
from cvs.sidecar.requests import Requests
from cvs.sidecar.verification import Report
from cvs.sidecar.views import Views
from cvs.stream.build import REPAIR, Build
from cvs.stream.recipe import recipe_of
from cvs.stream.reread import Reread

SHOWN_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a view was found to be before and after; no `after`: nothing had to be done."""

    before: Report
    after: Report | None = None
    corrected: Mapping[str, int] = field(default_factory=dict)  # base table -> rows that the feed had missed

    @property
    def healed(self) -> bool:
        """Say whether the view is right now."""
        return not (self.after or self.before).differences


def repair(views: Views, view: DeclaredView, *, wait_s: float, seconds: float = SHOWN_SECONDS) -> Repair:
    """Verify a view, let it be shown anew if rows stay wrong, and verify it again."""
    if go_on := views.stopped(view):  # it would be waited for in vain
        raise StoreError("it is paused: no row of it is put", where=view.name, next_step=f"first: {go_on}")
    if views.broken(view):
        raise StoreError(
            "the view is broken: it follows its base tables no more, and nothing is put",
            where=view.name,
            next_step=f"cvs rebuild {view.name}",
        )
    before = views.verify(view, wait_s)
    if not before.differences:
        return Repair(before=before)
    requests = Requests(views.session, keyspace=views.settings.views.state_keyspace)
    lift = requests.show(view.name, above=before.latest_write)
    requests.wait(view.name, seconds=seconds, lift=lift)
    after = views.verify(view, wait_s)
    if not after.differences:
        return Repair(before=before, after=after)
    corrected = read_again(views, seconds=seconds)
    return Repair(before=before, after=views.verify(view, wait_s), corrected=corrected)


def read_again(views: Views, *, seconds: float) -> dict[str, int]:
    """Let the running pipeline know what it missed of all its base tables; return how many rows of each."""
    serving = views.serving()
    name = views.settings.feed.name
    recipe, _ = recipe_of(
        views.session,
        serving.views_sql,
        names=serving.names,
        keyspaces=serving.keyspaces,
        captured=not filled_by_others(name),
    )
    with ExitStack() as closing:
        feed = open_feed(name)
        closing.callback(feed.close)
        stream = f"{REPAIR}{serving.names.keyspace}"
        build = Build(views.session, feed, recipe.definitions, stream=stream)
        closing.callback(build.close)
        corrected = Reread(recipe=recipe, door=recipe.door(views.session), build=build).run()
        if any(corrected.values()):
            _wait_taken(views, stream, build.head.position, seconds=seconds)
    return corrected


def _wait_taken(views: Views, stream: str, position: int, *, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(StoreError):
            control = read_control(views.session, views.settings.views.state_keyspace)
            if control.committed_positions.get(stream, 0) >= position:
                return
        time.sleep(0.2)
    raise StoreError(
        f"the pipeline did not take the corrections within {seconds:.0f} s; they stay in the feed",
        where=stream,
        next_step="see that `cvs run` runs on the same feed: cvs status",
    )
