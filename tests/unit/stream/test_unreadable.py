"""A view with a base row that nobody can read is shown as a whole all the same: that row contributes nothing (H24)."""

from dataclasses import replace
from pathlib import Path

from cvs.errors import SpecificationError
from cvs.programs.delta import Visible
from cvs.programs.epoch import Pin
from cvs.programs.epoch_whole import places, whole_step
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_codec import Values
from tests.unit.stream.memory_shop import MemoryShop

VIEW = "CREATE MATERIALIZED VIEW views.large AS SELECT id, quantity FROM shop.orders WHERE quantity > 4"


def test_all_other_rows_are_shown(tmp_path: Path) -> None:
    """Repair, resume and the end of a build publish from state, where the unreadable row still lies."""
    shop = MemoryShop(VIEW, tmp_path)
    for number in range(6):
        row = {"customer": 1, "product": 1, "quantity": 5 + number, "total": None}
        shop.put("orders", number, row)
    shop.epoch()
    (base,), (publication,) = shop.program.bases, shop.program.publications

    def damaged(partition: bytes, clustering: bytes, visible: Visible) -> Values:
        if partition.endswith(b"\x03"):
            raise SpecificationError("no such value")
        return base.decode(partition, clustering, visible)

    program = replace(shop.program, bases=(replace(base, decode=damaged),))
    pin = Pin(epoch=2)
    whole = drive(whole_step(program, publication, pin, places(program, publication)), shop.door)
    assert sorted(it.key for it in whole.shown) == [(0,), (1,), (2,), (4,), (5,)]
