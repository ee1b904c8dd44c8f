"""Artifacts: jars by pinned name and digest, fetched once into a cache, checked before they are trusted.

`locks/<set>.lock` holds a line `group:artifact:version[:classifier] sha256` for each jar. Fetching is left to
Apache Ivy, which pyspark's package carries and which knows the public repository, so no Maven is needed and no
address stands here. The second use needs no network.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import quoteattr

from cvs.embedded.java import java
from cvs.errors import MissingEnvironmentError

FETCHERS = 4  # Ivy fetches one file at a time; a few of them side by side hide the latency
FETCH_ATTEMPTS = 3
BATCH_MAX = 8

# Without the poms (our pins need none) Ivy asks for half the files. The repository has no address here: it is
# Ivy's own default. A mirror is a settings file named by CVS_IVY_SETTINGS.
IVY_SETTINGS = """<ivysettings><settings defaultResolver="public"/><resolvers>
  <ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>
"""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One pinned jar."""

    group: str
    name: str
    version: str
    classifier: str
    sha256: str

    @classmethod
    def of(cls, line: str) -> "Artifact":
        """Read one line of a lock."""
        coordinate, sha256 = line.split()
        group, name, version, classifier = [*coordinate.split(":"), ""][:4]
        return cls(group=group, name=name, version=version, classifier=classifier, sha256=sha256)

    @property
    def file_name(self) -> str:
        """Return the jar's name in the cache; the group is in it since names repeat across groups."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.group}.{self.name}-{self.version}{suffix}.jar"


def lock(name: str) -> tuple[Artifact, ...]:
    """Return the pinned jars of a set."""
    text = (files("cvs.embedded") / "locks" / f"{name}.lock").read_text()
    return tuple(Artifact.of(line) for line in text.splitlines() if line)


def cache_folder() -> Path:
    """Return where jars are kept: `CVS_CACHE`, or the user's cache folder."""
    return Path(os.environ.get("CVS_CACHE", Path.home() / ".cache" / "cvs")) / "jars"


def jars(name: str, *, cache: Path | None = None, progress: Progress | None = None) -> list[Path]:
    """Return the paths of a set's jars, fetching and checking those that are not in the cache yet."""
    folder = cache or cache_folder()
    wanted = lock(name)
    paths = [folder / artifact.file_name for artifact in wanted]
    if not all(path.exists() for path in paths):
        with _alone(folder):
            missing = [a for a in wanted if not (folder / a.file_name).exists()]
            _fetch(missing, folder, progress or (lambda _done, _total: None))
    return paths


def class_path(name: str, *, progress: Progress | None = None) -> str:
    """Return a set's jars as a Java class path."""
    return os.pathsep.join(str(path) for path in jars(name, progress=progress))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process fetch at a time; a second one waits, then finds the jars there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / ".lock").open("w")
    except OSError as fault:
        raise MissingEnvironmentError(
            f"the cache of jars cannot be written: {fault.strerror}",
            where=str(folder),
            next_step="set CVS_CACHE to a folder of yours",
        ) from fault
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(missing: list[Artifact], folder: Path, progress: Progress) -> None:
    batches = _batches(missing)
    done = 0
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as scratch,
        ThreadPoolExecutor(FETCHERS) as pool,
    ):
        places = [Path(scratch) / str(number) for number in range(len(batches))]
        fetched = pool.map(_fetch_batch, batches, places, [folder] * len(batches))
        for batch, _ in zip(batches, fetched, strict=True):
            done += len(batch)
            progress(done, len(missing))


def _batches(missing: list[Artifact]) -> list[list[Artifact]]:
    """Split the jars so that the fetchers share them, with all classifiers of a module together."""
    size = max(1, min(BATCH_MAX, -(-len(missing) // FETCHERS)))
    batches: list[list[Artifact]] = []
    for _, module in groupby(missing, key=lambda a: (a.group, a.name, a.version)):
        if not batches or len(batches[-1]) >= size:
            batches.append([])
        batches[-1].extend(module)
    return batches


def _fetch_batch(batch: list[Artifact], scratch: Path, folder: Path) -> None:
    """Fetch a few jars; a failed attempt is repeated, since registries have bad minutes."""
    message = ""
    for attempt in range(FETCH_ATTEMPTS):
        place = scratch / str(attempt)
        place.mkdir(parents=True)
        message = _run_ivy([a for a in batch if not (folder / a.file_name).exists()], place)
        for artifact in batch:
            _keep(artifact, place / artifact.file_name, folder)
        if all((folder / a.file_name).exists() for a in batch):
            return
    absent = next(a for a in batch if not (folder / a.file_name).exists())
    raise MissingEnvironmentError(
        f"a jar could not be fetched: {absent.group}:{absent.name}:{absent.version}",
        where=message.strip().splitlines()[-1] if message.strip() else "no message from the resolver",
        next_step="check the network, name a mirror (CVS_IVY_SETTINGS), or copy another machine's CVS_CACHE",
    )


def _run_ivy(batch: list[Artifact], place: Path) -> str:
    (place / "ivy.xml").write_text(_ivy_module(batch))
    pattern = str(place / "[organisation].[artifact]-[revision](-[classifier]).[ext]")
    own_settings = place / "settings.xml"
    own_settings.write_text(IVY_SETTINGS)
    settings = os.environ.get("CVS_IVY_SETTINGS") or str(own_settings)
    arguments = ["-settings", settings, "-ivy", str(place / "ivy.xml"), "-cache", str(place / "cache")]
    arguments += ["-retrieve", pattern]
    done = subprocess.run(
        [java(), "-Xmx256m", "-jar", str(_ivy_jar()), "-warn", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def damaged(name: str) -> list[Path]:
    """Return the cached jars of a set whose bytes are not the pinned ones (a broken disk, a helpful hand)."""
    present = [
        (cache_folder() / a.file_name, a) for a in lock(name) if (cache_folder() / a.file_name).exists()
    ]
    return [path for path, a in present if hashlib.sha256(path.read_bytes()).hexdigest() != a.sha256]


def _keep(artifact: Artifact, fetched: Path, folder: Path) -> None:
    if not fetched.exists():
        return
    found = hashlib.sha256(fetched.read_bytes()).hexdigest()
    if found != artifact.sha256:
        raise MissingEnvironmentError(
            f"{artifact.file_name} is not the pinned file: digest {found[:12]}…, not {artifact.sha256[:12]}…",
            where="the package registry this machine uses",
            next_step="do not use that registry; the pinned digests stand in cvs/embedded/locks",
        )
    shutil.move(fetched, folder / artifact.file_name)


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingEnvironmentError("pyspark is not installed", next_step="run make, or pip install cvs")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))


def _ivy_module(batch: list[Artifact]) -> str:
    modules = groupby(batch, key=lambda a: (a.group, a.name, a.version))
    dependencies = "".join(_ivy_dependency(module, list(artifacts)) for module, artifacts in modules)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="cvs" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_dependency(module: tuple[str, str, str], artifacts: list[Artifact]) -> str:
    group, name, version = map(quoteattr, module)
    # Naming the artifacts keeps Ivy from fetching sources and documentation too.
    named = "".join(
        f'<artifact name={name} type="jar" ext="jar"'
        + (f" m:classifier={quoteattr(artifact.classifier)}/>" if artifact.classifier else "/>")
        for artifact in artifacts
    )
    return (
        f'<dependency org={group} name={name} rev={version} transitive="false" conf="default->default">'
        f"{named}</dependency>"
    )
