"""Levels and the properties behind them: what each requires, what implies what, and who says so.

A property is decided at a granularity: per view record (paper 001) or for the whole view (paper 000). A level
is a name for a set of properties at one granularity.
"""

from dataclasses import dataclass
from enum import Enum


class Property(Enum):
    """One thing a run may have or lack."""

    CONVERGED = "converged"
    WEAK = "weak"
    STRONG_PAIRWISE = "strong_pairwise"
    STRONG = "strong"  # the chain reading: the headline
    COMPLETE = "complete"  # for some serialization of the base updates
    COMPLETE_RECORDED = "complete_recorded"  # for the serialization that was recorded


class Granularity(Enum):
    """Of what a property is said."""

    RECORD = "record"
    VIEW = "view"


class Reference(Enum):
    """The base time-line that a verdict refers to (PROTOCOL H12)."""

    WRITERS = "writers"  # the writers' own log
    WRITE_TIME = "write_time"  # Cassandra's reconciliation order
    ABSORBED = "absorbed"  # the order in which DELTA took changes


class Level(Enum):
    """The five levels, worst first."""

    NOT_CONVERGED = "not_converged"
    CONVERGED = "converged"
    WEAK = "weak"
    STRONG = "strong"
    COMPLETE = "complete"

    @property
    def rank(self) -> int:
        """Return the place in the order, 0 for the worst."""
        return _ORDER.index(self)

    def reaches(self, wanted: "Level") -> bool:
        """Say whether a run of this level is good enough for a wanted one."""
        return self.rank >= wanted.rank


_ORDER = tuple(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Implication:
    """Whoever has `stronger` has `weaker`, because of `citation`."""

    stronger: Property
    weaker: Property
    citation: str


IMPLICATIONS = (
    Implication(
        stronger=Property.WEAK, weaker=Property.CONVERGED, citation="001, levels: weak includes convergence"
    ),
    Implication(
        stronger=Property.STRONG_PAIRWISE, weaker=Property.WEAK, citation="001, levels: strong includes weak"
    ),
    Implication(
        stronger=Property.STRONG,
        weaker=Property.STRONG_PAIRWISE,
        citation="ours: of a chain every pair is ordered; the converse fails (base x, y, x; view y, x, y)",
    ),
    Implication(
        stronger=Property.COMPLETE, weaker=Property.STRONG, citation="001, levels: complete includes strong"
    ),
    Implication(
        stronger=Property.COMPLETE_RECORDED,
        weaker=Property.COMPLETE,
        citation="ours: the recorded serialization is one of them",
    ),
)

REQUIRED: dict[Level, tuple[Property, ...]] = {
    Level.NOT_CONVERGED: (),
    Level.CONVERGED: (Property.CONVERGED,),
    Level.WEAK: (Property.CONVERGED, Property.WEAK),
    Level.STRONG: (Property.CONVERGED, Property.WEAK, Property.STRONG),
    Level.COMPLETE: (Property.CONVERGED, Property.WEAK, Property.STRONG, Property.COMPLETE),
}
"""What each level asks for; one step up always adds one property (001, levels)."""


def implied(by: Property) -> frozenset[Property]:
    """Return everything a property implies, itself included, at the same granularity."""
    found = {by}
    for _ in IMPLICATIONS:
        found |= {i.weaker for i in IMPLICATIONS if i.stronger in found}
    return frozenset(found)


def implies(stronger: Property, weaker: Property) -> bool:
    """Say whether one property implies another at the same granularity."""
    return weaker in implied(stronger)


def crosses(finer: Granularity, coarser: Granularity) -> bool:
    """Say whether a property of `coarser` carries over to `finer`.

    A cut that explains the whole view explains each of its records; the converse fails for a base update that
    touches two view records (paper 000; torn group move).
    """
    return finer is coarser or (finer is Granularity.RECORD and coarser is Granularity.VIEW)


def level_of(held: frozenset[Property] | set[Property]) -> Level:
    """Return the highest level whose required properties all hold."""
    return max((level for level in Level if set(REQUIRED[level]) <= held), key=lambda level: level.rank)
