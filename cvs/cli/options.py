"""Options that several commands share, so that they are spelled and explained the same."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cvs.errors import SpecificationError
from cvs.sidecar.settings import Settings, settings_from

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

SETTINGS_FILE = "cvs.toml"


def settings_option(command: Decorated) -> Decorated:
    """Add `--settings FILE`; the parameter is `settings_file`."""
    return click.option(
        "--settings",
        "settings_file",
        metavar="FILE",
        help=f"Settings (TOML); default {SETTINGS_FILE} where it exists. CVS_<SECTION>_<KEY> overrides a key.",
    )(command)


def read_settings(settings_file: str | None) -> Settings:
    """Read the settings a command was given, or the default file, or the defaults."""
    path = Path(settings_file or SETTINGS_FILE)
    if settings_file is None and not path.exists():
        return settings_from("", os.environ, where="the environment")
    return settings_from(text_of(path), os.environ, where=str(path))


def text_of(path: Path) -> str:
    """Read a file that must be text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        if isinstance(fault, OSError):
            raise SpecificationError(f"it cannot be read: {fault.strerror}", where=str(path)) from fault
        reason = "it cannot be read: it is not UTF-8 text"
        raise SpecificationError(reason, where=str(path), next_step="save it as UTF-8") from fault


def asked_of(view: str | None, everything: bool) -> None:
    """Refuse a command line that names neither a view nor all of them, or both."""
    if bool(view) == everything:
        raise SpecificationError(
            "a view, or --all, says which", next_step="name a view; cvs status lists them"
        )
