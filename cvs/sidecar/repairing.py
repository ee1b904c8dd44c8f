"""Repair: what stays wrong in a view is put right by the pipeline itself, as an input of an epoch.

The view's state, which only test-and-sets write, is taken for right; all rows are put again from it with write times
above everything that stands in the table, and rows it does not know are deleted. Writers go on meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cvs.plan.sql import DeclaredView
from cvs.sidecar.requests import Requests
from cvs.sidecar.verification import Report
from cvs.sidecar.views import Views

SHOWN_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a view was found to be before and after; no `after`: nothing had to be done."""

    before: Report
    after: Report | None = None

    @property
    def healed(self) -> bool:
        """Say whether the view is right now."""
        return not (self.after or self.before).differences


def repair(
    views: Views, view: DeclaredView, *, wait: Callable[[], None], seconds: float = SHOWN_SECONDS
) -> Repair:
    """Verify a view, let it be shown anew if rows stay wrong, and verify it again."""
    before = views.verify(view, wait=wait)
    if not before.differences:
        return Repair(before=before)
    requests = Requests(views.session, keyspace=views.settings.views.state_keyspace)
    lift = requests.show(view.name, above=before.latest_write)
    requests.wait(view.name, seconds=seconds, lift=lift)
    return Repair(before=before, after=views.verify(view, wait=wait))
