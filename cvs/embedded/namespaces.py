"""A private network for a cluster: each node in its own network namespace, so that pairs can be cut apart.

One owned process holds all namespaces: a hub with a bridge, and one a node. When it goes, the kernel takes
the links down; nothing is left on the machine. Needs root and `ip` (iproute2).
"""

import os
import random
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cvs.embedded.processes import RunningProcess
from cvs.errors import MissingEnvironmentError

# argv: number of nodes, network prefix, name of the link in the caller's namespace
HOLDER = """
import ctypes, os, subprocess, sys, time
nodes, prefix, link = int(sys.argv[1]), sys.argv[2], sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
def here(): return os.open("/proc/self/ns/net", os.O_RDONLY)
def new():
    if libc.unshare(0x40000000): raise OSError(ctypes.get_errno(), "unshare")
    return here()
def ip(where, words):
    libc.setns(where, 0)
    subprocess.run(["ip", *words.split()], check=True, pass_fds=[home, hub, *spaces])
home = here(); hub = new(); spaces = [new() for _ in range(nodes)]
for words in ("link set lo up", "link add br0 type bridge", "link set br0 up"): ip(hub, words)
ip(home, f"link add {link} type veth peer name up0 netns /proc/self/fd/{hub}")
ip(home, f"addr add {prefix}.254/24 dev {link}"); ip(home, f"link set {link} up")
ip(hub, "link set up0 master br0 up")
for number, space in enumerate(spaces, start=1):
    ip(hub, f"link add v{number} type veth peer name eth0 netns /proc/self/fd/{space}")
    ip(hub, f"link set v{number} master br0 up")
    ip(space, "link set lo up")
    ip(space, f"addr add {prefix}.{number}/24 dev eth0")
    ip(space, "link set eth0 up")
libc.setns(home, 0)
print("namespaces", *spaces, file=sys.stderr, flush=True)
while True: time.sleep(3600)
"""


def namespaces_work() -> bool:
    """Say whether this machine lets us make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


@dataclass(slots=True, kw_only=True)
class PrivateNetwork:
    """The namespaces of one cluster; node numbers start at 1, the caller has the address `.254`."""

    prefix: str
    holder: RunningProcess
    files: tuple[int, ...]

    @classmethod
    def start(cls, nodes: int, *, chooser: random.Random) -> "PrivateNetwork":
        """Make a hub and a namespace a node on a network that nothing here uses yet."""
        if not namespaces_work():
            raise MissingEnvironmentError(
                "network namespaces cannot be made", next_step="run as root on Linux with iproute2 installed"
            )
        prefix = _free_prefix(chooser)
        link = f"cvs{chooser.randrange(16**6):06x}"
        with tempfile.TemporaryDirectory(prefix="cvs-net-") as folder:
            said = Path(folder, "said")
            python = shutil.which("python3") or "python3"
            holder = RunningProcess.owned([python, "-c", HOLDER, str(nodes), prefix, link], output=said)
            files = _wait_for(said, holder)
        return cls(prefix=prefix, holder=holder, files=files)

    def enter(self, number: int) -> list[str]:
        """Give the words before a command that make it run in a node's namespace."""
        pid = self.holder.identity.pid
        return ["nsenter", f"--net=/proc/{pid}/fd/{self.files[number - 1]}"]

    def cut(self, left: int, right: int) -> None:
        """Stop all packets between two nodes, both ways, silently."""
        self._route("replace", left, right)
        self._route("replace", right, left)

    def heal(self, left: int, right: int) -> None:
        """Let packets through again; harmless if they were not cut."""
        self._route("delete", left, right)
        self._route("delete", right, left)

    def _route(self, verb: str, at: int, other: int) -> None:
        words = ["ip", "route", verb, "blackhole", f"{self.prefix}.{other}/32"]
        subprocess.run([*self.enter(at), *words], check=verb == "replace", capture_output=True)

    def close(self) -> None:
        """Take the network down."""
        self.holder.kill()


def _free_prefix(chooser: random.Random) -> str:
    taken = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=True).stdout
    while True:
        prefix = f"10.{chooser.randrange(64, 250)}.{chooser.randrange(250)}"
        if f"{prefix}." not in taken:
            return prefix


def _wait_for(said: Path, holder: RunningProcess) -> tuple[int, ...]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lines = said.read_text().splitlines()
        if lines and lines[-1].startswith("namespaces "):
            return tuple(int(word) for word in lines[-1].split()[1:])
        if not holder.alive:
            break
        time.sleep(0.02)
    holder.kill()
    raise MissingEnvironmentError(
        "network namespaces cannot be made", where=said.read_text()[-300:], next_step="run as root on Linux"
    )
