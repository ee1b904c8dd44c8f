"""Mutation testing of `cvs/programs`: change one thing at a time; some test must fail.

    python -m tests.mutation machine [MODULE...]      # `all` for all of them
    python -m tests.mutation --sample 4 all           # one mutant of four, the same ones each time
    python -m tests.mutation                        # the list

Cheap, so that it is done: tests are collected once; each runs once under a tracer in a process of its own, which
says what it costs and which lines it reaches; a mutant is a change of code objects in a forked process, which
runs the tests that reach the changed line, most telling first, and ends at the first failure. What no test reaches
is a hole at once. A mutant may take a small multiple of a test's time. Only what is evaluated while modules are
loaded (defaults, tables) is loaded anew.

Killed mutants and what tests reach are kept in the folder `mutants`: a run that was ended goes on, and tests that
were added are tried on the survivors alone. Survivors that cannot be told from the original, or do not matter, stand in
`tests/mutants_accepted.py` with a reason; any other survivor is a hole in the tests, and the command leaves with 1.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from cvs.embedded.processes import end_with_owner
from tests.mutants import Mutant, mutants
from tests.mutants_accepted import ACCEPTED

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "cvs" / "programs"
KEPT = ROOT / "mutants"
MODULES = tuple(sorted(file.stem for file in PROGRAMS.glob("[a-z]*.py")))
TESTS = (
    "tests/unit/programs",
    "tests/unit/manager",
    "tests/unit/simulate",
    "tests/unit/suite/test_story.py",
    "tests/unit/suite/test_table.py",
    "tests/unit/client/test_snapshot.py",
    "tests/unit/stream/test_bases.py",
    "tests/unit/stream/test_phases.py",
    "tests/unit/stream/test_reread.py",
    "property_tests/test_programs.py",
    "property_tests/test_epochs.py",
    "property_tests/test_images.py",
    "property_tests/test_epoch_sql.py",
    "property_tests/test_stage_codec.py",
)
"""Those that are about programs; slow ones are left out, so that what kills a mutant is also what a developer runs."""
SECONDS = 8.0
"""CPU a mutant's tests may take together: what only a longer selection would tell counts as not told."""
MEMORY = 4 << 30
SAMPLE = [1]
"""One mutant of so many is tried."""


@dataclass(slots=True)
class Reach:
    """What a test costs and which lines of programs it reaches."""

    seconds: float
    lines: dict[str, list[int]]
    test: int  # checksum of its file when this was measured
    programs: dict[str, int]  # and those of the programs it ran through

    def about(self, module: str) -> float:
        """Say, in tenths, how much of what a test runs lies in a module; one that runs nothing asks about tables."""
        every = sum(map(len, self.lines.values()))
        return round(len(self.lines.get(module, ())) / every, 1) if every else 1.0


class Killed:
    """Which mutants of a module some test has killed; one is forgotten as soon as its function changes."""

    def __init__(self, module: str) -> None:
        self._file = KEPT / f"{module}.json"
        self.by: dict[str, tuple[int, str]] = (
            json.loads(self._file.read_text()) if self._file.exists() else {}
        )

    def has(self, mutant: Mutant) -> bool:
        """Say whether a mutant of the function as it is now was killed."""
        return mutant.name in self.by and self.by[mutant.name][0] == mutant.within

    def add(self, mutant: Mutant, by: str) -> None:
        self.by[mutant.name] = (mutant.within, by)
        self._file.write_text(json.dumps(self.by, indent=0))


@dataclass
class Trial:
    """A pytest session that collects as ever, and tries mutants instead of running tests."""

    modules: Sequence[str]
    tracer: Any
    say: Callable[[str], None]
    telling: Counter[str] = field(default_factory=Counter)
    anew: list[tuple[str, str, list[str]]] = field(default_factory=list)

    def pytest_runtestloop(self, session: Any) -> bool:
        self.tracer.stop()
        loaded = lines_of(self.tracer)
        items = {item.nodeid: item for item in session.items}
        for module in self.modules:
            if left := left_of(module):
                reach = reaches(items, module)
                self.examine(module, left, set(loaded.get(module, ())), items, reach)
        self.say(json.dumps(self.anew))
        return True

    def examine(
        self,
        module: str,
        left: list[Mutant],
        loaded: set[int],
        items: dict[str, Any],
        reach: dict[str, Reach],
    ) -> None:
        """Try mutants of a module; what is evaluated at loading waits for its turn."""
        killed, functions = Killed(module), functions_of(module)
        self.telling.update(by for _, by in killed.by.values())
        for mutant in left:
            at_loading = not mutant.function or not loaded.isdisjoint(mutant.lines)
            reaching = [
                name
                for name, it in reach.items()
                if (at_loading and speaks_of(name, module))
                or may_tell(it.lines.get(module, ()), mutant, at_loading)
            ]
            chosen = self.chosen(module, reaching, reach)
            if at_loading:
                self.anew.append((module, mutant.name, chosen))
            elif by := killer([(items[name], reach[name].seconds) for name in chosen], mutant, functions):
                killed.add(mutant, by)
                self.telling[by] += 1

    def chosen(self, module: str, reaching: list[str], reach: dict[str, Reach]) -> list[str]:
        """Return as many tests as the time is for, those about the module itself before others; most telling first."""
        some, spent = [], 0.0
        for name in sorted(reaching, key=lambda name: (-reach[name].about(module), reach[name].seconds)):
            spent += reach[name].seconds
            if spent > SECONDS and some:
                break
            some.append(name)
        return sorted(some, key=lambda name: (reach[name].seconds + 0.01) / (1 + self.telling[name]))


