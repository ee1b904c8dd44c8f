"""A command on a terminal, as somebody watches it: for what it shows only there."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path


def watched(
    folder: Path, *arguments: str, until: bytes, seconds: float, columns: int = 120, lines: int = 40
) -> bytes:
    """Run a command of cvs on a terminal until it shows something, or ends; return all it showed, and end it."""
    mine, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "cvs", *arguments],
            cwd=folder,
            stdin=its,
            stdout=its,
            stderr=its,
            env=environment,
        ) as process:
            try:
                return _read(mine, process, until=until, seconds=seconds)
            finally:
                process.kill()
    finally:
        os.close(mine)
        os.close(its)


def _read(terminal: int, process: "subprocess.Popen[bytes]", *, until: bytes, seconds: float) -> bytes:
    shown, end = b"", time.monotonic() + seconds
    while until not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65_536)
        elif process.poll() is not None:
            break
    return shown
