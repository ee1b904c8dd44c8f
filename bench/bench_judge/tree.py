"""What a process and all its descendants cost: a Spark job is several processes, of which none waits for all others."""

import os
import threading
from pathlib import Path
from types import TracebackType

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _processes() -> dict[int, tuple[int, int, int]]:
    """Return parent, ticks (of children that ended too) and resident pages of every process."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            found[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])), int(fields[21]))
    return found


class Tree:
    """Watches the tree of this process while a block runs: CPU seconds at the end, the most memory on the way."""

    def __init__(self) -> None:
        self.cpu = self.mib = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Tree":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._look()
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(1.0):
            self._look()

    def _look(self) -> None:
        known = _processes()
        mine = {os.getpid()}
        for _ in range(6):  # generations
            mine |= {pid for pid, (parent, _, _) in known.items() if parent in mine}
        self.cpu = max(self.cpu, sum(known[pid][1] for pid in mine if pid in known) / _TICK)
        self.mib = max(self.mib, sum(known[pid][2] for pid in mine if pid in known) * _PAGE / (1 << 20))