def may_tell(lines: Sequence[int], mutant: Mutant, at_loading: bool) -> bool:
    """Say whether a test that reaches these lines may tell; a default or a table is used anywhere in its module."""
    return bool(lines) if at_loading else not set(mutant.lines).isdisjoint(lines)


@cache
def speaks_of(test: str, module: str) -> bool:
    """Say whether a test's file imports a module: tables are used without running a line of it."""
    return f"programs.{module} import" in (ROOT / test.split("::")[0]).read_text()


def every(module: str) -> list[Mutant]:
    """Return the mutants of a module, or the sample of them that was asked for."""
    found = mutants((PROGRAMS / f"{module}.py").read_text())
    return [mutant for mutant in found if zlib.crc32(mutant.name.encode()) % SAMPLE[0] == 0]


def left_of(module: str) -> list[Mutant]:
    """Return the mutants of a module that are not killed."""
    killed = Killed(module)
    return [mutant for mutant in every(module) if not killed.has(mutant)]


def reaches(items: dict[str, Any], module: str) -> dict[str, Reach]:
    """Return what every test reaches; a test is measured again if its own file or the module has changed."""
    file = KEPT / "reach.json"
    known = {n: Reach(**it) for n, it in json.loads(file.read_text()).items()} if file.exists() else {}
    now = checksum(f"cvs/programs/{module}.py")
    for number, (name, item) in enumerate(items.items()):
        old, own = known.get(name), checksum(name.split("::")[0])
        if old is None or old.test != own or old.programs.get(module, now) != now:
            known[name] = measured(item)
            if number % 50 == 0:
                keep(known)
    keep(known)
    return {name: known[name] for name in items}


def keep(known: dict[str, Reach]) -> None:
    """Keep what tests reach; all at once, since another run may read it."""
    new = KEPT / f"reach.{os.getpid()}"
    new.write_text(json.dumps({name: asdict(it) for name, it in known.items()}))
    new.rename(KEPT / "reach.json")


@cache
def checksum(path: str) -> int:
    """Return the checksum of a file's content."""
    return zlib.crc32((ROOT / path).read_bytes())


def measured(item: Any) -> Reach:
    """Run a test once in a process of its own, under a tracer; it must pass."""

    def work(say: Callable[[str], None]) -> None:
        tracer, began = new_tracer(), time.process_time()
        tracer.start()
        passed = passes(item)
        tracer.stop()
        if passed:
            say(json.dumps([time.process_time() - began, lines_of(tracer)]))

    said = forked(work)
    if not said:
        raise SystemExit(f"mutation: {item.nodeid} fails without any mutation")
    seconds, lines = json.loads(said[-1])
    programs = {module: checksum(f"cvs/programs/{module}.py") for module in lines}
    return Reach(seconds=seconds, lines=lines, test=checksum(item.nodeid.split("::")[0]), programs=programs)


def new_tracer() -> Any:
    from coverage import Coverage

    tracer = Coverage(data_file=None, source=[str(PROGRAMS)], config_file=False)
    tracer.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
    return tracer


def lines_of(tracer: Any) -> dict[str, list[int]]:
    """Return the lines a tracer has seen, by module."""
    data = tracer.get_data()
    found = {Path(file).stem: sorted(data.lines(file) or ()) for file in data.measured_files()}
    return {module: lines for module, lines in found.items() if lines}


def passes(item: Any, following: Any = None) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


SURVIVED = "survived"


def killer(items: list[tuple[Any, float]], mutant: Mutant, functions: "Functions") -> str:
    """Return the test that fails, dies or hangs on a mutant; empty if none does."""

    def work(say: Callable[[str], None]) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        put_in_place(mutant, functions)
        for number, (item, seconds) in enumerate(items):
            say(item.nodeid)
            limited(seconds)
            if not passes(item, items[number + 1][0] if number + 1 < len(items) else None):
                return
        say(SURVIVED)

    last = forked(work)[-1] if items else SURVIVED
    return "" if last == SURVIVED else last


def limited(seconds: float) -> None:
    """Die when a test takes far longer than without a mutant: by the CPU it uses, or asleep."""
    signal.setitimer(signal.ITIMER_PROF, 1 + 4 * seconds)
    signal.setitimer(signal.ITIMER_REAL, 120 + 40 * seconds)


