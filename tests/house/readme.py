"""The console blocks of a page: commands that need no cluster, with the output they really have.

`make docs` writes the outputs anew; a test compares them.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", flags=re.DOTALL)
PAGES = ("README.md",)


def commands(page: str) -> list[tuple[str, str]]:
    """Return (command, output shown) of each console block of a page."""
    found = []
    for block in BLOCK.findall(page):
        first, _, shown = block.partition("\n")
        found.append((first.removeprefix("$ "), shown))
    return found


def output(command: str) -> str:
    """Run a command as it stands in a page and return what it prints."""
    words = shlex.split(command)
    assert words[0] == "cvs", command
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "110", "HOME": str(Path.home())},
    )
    return done.stdout + done.stderr


def refreshed(page: str) -> str:
    """Return a page with the outputs that its commands have now."""
    for command, shown in commands(page):
        page = page.replace(f"$ {command}\n{shown}```", f"$ {command}\n{output(command)}```")
    return page
