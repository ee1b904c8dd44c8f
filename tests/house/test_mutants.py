"""The mutants of a sample: what is changed, what is left alone, and that names stay when lines move."""

import ast

from tests.mutants import mutants

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


def test_a_mutant_is_one_change_and_its_name_does_not_move() -> None:
    found, moved = list(mutants(SAMPLE)), list(mutants("\n\n" + SAMPLE))
    assert [m.name for m in found] == [m.name for m in moved]
    assert [m.lines.start + 2 for m in found] == [m.lines.start for m in moved]
    texts = {ast.unparse(mutant.tree) for mutant in found}
    assert len(texts) == len(found)
    assert ast.unparse(ast.parse(SAMPLE)) not in texts