def forked(work: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Do something in a process of its own and return the lines it said, however it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        end_with_owner()
        try:
            work(lambda line: (os.write(writing, f"{line}\n".encode()), None)[1])
        except BaseException:  # noqa: BLE001 -- because a mutant may break anything, the test runner included
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = lines.read().splitlines()
    os.waitpid(child, 0)
    return said


Functions = dict[tuple[str, int], list[FunctionType]]


def functions_of(module: str) -> Functions:
    """Return the functions of a module that live, by name and first line: whoever holds one holds the same object."""
    file, found = str(PROGRAMS / f"{module}.py"), Functions()
    gc.unfreeze()  # because a test session freezes what it has collected, and what is frozen is not listed
    for it in gc.get_objects():
        if isinstance(it, FunctionType) and it.__code__.co_filename == file:
            found.setdefault((it.__code__.co_qualname, it.__code__.co_firstlineno), []).append(it)
    return found


def put_in_place(mutant: Mutant, functions: Functions) -> None:
    """Give the living functions of a module the mutant's code."""
    file = next(iter(functions.values()))[0].__code__.co_filename
    waiting = [compile(mutant.tree, file, "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for function in functions.get((code.co_qualname, code.co_firstlineno), ()):
            outer = (
                function.__code__.co_freevars
            )  # a mutant may use fewer; its function is closed over all the same
            function.__code__ = code.replace(co_freevars=outer)


class _Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves one module from a mutant."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        self._name, self._mutant = name, mutant

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def exec_module(self, module: object) -> None:
        exec(compile(self._mutant.tree, self._name, "exec"), module.__dict__)


def killer_anew(module: str, mutant: Mutant, tests: list[str]) -> str:
    """Load everything with a mutant in it and run tests; return what ended it, empty if nothing did."""

    def work(say: Callable[[str], None]) -> None:
        sys.meta_path.insert(0, _Replaced(f"cvs.programs.{module}", mutant))
        say("loading")
        limited(SECONDS)
        if run_pytest(["-x", *tests]) == 0:
            say(SURVIVED)

    last = forked(work)[-1] if tests else SURVIVED
    return "" if last == SURVIVED else last


def run_pytest(arguments: list[str], plugin: object = None) -> int:
    """Run pytest in this process; what it says is in `mutants/pytest.log`."""
    import pytest

    log = os.open(KEPT / "pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    quiet = [
        "-q",
        "--capture=sys",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    return int(pytest.main([*quiet, *arguments], plugins=[plugin] if plugin else []))


def tried(modules: Sequence[str]) -> None:
    """Try all mutants of modules that are not killed yet; what came of it is kept."""

    def work(say: Callable[[str], None]) -> None:
        tracer = new_tracer()
        tracer.start()
        run_pytest(["-m", "not cluster and not spark and not slow", *TESTS], Trial(modules, tracer, say))

    KEPT.mkdir(exist_ok=True)
    said = forked(work)
    if not said:
        raise SystemExit(f"mutation: the tests could not be collected or fail: see {KEPT}/pytest.log")
    for module, name, tests in json.loads(said[-1]):
        for mutant in (it for it in left_of(module) if it.name == name):
            if by := killer_anew(module, mutant, tests):
                Killed(module).add(mutant, by)


def told(module: str) -> int:
    """Say how many mutants of a module are killed and which survive; return how many survive for no reason."""
    left = [f"{module}.{mutant.name}" for mutant in left_of(module)]
    for name in left:
        sys.stdout.write(f"  survives {name}  [{ACCEPTED.get(name, 'NO REASON')}]\n")
    count = max(len(every(module)), 1)
    sys.stdout.write(
        f"{module}: {count - len(left)} of {count} mutants killed ({1 - len(left) / count:.1%})\n"
    )
    sys.stdout.flush()
    return sum(name not in ACCEPTED for name in left)


def main(arguments: list[str]) -> int:
    """Examine the modules named; 1 if a survivor has no reason."""
    if arguments[:1] == ["--sample"]:
        SAMPLE[0], arguments = int(arguments[1]), arguments[2:]
    modules = list(MODULES) if arguments == ["all"] else arguments
    if unknown := [name for name in modules if name not in MODULES]:
        sys.stdout.write(f"mutation: no module {unknown[0]!r}; there are {', '.join(MODULES)}\n")
        return 2
    if not modules:
        sys.stdout.write("\n".join(MODULES) + "\n")
        return 0
    for shared in ("cvs.report.audit", "pytest", "sqlglot", "hypothesis", "coverage"):
        import_module(shared)  # because what children share is loaded once
    assert "cvs.programs.machine" not in sys.modules, "a mutant must be loaded by its child"
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    tried(modules)
    return 1 if sum([told(module) for module in modules]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
