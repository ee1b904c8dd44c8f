"""Java: which one, and whether Cassandra 5.0 can run on it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from cvs.errors import MissingEnvironmentError

SUPPORTED = 17  # because it is the newest that both Cassandra 5.0 and Spark 3.5 run on
MEND = "install a Java 17 runtime, or point JAVA_HOME at one"


def java() -> str:
    """Return the Java to run, after asking it for its version."""
    home = os.environ.get("JAVA_HOME", "")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not shutil.which(found):
        raise MissingEnvironmentError("Java is not here", where=home or "PATH", next_step=MEND)
    version = java_version(found)
    if version != SUPPORTED:
        age = "old" if version < SUPPORTED else "new"
        raise MissingEnvironmentError(
            f"Java {version} is too {age} for Cassandra 5.0 with Spark 3.5: {SUPPORTED} is needed",
            where=found,
            next_step=MEND,
        )
    return found


def java_version(executable: str) -> int:
    """Return the feature version (8, 11, 17, …) that an executable reports."""
    try:
        done = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as fault:
        raise MissingEnvironmentError(
            f"Java does not start: {fault.strerror}", where=executable, next_step=MEND
        ) from fault
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if not match:
        raise MissingEnvironmentError("this is not Java", where=executable, next_step=MEND)
    return int(match.group(1))
