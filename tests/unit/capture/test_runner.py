"""Two captures that delete what they have read would lose each other's changes."""

import os
from pathlib import Path

import pytest

from cvs.capture.feed import TakenError
from cvs.capture.runner import claimed


def test_a_folder_is_claimed_by_one_capture_at_a_time(tmp_path: Path) -> None:
    claim = claimed(tmp_path)
    with pytest.raises(TakenError, match="already"):
        claimed(tmp_path)
    os.close(claim)
    os.close(claimed(tmp_path))
