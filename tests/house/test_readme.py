"""What the pages show is what happens."""

import pytest

from tests.house.readme import PAGES, ROOT, commands, output, refreshed

SHOWN = [(name, *block) for name in PAGES for block in commands((ROOT / name).read_text())]


@pytest.mark.parametrize(("page", "command", "shown"), SHOWN, ids=[s[1][:60] for s in SHOWN])
def test_a_command_of_a_page_prints_what_the_page_shows(page: str, command: str, shown: str) -> None:
    """Each console block is run again and compared to the letter; `make docs` mends it."""
    assert output(command) == shown


def test_a_stale_block_is_noticed_and_mended() -> None:
    """A block with another output is told apart, and refreshing gives the real one."""
    page = "```console\n$ cvs --version\ncvs, version 0\n```"
    ((command, shown),) = commands(page)
    assert output(command) != shown
    assert refreshed(page) == f"```console\n$ cvs --version\n{output('cvs --version')}```"


def test_the_pages_show_something() -> None:
    """The README has console blocks at all."""
    assert len(SHOWN) >= 2
