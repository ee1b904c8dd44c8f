"""The house rules as a table: each complaint names file, line, rule and what to do instead.

The rules themselves are tested on small samples in `test_tidy.py`.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
ARGUMENTS_POSITIONAL_MAX = 5
PURE_ROOMS = {"model", "programs", "history", "checker", "simulate"}

# Named exemptions, each with its reason. Empty is the goal.
LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
IMPURE_FILES: dict[str, str] = {}

BANNED_CALLS_IN_PURE_ROOMS = {
    "time.time": "take a clock as an argument",
    "time.monotonic": "take a clock as an argument",
    "time.sleep": "yield to the caller",
    "datetime.now": "take a clock as an argument",
    "datetime.datetime.now": "take a clock as an argument",
    "uuid.uuid4": "take a random.Random as an argument",
    "uuid.uuid1": "take a random.Random as an argument",
    "open": "read and write files at the rim",
    "print": "return the words; the command prints",
    "input": "take the value as an argument",
    "random.random": "take a random.Random as an argument",
    "random.choice": "take a random.Random as an argument",
    "random.randint": "take a random.Random as an argument",
    "random.shuffle": "take a random.Random as an argument",
    "os.getenv": "take the setting as an argument",
    "os.urandom": "take a random.Random as an argument",
}
BANNED_NAMES_IN_PURE_ROOMS = {"os.environ": "take the setting as an argument"}
BANNED_IMPORTS_IN_PURE_ROOMS = {"threading", "asyncio", "socket", "subprocess", "multiprocessing"}

ROOM_README_HEADINGS = (
    "Purpose",
    "From the paper",
    "How ours differs",
    "What you may rely on",
    "What it refuses",
    "Files in reading order",
    "Decisions",
    "Open questions",
)

LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
STRANGERS = re.compile(r"[\"'( =](/home/|/Users/|/root/|/mnt/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One broken rule: where it is and what to do instead."""

    file: str
    line: int
    rule: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}; {self.instead}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One parsed Python file."""

    file: str
    text: str
    nodes: tuple[ast.AST, ...]

    @classmethod
    def of(cls, file: str, text: str) -> "Source":
        pure = room_of(file) in PURE_ROOMS  # where also expressions have a rule
        tree = ast.parse(text)
        return cls(file=file, text=text, nodes=tuple(ast.walk(tree) if pure else statements(tree)))

    @property
    def room(self) -> str:
        return room_of(self.file)

    def only_imports(self) -> "Source":
        return replace(
            self, nodes=tuple(it for it in self.nodes if isinstance(it, ast.Import | ast.ImportFrom))
        )


def room_of(file: str) -> str:
    parts = Path(file).parts
    return parts[1] if len(parts) > 2 and parts[0] == "cvs" else ""


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree's statements, the nested ones too; expressions are most of a tree and are not looked at."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo.extend(getattr(node, name, ()))


Rule = Callable[[Source], Iterator[Complaint]]


def long_module(source: Source) -> Iterator[Complaint]:
    lines = source.text.count("\n")
    if source.file.startswith("cvs/") and lines > MODULE_LINES_MAX and source.file not in LONG_MODULES:
        yield Complaint(
            file=source.file,
            line=1,
            rule=f"module of {lines} lines",
            instead=f"split it at a noun; {MODULE_LINES_MAX} is the guide",
        )


def long_function(source: Source) -> Iterator[Complaint]:
    for node in source.nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX and f"{source.file}:{node.name}" not in LONG_FUNCTIONS:
            yield Complaint(
                file=source.file,
                line=node.lineno,
                rule=f"function {node.name} of {lines} lines",
                instead=f"name its parts; {FUNCTION_LINES_MAX} is the guide",
            )


def many_arguments(source: Source) -> Iterator[Complaint]:
    for node in source.nodes:
        if not isinstance(node, ast.FunctionDef) or not source.file.startswith("cvs/"):
            continue
        positional = [a.arg for a in node.args.args if a.arg not in ("self", "cls")]
        commandline = source.room == "cli"
        if len(positional) > ARGUMENTS_POSITIONAL_MAX and not commandline:
            yield Complaint(
                file=source.file,
                line=node.lineno,
                rule=f"{node.name} takes {len(positional)} positional arguments",
                instead="make them keyword-only after the first, or name the group",
            )


def impure_call(source: Source) -> Iterator[Complaint]:
    if source.room not in PURE_ROOMS or source.file in IMPURE_FILES:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and (name := _dotted(node.func)) in BANNED_CALLS_IN_PURE_ROOMS:
            yield _impure(source, node.lineno, f"{name}()", BANNED_CALLS_IN_PURE_ROOMS[name])
        if isinstance(node, ast.Attribute) and (name := _dotted(node)) in BANNED_NAMES_IN_PURE_ROOMS:
            yield _impure(source, node.lineno, name, BANNED_NAMES_IN_PURE_ROOMS[name])
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in _imported(node):
                if module.split(".")[0] in BANNED_IMPORTS_IN_PURE_ROOMS:
                    yield _impure(source, node.lineno, f"import {module}", "do it at the rim")


def _dotted(node: ast.AST) -> str:
    """Write a name with dots as it stands; anything else is no name."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _impure(source: Source, line: int, what: str, instead: str) -> Complaint:
    return Complaint(file=source.file, line=line, rule=f"{what} in a pure room", instead=instead)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""]


def leftover(source: Source) -> Iterator[Complaint]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if source.file.startswith("tests/house/"):
            continue
        if LEFTOVERS.search(line):
            yield Complaint(
                file=source.file,
                line=number,
                rule="leftover marker",
                instead="do it now, or write it under Open questions in the room's README",
            )
        if STRANGERS.search(line):
            yield Complaint(
                file=source.file,
                line=number,
                rule="a path of one machine",
                instead="take the path as an argument",
            )


RULES: tuple[Rule, ...] = (long_module, long_function, many_arguments, impure_call, leftover)


def python_files() -> list[Path]:
    folders = ("cvs", "tests", "property_tests", "bench", "specs")
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py"))


def complaints(sources: list[Source]) -> list[Complaint]:
    return [complaint for source in sources for rule in RULES for complaint in rule(source)]


def all_sources() -> Iterator[Source]:
    """Yield the files of the tree one by one, because their parsed trees together slow down all that follows."""
    return (Source.of(str(p.relative_to(ROOT)), p.read_text()) for p in python_files())


def never_imported(sources: list[Source]) -> list[str]:
    """Files of the package that nothing imports; commands are found by name, packages by their content."""
    imported: set[str] = set()
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
                imported.update(f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
    text = "\n".join(source.text for source in sources)
    found = []
    for source in sources:
        if not source.file.startswith("cvs/") or source.room == "cli":
            continue
        name = source.file.removesuffix(".py").replace("/", ".")
        if name.endswith(("__init__", "__main__")) or name in imported or f'"{name}"' in text:
            continue
        found.append(source.file)
    return found
