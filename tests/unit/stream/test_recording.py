"""What a pipeline did is kept in files whose oldest go, so a sidecar that runs for long fills no disk."""

from datetime import date
from decimal import Decimal
from itertools import count
from pathlib import Path

from cvs.model.signature import Signature
from cvs.programs.epoch import Control, Pin
from cvs.programs.epoch_run import BaseMove, EpochResult
from cvs.programs.stage_publish import Shown
from cvs.stream.recording import COMMITTED, RAN, RUNNING, EpochLog, read_log, recording_files


def recorded(folder: Path, *, epochs: int, keep_bytes: int) -> list[tuple[str, int]]:
    """Record some epochs in files of 2,000 bytes; return what is kept, in order."""
    ticks = count()
    log = EpochLog(folder, keep_bytes=keep_bytes, file_bytes=2_000, clock=lambda: next(ticks))
    for number in range(1, epochs + 1):
        control = Control(signature=Signature(incarnation=1, version=number), pin=Pin(epoch=number))
        log.running(control)
        log.ran(control, EpochResult(epoch=number, bases={"t": [BaseMove(1, None, ("x" * 300,))]}))
        log.committed(control)
    log.close()
    kept = [record for path in sorted(folder.glob("*.log")) for record in read_log(path)]
    return [(record[1], record[3]) for record in kept]


def test_the_oldest_files_go_and_whole_epochs_stay(tmp_path: Path) -> None:
    """What is left is the end of the run, begins with an epoch's beginning, and takes no more than asked for."""
    kept = recorded(tmp_path, epochs=100, keep_bytes=10_000)
    first = kept[0][1]
    assert 60 < first < 95
    assert kept == [(kind, n) for n in range(first, 101) for kind in (RUNNING, RAN, COMMITTED)]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 10_000


def test_of_the_least_that_is_kept_most_is_there_when_a_file_ends(tmp_path: Path) -> None:
    """With `keep_mb = 32` and files of 16 MiB nothing was left but the file that had just begun."""
    for epochs in range(40, 60):
        kept = recorded(tmp_path / str(epochs), epochs=epochs, keep_bytes=4_000)
        assert len(kept) >= 3 * 4
        assert sum(path.stat().st_size for path in (tmp_path / str(epochs)).iterdir()) < 4_000


def test_without_a_bound_everything_is_kept(tmp_path: Path) -> None:
    """Files end and begin, none goes."""
    kept = recorded(tmp_path, epochs=100, keep_bytes=0)
    assert (len(kept), kept[0]) == (300, (RUNNING, 1))
    assert len(list(tmp_path.iterdir())) > 10


def test_a_recording_is_of_one_state(tmp_path: Path) -> None:
    """After `cvs uninstall` numbers begin again: an audit took the epochs of before for those of now."""
    for moment, state in enumerate(("aa", "", "bb", "aa")):
        EpochLog(tmp_path, clock=lambda moment=moment: moment, state=state).close()
    assert [int(it.name.split("-")[1]) for it in recording_files(tmp_path, state="aa")] == [0, 3]
    assert len(recording_files(tmp_path)) == 4


def test_what_moved_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Values of every kind come back, by this version and by one before it, whose records were nested tuples."""
    row = (1, "x", Decimal("1.50"), None, frozenset({2}), date(2026, 1, 31))
    bases = {"t": [BaseMove(7, None, row), BaseMove(8, row, None)], "u": [BaseMove(9, (2,), (3,))]}
    shown = {"v": [Shown(key=(Decimal("2.0"),), before=None, now=row), Shown(key=(3,), before=row, now=None)]}
    log = EpochLog(tmp_path, clock=lambda: 5)
    control = Control(signature=Signature(incarnation=1, version=1), pin=Pin(epoch=1))
    log.ran(control, EpochResult(epoch=1, bases=bases, shown=shown, rows={"w": 0}))
    moved = (
        (("t", 7, None, row), ("t", 8, row, None), ("u", 9, (2,), (3,))),
        (("v", (Decimal("2.0"),), row), ("v", (3,), None)),
    )
    expected = (5, RAN, control.pin.incarnation, 1, *moved, ("w",), ())
    log._write(*expected[1:])  # as the version before wrote it
    log.close()
    (path,) = tmp_path.iterdir()
    assert list(read_log(path)) == [expected, expected]
