"""The manifest: every configuration with its question, its constants and the answer it must give."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tooling.tlc import HOLDS, SPECS, Found, SpecsError

MANIFEST = SPECS / "manifest.toml"
README = SPECS / "README.md"
MAP = "## Claims, modules, configurations, results\n"
"""Heading of the README's last part, which is made of the manifest."""
CLASSES = ("default", "nightly")
FIELDS = {
    "name",
    "module",
    "question",
    "constants",
    "claims",
    "expected",
    "states",
    "class",
    "options",
    "specification",
    "levels",
}
LEVELS = ("not_converged", "converged", "weak", "strong", "complete")
"""Names of the levels that `PerEntry` numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One question to TLC: a module, its bounds, the claims, and the answer on record."""

    name: str
    module: str
    question: str
    claims: tuple[str, ...]
    expected: str
    states: int | None
    time_class: str
    constants: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    specification: str = "Spec"  # FairSpec where something must happen in the end
    levels: dict[str, list[str]] = field(
        default_factory=dict
    )  # fault set -> of the worst record, of the whole view

    @property
    def mode(self) -> str:
        """Say how TLC answers: every state, every behaviour, or the worst level of every finished run."""
        return "levels" if self.levels else "safety" if self.specification == "Spec" else "liveness"

    @property
    def answer(self) -> str:
        """Say what is on record, for people."""
        if not self.levels:
            return HOLDS if self.expected == HOLDS else f"**breaks {self.expected}**"
        return "; ".join(f"{name}: {' / '.join(pair)}" for name, pair in self.levels.items())

    @property
    def cfg(self) -> str:
        """Return the text of the .cfg file that TLC reads."""
        lines = [f"SPECIFICATION {self.specification}", "CHECK_DEADLOCK FALSE"]
        lines += [f"CONSTANT {name} = {tla(value)}" for name, value in self.constants.items()]
        for claim in self.claims:
            lines.append(f"{'PROPERTY' if claim.endswith('Prop') else 'INVARIANT'} {claim}")
        return "\n".join(lines) + "\n"

    def complaint(self, found: Found) -> str | None:
        """Say how the answer differs from the one on record, or None."""
        if found.verdict != self.expected:
            return f"expected {self.expected}, found {found.verdict}"
        if self.levels != (levels := levels_in(found.output)):
            return f"expected {self.levels}, found {levels}"
        if self.states is None:
            return f"no state count on record; this run found {found.distinct}"
        if found.distinct != self.states:
            return f"expected {self.states} distinct states, found {found.distinct}"
        return None


def levels_in(output: str) -> dict[str, list[str]]:
    """Return the lowest levels a run of TLC printed: of view records and of the whole view, by fault set."""
    lowest: dict[str, list[int]] = {}
    for name, *found in re.findall(r'<<"level", "(\w+)", (\d), (\d)>>', output):
        lowest[name] = [min(pair) for pair in zip(map(int, found), lowest.get(name, (4, 4)), strict=True)]
    return {name: [LEVELS[number] for number in pair] for name, pair in lowest.items()}


def tla(value: Any) -> str:
    """Write a TOML value the way a .cfg file wants it: a list is a set, a string is a string."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "{" + ", ".join(tla(item) for item in value) + "}"
    raise SpecsError(f"no way to write {value!r} into a .cfg")


def configurations(path: Path = MANIFEST) -> list[Configuration]:
    """Read the manifest; a configuration that could not fail, or without a known answer, is refused."""
    found = [configuration(entry) for entry in entries(path)]
    names = [each.name for each in found]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise SpecsError(f"names used twice: {sorted(doubled)}")
    return found


def with_states(text: str, name: str, states: int) -> str:
    """Return the manifest's text with one configuration's state count set."""
    pattern = re.compile(
        rf'(name = "{re.escape(name)}"\n(?:(?!\n\[\[).)*?expected = "\w+"\n(?:levels = .*?\n)?)(states = \d+\n)?',
        re.DOTALL,
    )
    found, count = pattern.subn(rf"\g<1>states = {states}\n", text)
    if count != 1:
        raise SpecsError(f"{name}: its place in the manifest was not found")
    return found


def with_map(readme: str, path: Path = MANIFEST) -> str:
    """Return a README with its last part made anew: module by module, question, answer, states on record."""
    titles: dict[str, str] = tomllib.loads(path.read_text())["titles"]
    found = configurations(path)
    strange = {each.module for each in found} ^ set(titles)
    if strange:
        raise SpecsError(f"modules without a title or without a question: {sorted(strange)}")
    lines = [readme[: readme.index(MAP)] + MAP]
    for module, title in titles.items():
        lines += [f"### {title}: `{module}.tla`", ""]
        lines += ["| configuration | question | answer | states |", "|---|---|---|--:|"]
        lines += [_line(each) for each in found if each.module == module]
        lines.append("")
    return "\n".join(lines)


def _line(each: Configuration) -> str:
    name = f"`{each.name.removeprefix(each.module).lstrip('_')}`"
    when = "" if each.time_class == CLASSES[0] else f" ({each.time_class})"
    return f"| {name}{when} | {each.question} | {each.answer} | {each.states:,} |"


def entries(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        yield from tomllib.load(file)["run"]


def configuration(entry: dict[str, Any]) -> Configuration:
    strange = set(entry) - FIELDS
    if strange:
        raise SpecsError(f"{entry.get('name')}: unknown fields {sorted(strange)}")
    made = Configuration(
        name=entry["name"],
        module=entry["module"],
        question=entry["question"],
        claims=tuple(entry["claims"]),
        expected=entry["expected"],
        states=entry.get("states"),
        time_class=entry.get("class", CLASSES[0]),
        constants=entry.get("constants", {}),
        options=tuple(entry.get("options", ())),
        specification=entry.get("specification", "Spec"),
        levels=entry.get("levels", {}),
    )
    if made.expected != HOLDS and made.expected not in made.claims:
        raise SpecsError(f'{made.name}: expected "{made.expected}" is none of its claims')
    if not made.claims or made.time_class not in CLASSES or not made.name.startswith(made.module):
        raise SpecsError(f"{made.name}: needs claims, a known class, and its module at the front of its name")
    return made
