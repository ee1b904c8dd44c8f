"""A run of the user's views as a history, so that `cvs audit` judges it and `cvs report` draws it.

What a person saw of a published row is one write of it, with a signature that counts the row's states; a
snapshot read is a read of the whole view. A view that nobody saw change is read once at the end.
"""

from typing import Any

from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.programs.machine import Key
from cvs.simulate.epochs import EpochWorld
from cvs.suite.user_views import UserViews

RUN = "views"
SHOWN, WRITER, READER, WORLD = "published", "writer", "reader", "world"
Scalars = tuple[int, int, int, bool]


def history_of(world: EpochWorld, user: UserViews, *, only: str = "") -> list[ev.Event]:
    """Return the events of a settled run, of one view or of all."""
    views = [view for view in user.views if not only or view.name == only]
    states: dict[tuple[str, Key], int] = {}
    started = ev.RunStarted(
        process=WORLD,
        time=0,
        run=RUN,
        views=tuple(definition_to_json(view.definition) for view in views),
        tables=tuple(definition_to_json(table) for table in user.plan.bases),
    )
    found: list[ev.Event] = [started, _checkpoint(world, [view.name for view in views], states)]
    for number, (time, kind, what) in enumerate(world.moments, start=1):
        if kind == "write":
            table, key, version, row = what
            found.append(
                ev.BaseUpdateCalled(
                    process=WRITER,
                    time=time,
                    operation=number,
                    table=table,
                    key=key,
                    version=version,
                    row=row,
                )
            )
            found.append(
                ev.BaseUpdateReturned(process=WRITER, time=time, operation=number, outcome="applied")
            )
        elif what[0] in {view.name for view in views}:
            found += _shown(number, time, what, states) if kind == "show" else _read(number, time, what)
    found.append(ev.Quiescent(process=WORLD, time=world.time))
    shown = {event.view for event in found if isinstance(event, ev.TestAndSetCalled)}
    unchanged = (view.name for view in views if view.name not in shown)
    for number, view in enumerate(unchanged, start=len(world.moments) + 1):
        found += _read(number, world.time, (view, world.initial[view]), snapshot=False)
    return found


def _checkpoint(world: EpochWorld, names: list[str], states: dict[tuple[str, Key], int]) -> ev.Checkpoint:
    views: list[Any] = []
    for name in names:
        for key, row in world.initial[name].items():
            states[name, key] = 0
            views.append((name, key, _signature(0), dict(row)))
    base = tuple(
        (table, key, 0, None if line.rows[0] is None else dict(line.rows[0]))
        for (table, key), line in world.timelines.items()
    )
    return ev.Checkpoint(process=WORLD, time=0, base=base, views=tuple(views))


def _signature(state: int) -> Scalars:
    return (1, state, 0, True)


def _shown(number: int, time: int, what: Any, states: dict[tuple[str, Key], int]) -> list[ev.Event]:
    view, key, row = what
    last = states.get((view, key))
    states[view, key] = state = 1 if last is None else last + 1
    return [
        ev.TestAndSetCalled(
            process=SHOWN,
            time=time,
            operation=number,
            view=view,
            view_key=key,
            expected=None if last is None else _signature(last),
            new=_signature(state),
            row=None if row is None else dict(row),
        ),
        ev.TestAndSetReturned(process=SHOWN, time=time, operation=number, outcome="applied"),
    ]


def _read(number: int, time: int, what: Any, *, snapshot: bool = True) -> list[ev.Event]:
    view, rows = what
    return [
        ev.ViewReadCalled(
            process=READER, time=time, operation=number, view=view, view_key=None, snapshot=snapshot
        ),
        ev.ViewReadReturned(
            process=READER, time=time, operation=number, rows=tuple((k, dict(r)) for k, r in rows.items())
        ),
    ]
