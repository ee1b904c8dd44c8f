"""The house rules hold for the whole tree, and each rule can say no."""

import re
from pathlib import Path

import pytest

from tests.house import tidy
from tests.house.tidy import ROOT, Source, all_sources, complaints, never_imported

LONG = "    class A:\n     async def f(self):\n" + "      x = 1\n" * 80


def test_the_tree_keeps_the_house_rules() -> None:
    """No file breaks a rule of the table, and a file nobody imports is deleted, not kept."""
    sources, found = [], []
    for source in all_sources():  # one test, because reading them all is what takes time
        found += complaints([source])
        sources.append(source.only_imports())
    assert [str(c) for c in found] == []
    assert never_imported(sources) == []


@pytest.mark.parametrize(
    ("file", "text", "rule"),
    [
        ("cvs/model/a.py", "\n" * 500, "module of 500 lines"),
        ("cvs/model/a.py", "def f():\n" + "    x = 1\n" * 80, "function f of 81 lines"),
        ("cvs/store/a.py", f"try:\n{LONG}finally:\n{LONG}", "function f of 81 lines"),
        ("tests/a.py", f"try: ...\nexcept ValueError:\n{LONG}", "function f of 81 lines"),
        ("bench/a.py", f"match x:\n case 1:\n{LONG}", "function f of 81 lines"),
        ("cvs/model/a.py", "def f(a, b, c, d, e, g): ...\n", "f takes 6 positional arguments"),
        ("cvs/model/a.py", "import time\ntime.time()\n", "time.time() in a pure room"),
        ("cvs/checker/a.py", "open('x')\n", "open() in a pure room"),
        ("cvs/programs/a.py", "import os\nos.environ['x']\n", "os.environ in a pure room"),
        ("cvs/history/a.py", "import threading\n", "import threading in a pure room"),
        ("cvs/store/a.py", "x = 1  # TODO later\n", "leftover marker"),
        ("cvs/store/a.py", "x = '/home/me/cvs'\n", "a path of one machine"),
    ],
)
def test_each_rule_can_say_no(file: str, text: str, rule: str) -> None:
    """A sample that breaks a rule is complained about with that rule's name."""
    assert rule in [c.rule for c in complaints([Source.of(file, text)])]


def test_a_clean_file_has_no_complaint() -> None:
    """The rules do not fire on ordinary code."""
    assert complaints([Source.of("cvs/model/a.py", "def f(a):\n    return a\n")]) == []


def test_an_unimported_file_is_found() -> None:
    """The dead-file rule can say no, and knows imports by either form."""
    used = Source.of("cvs/model/used.py", "")
    dead = Source.of("cvs/model/dead.py", "")
    user = Source.of("cvs/model/__init__.py", "from cvs.model import used\n")
    assert never_imported([used, dead, user]) == ["cvs/model/dead.py"]


def rooms() -> list[Path]:
    skip = {"__pycache__"}
    return sorted(p.parent for p in (ROOT / "cvs").glob("*/__init__.py") if p.parent.name not in skip)


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_each_room_has_its_readme(room: Path) -> None:
    """A room's README has the fixed headings, in order."""
    headings = re.findall(r"^## (.+)$", (room / "README.md").read_text(), flags=re.MULTILINE)
    assert tuple(h for h in headings if h in tidy.ROOM_README_HEADINGS) == tidy.ROOM_README_HEADINGS


def test_exemptions_are_still_needed() -> None:
    """An exemption that no longer matches a file goes."""
    names = {str(file.relative_to(ROOT)) for file in tidy.python_files()}
    exempt = {*tidy.LONG_MODULES, *tidy.IMPURE_FILES, *(k.split(":")[0] for k in tidy.LONG_FUNCTIONS)}
    assert exempt <= names
