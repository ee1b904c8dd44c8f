"""What a capture refuses to start on."""

from pathlib import Path

import pytest

from cvs.capture.node import node_settings
from cvs.capture.runner import check
from cvs.errors import MissingEnvironmentError

SAID = {"cdc_enabled": "true", "cdc_raw_directory": "/nowhere/cdc_raw", "commitlog_sync": "group"}


def test_the_folder_that_counts_is_the_one_named(tmp_path: Path) -> None:
    """The node that is asked for the schema may live elsewhere, its own folder too."""
    check(node_settings(SAID), tmp_path)
    with pytest.raises(MissingEnvironmentError, match="folder is not here"):
        check(node_settings(SAID), tmp_path / "cdc_raw")


@pytest.mark.parametrize(
    "wrong", [{"cdc_enabled": "false"}, {"commitlog_compression.class_name": "LZ4Compressor"}]
)
def test_a_log_that_cannot_be_read_is_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(MissingEnvironmentError):
        check(node_settings(SAID | wrong), tmp_path)
