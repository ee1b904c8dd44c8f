"""Settings: one TOML file, the environment over it, unknown keys refused with the nearest known one.

A key `port` of section `[cluster]` is `CVS_CLUSTER_PORT` in the environment. Secrets never print themselves.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from cvs.errors import SpecificationError

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Keyspace = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9_]{1,48}$")
]  # what Cassandra takes, in quotes too
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Secret:
    """A value that shows itself only when asked for by name."""

    __slots__ = ("reveal",)

    def __init__(self, reveal: str) -> None:
        self.reveal = reveal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal == self.reveal

    def __hash__(self) -> int:
        return hash(self.reveal)

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the file; every key has a default that works on one machine."""


class ClusterSettings(Section, frozen=True):
    """Where the user's Cassandra is and how to enter it."""

    contact_points: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("127.0.0.1",)
    port: Port = 9042
    local_datacenter: str = "datacenter1"
    username: str = ""
    password: Secret | None = None
    ca_file: str = ""  # a CA file switches TLS on
    certificate_file: str = ""
    key_file: Secret | None = None
    verify_hostname: bool = True
    serial_consistency: str = "SERIAL"
    request_timeout_s: Positive = 10.0


class ViewSettings(Section, frozen=True):
    """What is kept, and in which keyspaces; all that cvs creates lives in these two."""

    state_keyspace: Keyspace = "cvs"
    published_keyspace: Keyspace = "cvs_views"
    replication_factor: Annotated[int, msgspec.Meta(ge=1)] = 1
    build_rows_per_second: Annotated[int, msgspec.Meta(ge=0)] = 0  # the most a build reads; 0: no limit


class CaptureSettings(Section, frozen=True):
    """Which commit log this process reads: `auto`, that of a cluster's only node, if it is on this machine; else a
    node's cdc_raw folder; empty: none, each node has a `cvs capture` of its own.
    """

    cdc_raw: str = "auto"
    mode: str = "durable"


class FeedSettings(Section, frozen=True):
    """Where changes wait for the epochs: a folder that captures and pipeline share, or kafka://host:port/topic."""

    name: str = "feed"


class PipelineSettings(Section, frozen=True):
    """What one epoch may take (of large changes, and of large rows, up to 64 MiB), which bounds memory; and, for views
    of the write-time line, the most by which clocks of writers, nodes and this process differ, a write's way included.
    """

    changes_an_epoch: Annotated[int, msgspec.Meta(ge=1)] = 20_000
    skew_ms: Annotated[int, msgspec.Meta(ge=0)] = 1_000


class SparkSettings(Section, frozen=True):
    """The Spark that drives the epochs: any master; empty: without Spark."""

    master: str = "local[2]"


class HttpSettings(Section, frozen=True):
    """Where `/metrics`, `/healthz`, `/readyz` and the status page are served; port 0 switches it off."""

    host: str = "127.0.0.1"
    port: Port = 9470


class RecordingSettings(Section, frozen=True):
    """Whether runs are recorded for the judge, where, and how much of them is kept: the oldest goes first."""

    enabled: bool = True
    folder: str = "runs"
    keep_mb: Annotated[int, msgspec.Meta(ge=32)] = 1024


class Settings(Section, frozen=True):
    """All of it."""

    cluster: ClusterSettings = ClusterSettings()
    views: ViewSettings = ViewSettings()
    capture: CaptureSettings = CaptureSettings()
    feed: FeedSettings = FeedSettings()
    pipeline: PipelineSettings = PipelineSettings()
    spark: SparkSettings = SparkSettings()
    http: HttpSettings = HttpSettings()
    recording: RecordingSettings = RecordingSettings()


CHOICES = {
    ("cluster", "serial_consistency"): ("SERIAL", "LOCAL_SERIAL"),
    ("capture", "mode"): ("durable", "eager"),
}


def settings_from(text: str, environment: Mapping[str, str], *, where: str) -> Settings:
    """Read settings from a TOML text and the environment, or say what is wrong with the first bad key."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise SpecificationError(f"the settings are not TOML: {fault}", where=where) from fault
    known = _known_keys()
    _refuse_unknown(raw, known, where)
    _lay_over(raw, environment, known)
    _check_choices(raw, where)
    try:
        return msgspec.convert(raw, Settings, strict=False, dec_hook=_secret)
    except msgspec.ValidationError as fault:
        message = str(fault).replace("`$.", "`")
        raise SpecificationError(
            f"a setting has a wrong value: {message}", where=_place(message, environment) or where
        ) from fault


def _place(message: str, environment: Mapping[str, str]) -> str:
    """Return the variable that a wrong value came from; empty: it came from the file."""
    found = re.search(r"`(\w+)\.(\w+)", message)
    variable = f"CVS_{found[1]}_{found[2]}".upper() if found else ""
    return f"{variable} in the environment" if variable in environment else ""


def _known_keys() -> dict[str, tuple[str, ...]]:
    sections = msgspec.structs.fields(Settings)
    return {section.name: tuple(section.type.__struct_fields__) for section in sections}


def _refuse_unknown(raw: Mapping[str, Any], known: Mapping[str, tuple[str, ...]], where: str) -> None:
    for section, keys in raw.items():
        if section not in known:
            raise _unknown(f"section [{section}]", section, tuple(known), where)
        if not isinstance(keys, dict):
            raise SpecificationError(f'"{section}" is a section, not a value', where=where)
        for key in keys:
            if key not in known[section]:
                raise _unknown(f'setting "{key}" in [{section}]', key, known[section], where)


def _unknown(what: str, name: str, known: tuple[str, ...], where: str) -> SpecificationError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"known here: {', '.join(known)}"
    return SpecificationError(f"unknown {what}", where=where, next_step=hint)


def _lay_over(
    raw: dict[str, Any], environment: Mapping[str, str], known: Mapping[str, tuple[str, ...]]
) -> None:
    names = {
        f"CVS_{section}_{key}".upper(): (section, key) for section, keys in known.items() for key in keys
    }
    for name, (section, key) in names.items():
        if name in environment:
            value: Any = environment[name]
            listed = [it for it in map(str.strip, value.split(",")) if it]
            raw.setdefault(section, {})[key] = listed if key == "contact_points" else value
    for name in environment:
        if name not in names and name.startswith(tuple(f"CVS_{section}_".upper() for section in known)):
            raise _unknown(f"setting {name}", name, tuple(names), "the environment")


def _check_choices(raw: Mapping[str, Any], where: str) -> None:
    for (section, key), allowed in CHOICES.items():
        value = raw.get(section, {}).get(key, allowed[0])
        if value not in allowed:
            raise SpecificationError(
                f'"{value}" is not a value of {section}.{key}',
                where=where,
                next_step=f"use {' or '.join(allowed)}",
            )


def _secret(kind: type, value: Any) -> Any:
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)
