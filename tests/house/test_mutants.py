"""The mutants of a sample: what is changed, what is left alone, that names stay when lines move; who tries them."""

import ast
import gc
import subprocess
import sys

from cvs.programs.delta import reconcile
from tests.mutants import mutants
from tests.mutation import ROOT, SECONDS, Reach, Trial, functions_of

SAMPLE = """
SIZE_MAX = 64 * 1024
Body = bytes | None

class Kept:
    name: str = 0

    def step(self, n: int = 1) -> int:
        assert n > 0
        if self.name:
            return n + 1
        for i in (1, n):
            if not i:
                continue
            self.note(i)
        return 1 if n == 2 else n
"""


def test_every_change_of_a_sample() -> None:
    assert [mutant.name for mutant in mutants(SAMPLE)] == [
        "Kept: 0 -> 1",
        "Kept.step: 1 -> 2",
        "Kept.step: if self.name: -> if not self.name:",
        "Kept.step: n + 1 -> n - 1",
        "Kept.step: 1 -> 2 (2)",
        "Kept.step: 1 -> 2 (3)",
        "Kept.step: not i -> not not i",
        "Kept.step: continue -> break",
        "Kept.step: self.note(i) -> pass",
        "Kept.step: 1 if n == 2 else n -> n if n == 2 else 1",
        "Kept.step: n == 2 -> n != 2",
        "Kept.step: 2 -> 3",
        "Kept.step: 1 -> 2 (4)",
    ]


def test_functions_are_found_though_a_session_freezes_what_it_collected() -> None:
    gc.freeze()
    assert ("reconcile", reconcile.__code__.co_firstlineno) in functions_of("delta")
    gc.freeze()  # as it was


def test_a_mutant_is_one_change_and_its_name_does_not_move() -> None:
    found, moved = list(mutants(SAMPLE)), list(mutants("\n\n" + SAMPLE))
    assert [m.name for m in found] == [m.name for m in moved]
    assert [m.lines.start + 2 for m in found] == [m.lines.start for m in moved]
    texts = {ast.unparse(mutant.tree) for mutant in found}
    assert len(texts) == len(found)
    assert ast.unparse(ast.parse(SAMPLE)) not in texts


def test_tests_about_a_module_are_tried_before_all_that_run_through_it() -> None:
    """Else what is evaluated at loading, which every test may tell, is tried on whichever are quick."""
    through = {
        f"through {n}": Reach(0.1, {"stage_bucket": [1], "epoch": [*range(20)]}, 0, {}) for n in range(200)
    }
    direct = {"direct": Reach(SECONDS / 2, {"stage_bucket": [1, 2], "stage_bag": [1]}, 0, {})}
    table = {"table": Reach(SECONDS / 4, {}, 0, {})}
    reach = through | direct | table
    chosen = Trial(["stage_bucket"], None, print).chosen("stage_bucket", list(reach), reach)
    assert {"direct", "table"} <= set(chosen)
    assert sum(reach[name].seconds for name in chosen) <= SECONDS


LOADED = """
from dataclasses import replace
from tests.mutation import KEPT, PROGRAMS, killer_anew
from tests.mutants import mutants
import ast

KEPT.mkdir(exist_ok=True)
source = (PROGRAMS / "stage_bucket.py").read_text()
changed = next(it for it in mutants(source) if it.name == "StateRow: 0 -> 1")
same = replace(changed, tree=ast.parse(source))
tests = ["tests/unit/programs/test_run_bucket.py"]
print([bool(killer_anew("stage_bucket", it, tests)) for it in (changed, same)])
"""


def test_a_changed_default_is_told_by_tests_that_load_it_and_an_unchanged_one_is_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.splitlines()[-1:] == ["[True, False]"], done.stdout + done.stderr
