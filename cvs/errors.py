"""Everything cvs can refuse, as one small tree, and the exit code each kind leaves with.

    CvsError
    ├── SpecificationError   the user's view, settings or command line
    ├── HistoryError         a file is not what it claims to be
    ├── AssumptionError      a run does not meet what the judge needs
    ├── StoreError           the cluster, as it was found
    └── MissingEnvironmentError   Java, jars, ports, disks: what a machine must have

A violated property is never an error: it is a finding. A programmer's mistake is an `AssertionError`.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The one table of exit codes: every command uses it, `cvs --help` prints it."""

    MET = 0
    VIOLATED = 1
    USAGE = 2
    UNDECIDED = 3
    BAD_INPUT = 4
    ENVIRONMENT = 5
    OUR_FAULT = 70


EXIT_CODE_MEANINGS = {
    ExitCode.MET: "the expectation is met",
    ExitCode.VIOLATED: "an expectation is violated, or something is unhealthy",
    ExitCode.USAGE: "the command line, a view or a setting is wrong",
    ExitCode.UNDECIDED: "undecided: neither met nor violated could be shown",
    ExitCode.BAD_INPUT: "an input file is not what it claims to be",
    ExitCode.ENVIRONMENT: "the environment lacks something: Java, jars, a port, a cluster",
    ExitCode.OUR_FAULT: "a mistake of ours: please report it",
}


class CvsError(Exception):
    """One clear message: what is wrong, where, and what to do next."""

    exit_code = ExitCode.OUR_FAULT

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        """Say what is wrong; `where` names the place, `next_step` the command or change that mends it."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way between processes (Spark workers) with all three parts."""
        return (_rebuild, (type(self), self.what, self.where, self.next_step))

    def __str__(self) -> str:
        """Join the parts in reading order."""
        place = f" ({self.where})" if self.where else ""
        advice = f"; {self.next_step}" if self.next_step else ""
        return f"{self.what}{place}{advice}"


def _rebuild(kind: type[CvsError], what: str, where: str, next_step: str) -> CvsError:
    return kind(what, where=where, next_step=next_step)


class SpecificationError(CvsError):
    """The user's view definition, setting or command line cannot be carried out."""

    exit_code = ExitCode.USAGE


class HistoryError(CvsError):
    """A file is not the history (feed, segment, story) it claims to be."""

    exit_code = ExitCode.BAD_INPUT

    @classmethod
    def unreadable(cls, reason: str | None, *, where: str) -> "HistoryError":
        """Say why the system does not let a file be read."""
        next_step = "name the files of a history, or the folder of a run"
        return cls(f"cannot be read: {reason}", where=where, next_step=next_step)

    @classmethod
    def one_of_many(cls, mistake: str) -> "HistoryError":
        """Say the first mistake of a file that was not read line by line."""
        return cls(mistake, next_step="`cvs convert` lists every mistake with its line")


class AssumptionError(CvsError):
    """A run does not meet what the judge must be able to assume."""

    exit_code = ExitCode.BAD_INPUT


class StoreError(CvsError):
    """The cluster refused, or is in a state in which going on would be wrong."""

    exit_code = ExitCode.ENVIRONMENT


class MissingEnvironmentError(CvsError):
    """The machine lacks what a command needs: Java, jars, a free port, disk space."""

    exit_code = ExitCode.ENVIRONMENT

    @classmethod
    def of_system(
        cls, refusal: OSError, *, where: str = "", next_step: str = ""
    ) -> "MissingEnvironmentError":
        """Say what the system refused: a full disk, a file that may not be read; `where` if it does not say."""
        what = f"the system refused: {refusal.strerror or refusal}"
        return cls(what, where=str(refusal.filename or where), next_step=next_step)
