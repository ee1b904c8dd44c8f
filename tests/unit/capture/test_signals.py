"""A process that is told to end does, wherever the signal finds it."""

import os
import subprocess
import sys

import pytest

CAUGHT = """
import os, signal
from cvs.capture.signals import end_on_signals
ended = end_on_signals()
with ended._cond:  # as the main thread has it in `wait`
    os.kill(os.getpid(), signal.{name})
assert ended.wait(10)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_in_the_middle_of_a_wait_ends_it(name: str) -> None:
    """The handler ran in the thread that held the event's lock, and waited for it: a sidecar had to be killed."""
    code = CAUGHT.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], timeout=30, env=os.environ, check=False)
    assert done.returncode == 0
