"""Mutants of `cvs/programs` that no test needs to kill: survivor -> reason."""

ACCEPTED: dict[str, str] = {
    "count.PaperCount._add.change_of: by < 0 -> by <= 0": "the same: 1 or -1 is added",
    "count.PaperCount._add.change_of: 0 -> 1 (2)": "the same: 1 or -1 is added",
    "machine.Policy: 64 -> 65": "a bound: nothing may rely on the last attempt but one",
    "machine.TestAndSet: False -> True": "tells pytest that the class is no test",
    "rows.RowProgram.propagate: after is not None and stays is not None"
    " -> after is not None or stays is not None": "the same: a row has a key exactly if it is there",
}
