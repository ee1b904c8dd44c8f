"""The last step of an epoch: rows of a published table, as plain puts whose write time grows with the epoch.

One full row with explicit nulls, or one row delete, a key an epoch (PROTOCOL section 5), only after every
test-and-set of the epoch is known applied and before the commit (H30). A replay puts the same again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cvs.model.expressions import Column
from cvs.model.keys import refusal
from cvs.model.stages import Edge, Plan, Publication
from cvs.programs.epoch import Pin
from cvs.programs.stage_bag import Bag, Changes
from cvs.programs.stage_codec import Value, Values, pack, picking
from cvs.programs.stage_combined import Combined
from cvs.programs.stage_edges import columns_of_sources, compile_edge, through


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRows:
    """Ask to put and delete rows of a published table; answered only when all are acknowledged at QUORUM."""

    publication: str  # name of the published table
    puts: tuple[Values, ...]  # whole rows, in the order of its columns
    deletes: tuple[Values, ...]  # keys, in the order of its primary key
    write_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One view record moved: its key, and its row before and after (None: absent)."""

    key: Values
    before: Values | None
    now: Values | None
    refused: str = ""  # why Cassandra cannot hold a row under this key; it is shown by nothing


class PublishCompute:
    """What one publication takes from an epoch."""

    def __init__(self, publication: Publication, plan: Plan) -> None:
        self.publication = publication
        columns = columns_of_sources(plan)
        self._edges = [(e.source, compile_edge(e, columns[e.source])) for e in publication.inputs]
        names = [name for name, _ in publication.columns]
        self.key_of = picking([names.index(name) for name in publication.key])
        self._partition_columns = len(publication.partition_key)

    def known(self, edge: Edge, key: Values) -> dict[str, Value]:
        """Return what a primary key says of the columns of an edge's source: where the key is just such a column."""
        values = dict(zip(self.publication.key, key, strict=True))
        return {
            named.expression.name: values[named.name]
            for named in edge.columns
            if isinstance(named.expression, Column) and named.name in values
        }

    def rows(self, changes: Mapping[str, Changes]) -> Bag:
        """Carry changes (or contents) of the sources over the publication's edges."""
        out = Bag()
        for source, edge in self._edges:
            if source in changes:
                through(edge, changes[source], out)
        return out

    def shown(self, changes: Mapping[str, Changes]) -> list[Shown]:
        """Return which view records moved by changes of the sources."""
        return self.moved(self.rows(changes))

    def moved(self, rows: Bag) -> list[Shown]:
        """Return which view records moved, in the order of their keys' bytes."""
        moved: dict[bytes, tuple[Values, list[Values | None]]] = {}
        for row, count in rows:
            key = self.key_of(row)
            assert abs(count) == 1, f"{self.publication.table}: a key is not unique: {key}"
            pair = moved.setdefault(pack(key), (key, [None, None]))[1]
            side = 1 if count > 0 else 0
            assert pair[side] is None, f"{self.publication.table}: a key is not unique: {key}"
            pair[side] = row
        return [
            Shown(key=key, before=pair[0], now=pair[1], refused=refusal(key, self._partition_columns))
            for _, (key, pair) in sorted(moved.items(), key=_first)
        ]

    def request(self, shown: list[Shown], pin: Pin) -> PutRows:
        """Return the puts and deletes of an epoch."""
        return PutRows(
            publication=self.publication.table,
            puts=tuple(it.now for it in shown if it.now is not None and not it.refused),
            deletes=tuple(it.key for it in shown if it.now is None and not it.refused),
            write_time=pin.write_time(self.publication.view),
        )


class Publishing:
    """All publications of a plan; their edges out of one source are taken together."""

    def __init__(self, publications: Sequence[PublishCompute], plan: Plan) -> None:
        self._publications = publications
        columns = columns_of_sources(plan)
        found: dict[str, list[tuple[Edge, int]]] = {}
        for number, it in enumerate(publications):
            for edge in it.publication.inputs:
                found.setdefault(edge.source, []).append((edge, number))
        self._ways = {
            source: (Combined([edge for edge, _ in ways], columns[source]), [number for _, number in ways])
            for source, ways in found.items()
        }

    def shown(self, changes: Mapping[str, Changes]) -> Iterator[tuple[PublishCompute, list[Shown]]]:
        """Return which records of each view moved."""
        rows: dict[int, Bag] = {}
        for source, (combined, numbers) in self._ways.items():
            if source in changes:
                for way, row, count, name in combined.carry(changes[source]):
                    rows.setdefault(numbers[way], Bag()).add(row, count, name)
        for number, it in enumerate(self._publications):
            yield it, it.moved(rows[number]) if number in rows else []


def _first(item: tuple[bytes, object]) -> bytes:
    return item[0]
