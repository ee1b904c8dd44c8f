"""The predicted level of every (view class, program, fault set), per-entry mode, as data with its reason.

Two levels a field: of the worst view record, and of the whole view. The suites must find a run at each
prediction below *complete* (a committed story) and no run under any. Levels are of the chain reading; the
base time-line is the writers' own log.

A field left out (None) is not examined; the reason stands in `excluded`.
"""

from dataclasses import dataclass

from cvs.model.levels import Level

FAULT_SET_NAMES = ("late", "concurrent", "crashes", "zombies", "unordered")
"""One manager behind the base; three managers; with crashes and redelivery; with zombies; no flow control."""

NO, CON, WEAK, STRONG, ALL = (
    Level.NOT_CONVERGED,
    Level.CONVERGED,
    Level.WEAK,
    Level.STRONG,
    Level.COMPLETE,
)

Levels = tuple[Level | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One line of the table."""

    view_class: str
    variant: str
    record: Levels
    view: Levels
    citation: str
    excluded: str = ""


ONE_ENTRY_ONE_STATE: Levels = (ALL, ALL, ALL, ALL, NO)
TORN: Levels = (CON, CON, CON, CON, NO)
UNGUARDED: Levels = (ALL, ALL, NO, NO, NO)
UNGUARDED_TORN: Levels = (CON, CON, NO, NO, NO)
LOST: Levels = (NO, None, None, None, None)

AGGREGATE_CLASSES = ("count", "sum", "avg", "count-sum-avg-min-max", "count-distinct", "variance")

NOTHING_LEFT = "not even convergent with one manager: nothing is left to lose under harsher faults"


def _aggregates() -> tuple[Prediction, ...]:
    signature = tuple(
        Prediction(
            view_class=name,
            variant="signature",
            record=ONE_ENTRY_ONE_STATE,
            view=TORN,
            citation="001 theorems 2-4, and one state an entry; a group move touches two records (000)",
        )
        for name in AGGREGATE_CLASSES
    )
    counter = tuple(
        Prediction(
            view_class=name,
            variant="counter",
            record=UNGUARDED,
            view=UNGUARDED_TORN,
            citation="001 footnote 1: a counter cannot tell that an entry was absorbed before",
        )
        for name in AGGREGATE_CLASSES
    )
    return signature + counter


def _letters() -> tuple[Prediction, ...]:
    return (
        Prediction(
            view_class="count",
            variant="letter",
            record=UNGUARDED,
            view=UNGUARDED_TORN,
            citation="ours: deleteTAS takes the signature along, so a redelivered insert comes back",
        ),
        Prediction(
            view_class="count",
            variant="letter-counter",
            record=UNGUARDED,
            view=UNGUARDED_TORN,
            citation="001 footnote 1",
        ),
        Prediction(
            view_class="sum",
            variant="letter",
            record=LOST,
            view=LOST,
            citation="ours: algorithm 5 deletes the group where s = y although other rows are in it",
            excluded=NOTHING_LEFT,
        ),
        Prediction(
            view_class="min",
            variant="letter",
            record=LOST,
            view=LOST,
            citation="ours: a scan sees a row whose insert is still to come, which counts it twice",
            excluded=NOTHING_LEFT,
        ),
        Prediction(
            view_class="min",
            variant="letter-always-scan",
            record=LOST,
            view=LOST,
            citation="ours: as above; the count of rows at the minimum stays",
            excluded=NOTHING_LEFT,
        ),
    )


def _extremes() -> tuple[Prediction, ...]:
    return (
        Prediction(
            view_class="min",
            variant="multiplicities",
            record=ONE_ENTRY_ONE_STATE,
            view=TORN,
            citation="ours: no base is read, so every state is the view of the entries absorbed",
        ),
        Prediction(
            view_class="min",
            variant="base-reading",
            record=(WEAK, WEAK, WEAK, WEAK, NO),
            view=TORN,
            citation="001 theorem 5 and its counter-example 4, 5, 2, 5",
        ),
        Prediction(
            view_class="min",
            variant="always-scan",
            record=(STRONG, STRONG, STRONG, STRONG, NO),
            view=TORN,
            citation="001 section 2.1.3: always scanning is strong; scans skip states, so not complete",
        ),
        Prediction(
            view_class="having",
            variant="signature",
            record=ONE_ENTRY_ONE_STATE,
            view=TORN,
            citation="a COUNT whose record is hidden while the predicate is not true",
        ),
    )


def _rows() -> tuple[Prediction, ...]:
    newest_wins: Levels = (ALL, ALL, ALL, ALL, STRONG)
    no_check: Levels = (ALL, ALL, WEAK, NO, NO)
    mixed: Levels = (ALL, ALL, CON, NO, NO)
    return (
        Prediction(
            view_class="selection",
            variant="signature",
            record=newest_wins,
            view=newest_wins,
            citation="001 section 2.3; unordered: ours, the signature drops the version that was overtaken",
        ),
        Prediction(
            view_class="selection",
            variant="counter",
            record=no_check,
            view=no_check,
            citation="001 example 3; redelivery steps back, a zombie writes an old row last",
        ),
        Prediction(
            view_class="selection",
            variant="changed-fields",
            record=mixed,
            view=mixed,
            citation="001 section 2.3, sequences V^c and V^m; redelivery mixes columns of different versions (ours)",
        ),
        Prediction(
            view_class="projection-keeping-key",
            variant="signature",
            record=newest_wins,
            view=newest_wins,
            citation="001 algorithms 14-16",
        ),
        Prediction(
            view_class="projection-moving-key",
            variant="signature",
            record=newest_wins,
            view=(CON, CON, CON, CON, CON),
            citation="001 algorithms 17-19; a moved key touches two records",
        ),
        Prediction(
            view_class="projection-moving-key",
            variant="letter",
            record=(ALL, ALL, WEAK, NO, NO),
            view=(CON, CON, CON, NO, NO),
            citation="ours: the deleted record's signature is gone, an old insert comes back",
        ),
        Prediction(
            view_class="projection-losing-key",
            variant="signature",
            record=ONE_ENTRY_ONE_STATE,
            view=TORN,
            citation="001 algorithms 20-22: a COUNT",
        ),
        Prediction(
            view_class="projection-losing-key",
            variant="counter",
            record=UNGUARDED,
            view=UNGUARDED_TORN,
            citation="001 footnote 1",
        ),
    )


def _sets() -> tuple[Prediction, ...]:
    found: list[Prediction] = []
    for name in ("union", "intersect", "except"):
        found += (
            Prediction(
                view_class=name,
                variant="counter-column",
                record=ONE_ENTRY_ONE_STATE,
                view=(ALL, STRONG, STRONG, STRONG, NO) if name == "intersect" else TORN,
                citation="001 section 2.4: auxiliary data; a moved row is in the intersection once at most",
            ),
            Prediction(
                view_class=name,
                variant="base-reading",
                record=(ALL, ALL, ALL, ALL, STRONG),
                view=(CON, CON, CON, CON, CON),
                citation="001 section 2.4 says weak; its run shows two view records, each of them in order",
            ),
        )
    stale = "ours: a no-op leaves no mark, so a stale base read is applied after it"
    return (
        *found,
        Prediction(
            view_class="union",
            variant="letter",
            record=(ALL, ALL, WEAK, NO, NO),
            view=(CON, CON, CON, NO, NO),
            citation="ours: the deleted record's signature is gone, an old insert comes back",
        ),
        *(
            Prediction(
                view_class=name,
                variant="letter",
                record=(ALL, NO, NO, NO, NO),
                view=(CON, NO, NO, NO, NO),
                citation=stale,
            )
            for name in ("intersect", "except")
        ),
    )


def _joins() -> tuple[Prediction, ...]:
    kept = tuple(
        Prediction(
            view_class=f"{kind}-join",
            variant="reverse-join",
            record=ONE_ENTRY_ONE_STATE,
            view=TORN,
            citation="000 D-2.5, ours: rows of both sides under one signature; a moved key touches two",
        )
        for kind in ("inner", "left", "right", "full", "semi", "anti")
    )
    return (
        Prediction(
            view_class="foreign-key-join",
            variant="base-reading",
            record=(STRONG, STRONG, STRONG, STRONG, NO),
            view=TORN,
            citation="ours: z is read where it is written; 001 (theorems 6-7, weak) takes it from the entry",
        ),
        Prediction(
            view_class="foreign-key-join",
            variant="letter",
            record=(WEAK, NO, NO, NO, NO),
            view=(CON, NO, NO, NO, NO),
            citation="ours: an update of S finds no record yet, the insert then writes the old z",
        ),
        *kept,
        Prediction(
            view_class="top-2",
            variant="kept",
            record=ONE_ENTRY_ONE_STATE,
            view=ONE_ENTRY_ONE_STATE,
            citation="ours: all rows under one signature",
        ),
        Prediction(
            view_class="not-in",
            variant="kept",
            record=ONE_ENTRY_ONE_STATE,
            view=ONE_ENTRY_ONE_STATE,
            citation="ours: both sides whole under one signature",
        ),
    )


PREDICTIONS: tuple[Prediction, ...] = _aggregates() + _letters() + _extremes() + _rows() + _sets() + _joins()


def predicted(view_class: str, variant: str, fault_set: str) -> tuple[Level, Level]:
    """Return the predicted levels of one field: of the worst record, of the whole view; excluded: the least."""
    at = FAULT_SET_NAMES.index(fault_set)
    for line in PREDICTIONS:
        if (line.view_class, line.variant) == (view_class, variant):
            return line.record[at] or NO, line.view[at] or NO
    raise KeyError((view_class, variant))
