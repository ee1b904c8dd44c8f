"""What does not come in the order of write times, and whether it shows (PROTOCOL H12, `line.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cvs.programs.delta import (
    NO_PARTITION,
    NOTHING,
    Inside,
    PartitionImage,
    RowImage,
    hide,
    merge,
    merge_partition,
    visible,
)
from cvs.programs.slices import covering
from cvs.programs.stored import StoredPartition, StoredRow


@dataclass(slots=True)
class Untimely:
    """Those of a partition's changes that came late, or are ahead of every clock."""

    header: list[PartitionImage] = field(default_factory=list)
    rows: dict[bytes, list[RowImage]] = field(default_factory=dict)

    def showing(
        self,
        header: StoredPartition | None,
        rows: Mapping[bytes, StoredRow],
        *,
        epoch: int,
        clock: int,
        inside: Inside,
    ) -> list[bytes]:
        """Return the rows that look otherwise with them; else they are copies of what is known, or hidden by it.

        Rows at this epoch were looked at before: a replay asks again for none.
        """
        before = partition = NO_PARTITION if header is None else header.image
        if self.header:
            partition = merge_partition(partition, *self.header)
        found = []
        places = sorted({*rows, *self.rows})
        deletion_over_row = covering(partition, inside, rows=len(places))
        for clustering in places:
            row = rows.get(clustering)
            if row is not None and row.epoch >= epoch:
                continue
            image = changed = NOTHING if row is None else row.image
            for one in self.rows.get(clustering, ()):
                changed = merge(changed, one)
            deletion = deletion_over_row(clustering)
            if deletion is not None:
                changed = hide(changed, deletion)
            if visible(changed, partition.statics, clock) != visible(image, before.statics, clock):
                found.append(clustering)
        return found
