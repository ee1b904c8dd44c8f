"""What `cvs doctor` is made of: a check looks at one thing and yields findings in plain words.

A room registers its checks by a file `cvs/<room>/doctor.py` with a tuple `CHECKS`; `cvs doctor` finds it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from cvs.store.session import CassandraSession, ClusterAddress


class Grade(Enum):
    """How much a finding matters."""

    GOOD = "ok"
    ADVICE = "advice"  # cvs works, but slower, later or less safely than it could
    PROBLEM = "problem"  # something cvs needs is not there
    UNKNOWN = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's report."""

    about: str
    grade: Grade
    found: str
    mend: str = ""
    restart: bool = False  # mending it takes a restart of the node


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What the checks look at: the cluster and what cvs keeps in it. `session` is None if it is unreachable."""

    address: ClusterAddress
    session: CassandraSession | None
    state_keyspace: str
    published_keyspace: str
    unreachable: str = ""
    way_in: str = ""  # ... and what the one that was refused was told to do


Check = Callable[[Examined], Iterator[Finding]]
