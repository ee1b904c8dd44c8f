"""Mutants of `cvs/programs` that no test needs to kill: survivor -> reason."""

DIFFERENT = "the same: they are different here"
SAME = "the same: of two that are equal either will do"
SHORTCUT = "a shortcut: the long way says the same"
RANK = "the same: nulls are equal among themselves, and stand before or after all others"
STEP = "the same: a step is 1 or -1"

ACCEPTED: dict[str, str] = {
    "count.PaperCount._add.change_of: by < 0 -> by <= 0": "the same: 1 or -1 is added",
    "count.PaperCount._add.change_of: 0 -> 1 (2)": "the same: 1 or -1 is added",
    "delta.reconcile: a.written > b.written -> a.written >= b.written": DIFFERENT,
    "delta.reconcile: a.gone_at > b.gone_at -> a.gone_at >= b.gone_at": DIFFERENT,
    "delta.reconcile: (a.value or b'') > (b.value or b'') -> (a.value or b'') >= (b.value or b'')": DIFFERENT,
    "delta.reconcile: a if a.ttl >= b.ttl else b -> b if a.ttl >= b.ttl else a": "any choice of equal cells will do, if"
    " it is the same whichever came first",
    "delta.reconcile: a.ttl >= b.ttl -> a.ttl > b.ttl": SAME,
    "delta.later_deletion: (a.written, a.local) >= (b.written, b.local)"
    " -> (a.written, a.local) > (b.written, b.local)": SAME,
    "delta.later_liveness: _liveness_rank(a) >= _liveness_rank(b) -> _liveness_rank(a) > _liveness_rank(b)": SAME,
    "delta.last_write: part.written > latest -> part.written >= latest": SAME,
    "epoch.Pin: 0 -> 1 (8)": "the same: no epoch is committed in either second",
    "epoch_run.BaseMove: False -> True": "a default for tests: every epoch says it of every move",
    "line.Line: 0 -> 1": "the same: nothing is written in the first microsecond there is",
    "machine.Policy: 64 -> 65": "a bound: nothing may rely on the last attempt but one",
    "machine.TestAndSet: False -> True": "tells pytest that the class is no test",
    "rows.RowProgram.propagate: after is not None and stays is not None"
    " -> after is not None or stays is not None": "the same: a row has a key exactly if it is there",
    "stage_aggregate.AggregateCompute._take_extreme: step > 0 -> step >= 0": STEP,
    "stage_aggregate.AggregateCompute._take_extreme: step < 0 -> step <= 0": STEP,
    "stage_aggregate.AggregateCompute._take_extreme: 0 -> 1 (2)": STEP,
    "stage_aggregate.AggregateCompute._take_distinct: True -> False": "read by nobody: a DISTINCT is kept in the shape"
    " of MIN and MAX, and lists no values",
    "stage_aggregate._Downwards.__lt__: other.key < self.key -> other.key <= self.key": DIFFERENT,
    "stage_codec.module: _PLAIN | {int} -> _PLAIN & {int}": SHORTCUT,
    "stage_cells._resized: different <= INLINE -> different < INLINE": "the same: a bag just small enough has no cells",
    "stage_delta._by_partition: until > 0 -> until >= 0": "a shortcut: nothing ended before second 0",
    "stage_delta._by_partition: until > 0 -> until >= 0 (2)": "a shortcut: nothing ended before second 0",
    "stage_delta.due_between: low <= key < high -> low < key < high": "the same: a key is longer than its time",
    "stage_publish.PublishCompute.moved: count > 0 -> count >= 0": "the same: nothing comes no times",
    "stage_publish.PublishCompute._refused: 4 * len(value) > KEY_BYTES_MAX"
    " -> 4 * len(value) >= KEY_BYTES_MAX": SHORTCUT,
    "stage_publish.PublishCompute._refused: 4 -> 5": SHORTCUT,
    "stage_numbers.module: 1000 -> 1001": "a bound: nothing may rely on the last digit but one",
    "stage_sets.TopKCompute._rank: 0 -> 1 (2)": RANK,
    "stage_sets.TopKCompute._rank: 3 -> 4": RANK,
    "stage_sets.TopKCompute._rank: 0 -> 1 (3)": RANK,
    "stage_combined.Combined.__init__: len(edges) >= TOGETHER_MIN -> len(edges) > TOGETHER_MIN": SHORTCUT,
    "stage_combined._sorted: 1 -> 2 (2)": "the same: there are no edges beyond the last, whatever their bits",
    "stage_images.module: 1 -> 2": "the same: no epoch begins after either",
    "stage_state.State.all_or_nothing: count < len(self.changed) -> count <= len(self.changed)": SHORTCUT,
    "stored.absorb: 1 -> 2": "the same: no epoch is of either number",
    "stage_combined.Combined.passing: left & having -> left | having": SHORTCUT,
}
