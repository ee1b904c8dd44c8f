"""What this machine must have: Java, and the jars or a way to fetch them."""

from collections.abc import Iterator

from cvs.embedded.artifacts import cache_folder, damaged, lock
from cvs.embedded.java import MEND, SUPPORTED, java
from cvs.errors import MissingEnvironmentError
from cvs.store.examination import Check, Examined, Finding, Grade

SETS = {"cassandra": "`cvs node`"}


def right_java(_: Examined) -> Iterator[Finding]:
    """Say whether Java is there and of the right age."""
    try:
        yield Finding(about="java", grade=Grade.GOOD, found=f"Java {SUPPORTED} at {java()}")
    except MissingEnvironmentError as refusal:
        found = f"{refusal.what} ({refusal.where})"
        yield Finding(about="java", grade=Grade.PROBLEM, found=found, mend=MEND)


def right_jars(_: Examined) -> Iterator[Finding]:
    """Say whether the jars are in the cache with their pinned bytes."""
    folder = cache_folder()
    for name, purpose in SETS.items():
        missing = [a for a in lock(name) if not (folder / a.file_name).exists()]
        broken = damaged(name)
        if broken:
            yield Finding(
                about=f"jars of {name}",
                grade=Grade.PROBLEM,
                found=f"{len(broken)} have other bytes than pinned, such as {broken[0].name}",
                mend=f"remove them from {folder}; they are fetched again",
            )
        elif missing:
            yield Finding(
                about=f"jars of {name}",
                grade=Grade.ADVICE,
                found=f"{len(missing)} are not in the cache yet; {purpose} fetches them at its first use",
                mend="nothing, if this machine reaches the central repository; else name a mirror (CVS_IVY_SETTINGS)",
            )
        else:
            yield Finding(
                about=f"jars of {name}", grade=Grade.GOOD, found=f"all {len(lock(name))} in {folder}"
            )


CHECKS: tuple[Check, ...] = (right_java, right_jars)
