"""Jars are pinned; a file that is not the pinned one is refused."""

import hashlib
from pathlib import Path

import pytest

from cvs.embedded import artifacts
from cvs.embedded.artifacts import Artifact, jars, lock
from cvs.errors import MissingEnvironmentError

ONE = Artifact(group="g", name="a", version="1", classifier="", sha256=hashlib.sha256(b"jar").hexdigest())


def test_every_lock_line_is_a_pinned_jar() -> None:
    """Each jar of the Cassandra set has a whole digest and a name of its own."""
    pinned = lock("cassandra")
    assert len({a.file_name for a in pinned}) == len(pinned) > 90
    assert {len(a.sha256) for a in pinned} == {64}


def test_a_file_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a registry hands over is checked before it reaches the cache."""
    monkeypatch.setattr(artifacts, "lock", lambda _name: (ONE,))
    monkeypatch.setattr(
        artifacts, "_run_ivy", lambda batch, place: str((place / batch[0].file_name).write_bytes(b"evil"))
    )
    with pytest.raises(MissingEnvironmentError, match="is not the pinned file"):
        jars("any", cache=tmp_path)
    assert not (tmp_path / ONE.file_name).exists()


def test_a_jar_that_cannot_be_fetched_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last attempt the message names the jar and what to do."""
    monkeypatch.setattr(artifacts, "lock", lambda _name: (ONE,))
    monkeypatch.setattr(artifacts, "_run_ivy", lambda _batch, _place: "no network")
    with pytest.raises(MissingEnvironmentError, match="could not be fetched: g:a:1"):
        jars("any", cache=tmp_path)


def test_what_is_in_the_cache_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start works with no network: nobody is asked for a jar that is there."""
    monkeypatch.setattr(artifacts, "lock", lambda _name: (ONE,))
    asked: list[str] = []

    def fetched(batch: list[Artifact], place: Path) -> str:
        asked.extend(artifact.name for artifact in batch)
        return str((place / batch[0].file_name).write_bytes(b"jar"))

    monkeypatch.setattr(artifacts, "_run_ivy", fetched)
    for _ in range(2):
        assert jars("any", cache=tmp_path) == [tmp_path / ONE.file_name]
    assert asked == ["a"]
