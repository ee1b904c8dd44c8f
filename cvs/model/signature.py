"""Signature: what a view record (or a bucket of them) remembers of what it absorbed.

Per entry: `version` counts test-and-sets of one view record, `chunk` is a mark of the entry absorbed last,
`entries` holds the last entry id absorbed of each stream. Per epoch: `version` is the epoch, `chunk`/`last` say how
far a change of several statements got.
A condition compares the scalars only; `entries` travels with them.

Laws, each with a property test of its name (`property_tests/test_model_signature.py`):
- untouched processed nothing: the zero signature has absorbed no entry.
- absorbing is remembered: after an entry was absorbed it is processed, so redelivery is harmless.
- nothing is forgotten: what was processed stays processed, whatever is absorbed later.
- an entry covers those before it: ids of a stream rise and arrive in order (001, flow control).
- nothing else is claimed: only streams and entries that were absorbed are processed.
- order of streams does not matter: `entries` is the same whichever stream came first.
- no signature comes back: scalars rise strictly, so no stale condition can hold again (no ABA).
- entries are told apart: who absorbs different entries into one signature makes different scalars, so whoever goes
  on from one of them says which of two unknown outcomes took effect.
- the incarnation stays: absorbing never moves a record into another incarnation.
"""

import zlib
from dataclasses import dataclass

Scalars = tuple[int, int, int, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The scalars a condition compares, and the entries absorbed."""

    incarnation: int = 0
    version: int = 0
    chunk: int = 0
    last: bool = True
    entries: tuple[tuple[str, int], ...] = ()

    @property
    def scalars(self) -> Scalars:
        """Return what a condition compares."""
        return (self.incarnation, self.version, self.chunk, self.last)

    def processed(self, stream: str, entry: int) -> bool:
        """Say whether this signature absorbed the entry (paper 001: hasProcessed)."""
        return any(s == stream and entry <= e for s, e in self.entries)

    def absorbing(self, stream: str, entry: int) -> "Signature":
        """Return the signature after absorbing one entry (paper 001: generateSignature)."""
        latest = {**dict(self.entries)}
        latest[stream] = max(entry, latest.get(stream, entry))
        return Signature(
            incarnation=self.incarnation,
            version=self.version + 1,
            chunk=_mark(stream, entry),
            entries=tuple(sorted(latest.items())),
        )


def _mark(stream: str, entry: int) -> int:
    """Return a small number for an entry, the same everywhere; fits CQL's int."""
    return zlib.crc32(f"{stream}/{entry}".encode()) & 0x7FFFFFFF


UNTOUCHED = Signature()
"""The signature of a record or bucket nothing was absorbed into: zero, never null (PROTOCOL section 2)."""
