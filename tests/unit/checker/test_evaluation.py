"""Going from cut to cut shows what computing each cut from scratch shows."""

import random

from cvs.checker.evaluation import WholeView
from cvs.checker.meaning import IMPOSSIBLE, DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.subject import Index
from tests.agree.test_checker_bulk import certified, damaged
from tests.stories.views import VIEWS


def test_neighbouring_cuts_show_what_each_shows_alone() -> None:
    chance = random.Random(3)
    different = impossible = 0
    for number in range(60):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, moves=number % 2 == 0)
        for _ in range(3 if number % 3 == 0 else 0):
            events = damaged(chance, events)  # rows with the key of others: such a base state has no view
        index = Index(DefinitionMeaning(VIEWS[name]), replay(events))
        lattice = index.lattice(None)
        whole = WholeView(index.meaning, lattice.records, lattice.rows, index.touching)
        last = None
        for _ in range(25):
            cut = tuple(chance.randint(0, top) for top in lattice.tops)
            if last is not None and chance.random() < 0.6:
                place = chance.randrange(len(cut))
                cut = (*last[:place], cut[place], *last[place + 1 :])
            alone = frozenset(index.meaning.view(lattice.base(cut)).items())
            assert whole.value(cut) == alone, (name, cut)
            impossible += IMPOSSIBLE in dict(alone).values()
            different += last is not None and cut != last
            last = cut
    assert different > 500
    assert impossible > 0
