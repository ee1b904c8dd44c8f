"""A small disk for one node: a tmpfs that only the node's processes see, so that a test can fill it.

One owned process holds the mount; when it goes, the disk and what is on it go too. Needs root on Linux.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from cvs.embedded.processes import RunningProcess
from cvs.errors import MissingEnvironmentError

MOUNT = 'mount -t tmpfs -o size="$1" cvs "$2" && echo mounted && exec sleep infinity'
BALLAST = "ballast"
PIECES = (2**20, 4096, 1)  # the last byte counts: a page left free would take another write


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDisk:
    """A disk mounted at `folder` for whoever enters its holder's mount namespace."""

    folder: Path
    holder: RunningProcess

    @classmethod
    def start(cls, folder: Path, size: str) -> "SmallDisk":
        """Mount it and wait until it is there."""
        said = folder.with_name(f"{folder.name}.disk")
        holder = RunningProcess.owned(
            ["unshare", "-m", "sh", "-c", MOUNT, "sh", size, str(folder)], output=said
        )
        deadline = time.monotonic() + 20
        while "mounted" not in said.read_text():
            if not holder.alive or time.monotonic() > deadline:
                holder.kill()
                raise MissingEnvironmentError(
                    "a small disk cannot be mounted",
                    where=said.read_text()[-300:],
                    next_step="run as root on Linux",
                )
            time.sleep(0.02)
        return cls(folder=folder, holder=holder)

    def enter(self) -> list[str]:
        """Give the words before a command that make it see the disk."""
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt"]

    @property
    def _ballast(self) -> Path:
        return Path(f"/proc/{self.holder.pid}/root{self.folder}", BALLAST)

    def fill(self) -> None:
        """Take all the space that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            for piece in PIECES:
                try:
                    while True:
                        file.write(b"\0" * piece)
                except OSError:
                    continue

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        """Say how much is left."""
        found = os.statvfs(self._ballast.parent)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Unmount it."""
        self.holder.kill()
