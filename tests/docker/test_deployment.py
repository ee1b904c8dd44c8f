"""The deployment files fit each other and the code; no engine runs here, so they are read, not run."""

import configparser
import json
import re
import subprocess
from pathlib import Path

import click
import msgspec
import pytest
import yaml

from cvs.cli import group
from cvs.errors import ExitCode
from cvs.sidecar.metrics import METRICS
from cvs.sidecar.settings import Settings, settings_from
from tests.house.tidy import ROOT

DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]  # because systemd knows the case of its words
    found.read(path)
    return found


UNITS = {path.name: unit(path) for path in DOCKER.glob("*.service")}


def mounts(service: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [tuple(volume.split(":")[:2]) for volume in service.get("volumes", [])]


@pytest.mark.parametrize("name", SERVICES)
def test_every_mounted_file_exists(name: str) -> None:
    """A bind mount names a file of this folder, a named volume is declared."""
    for source, _target in mounts(SERVICES[name]):
        if source.startswith("."):
            assert (DOCKER / source).is_file(), source
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_dependency_is_a_service_with_a_health_check(name: str) -> None:
    """Whoever waits for health waits for a service that has it."""
    for other, condition in SERVICES[name].get("depends_on", {}).items():
        assert condition == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[other], other


def test_each_node_has_a_capture_beside_it() -> None:
    """Every Cassandra node's commit log is read by one capture that mounts the same volume."""
    for number in (1, 2, 3):
        node = dict(mounts(SERVICES[f"cassandra{number}"]))
        assert dict(mounts(SERVICES[f"capture{number}"]))[f"data{number}"] == node[f"data{number}"]


def test_images_are_pinned() -> None:
    """No service runs whatever is newest today; our own image is built."""
    for name, service in SERVICES.items():
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name


def test_the_settings_file_is_read_by_the_real_reader() -> None:
    """docker/cvs.toml has no key that the sidecar does not know."""
    settings = settings_from((DOCKER / "cvs.toml").read_text(), {}, where="docker/cvs.toml")
    assert settings.feed.name == "/var/lib/cvs/feed"
    assert str(settings.http.port) in SERVICES["sidecar"]["ports"][0]


def test_environment_names_are_settings() -> None:
    """A variable of the compose file that begins with CVS_ changes a setting that exists."""
    for service in SERVICES.values():
        environment = {k: str(v) for k, v in service.get("environment", {}).items() if k.startswith("CVS_")}
        for name, value in environment.items():
            assert settings_from("", {name: value}, where="compose") != settings_from(
                "", {}, where="compose"
            ), name


def test_commands_of_the_images_exist() -> None:
    """What the containers and the units run are commands of cvs, with options that they have."""
    image = json.loads(
        re.findall(r"^CMD (\[.*\])$", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)[-1]
    )
    assert len(UNITS) == 2
    lines = [
        *(unit["Service"]["ExecStart"].split()[1:] for unit in UNITS.values()),
        image,
        *(s["command"] for n, s in SERVICES.items() if n.startswith("capture")),
    ]
    for name, *arguments in lines:
        command = group.get_command(click.Context(group), name)
        assert command is not None, name
        assert command.make_context(name, list(arguments)).params


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_ends_cvs_alone_and_finds_its_folders(name: str) -> None:
    """SIGTERM to the Spark beside it would break the epoch that is to be finished; folders are made, not assumed."""
    service = UNITS[name]["Service"]
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    assert "run" not in service["ExecStart"].split() or service["KillMode"] == "mixed"
    assert service["RestartPreventExitStatus"] == str(int(ExitCode.USAGE))
    text = (DOCKER / "cvs.toml").read_text()
    assert service["ExecStart"].split("--settings ")[1].split()[0] == "/etc/cvs/cvs.toml"
    assert settings_from(text, {}, where="").feed.name.startswith(service["WorkingDirectory"])


def test_only_what_serves_a_status_page_is_asked_for_one() -> None:
    """The image's own health check would call each capture unhealthy, and `up --wait` would fail."""
    assert "9470/healthz" in (DOCKER / "Dockerfile").read_text()
    for name, service in SERVICES.items():
        if service["image"] == "cvs-sidecar":
            assert (service.get("healthcheck") == {"disable": True}) == name.startswith("capture"), name


def test_every_metric_that_may_alarm_has_a_rule() -> None:
    """The rules that Prometheus loads are about metrics that exist, and about all of them."""
    assert yaml.safe_load((DOCKER / "prometheus.yml").read_text())["rule_files"] == ["alarms.yml"]
    (group_of_rules,) = yaml.safe_load((DOCKER / "alarms.yml").read_text())["groups"]
    used = {name for rule in group_of_rules["rules"] for name in re.findall(r"cvs_[a-z_]+", rule["expr"])}
    assert used == {m.name for m in METRICS}


def test_every_copied_path_exists() -> None:
    """The Dockerfile copies files that the repository has."""
    for line in re.findall(r"^COPY (?!--)(.+)$", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE):
        *sources, _target = line.split()
        assert [s for s in sources if not (ROOT / s).exists()] == []
        kept = (DOCKER / "Dockerfile.dockerignore").read_text().split()
        assert [s for s in sources if f"!{s.removeprefix('./')}" not in kept] == [], "left out of the build"


def test_the_dashboard_draws_metrics_that_exist() -> None:
    """Every metric of the dashboard is in the table, and every metric is drawn."""
    text = (DOCKER / "grafana" / "dashboard.json").read_text()
    drawn = set(
        re.findall(r"cvs_[a-z_]+", " ".join(p["targets"][0]["expr"] for p in json.loads(text)["panels"]))
    )
    assert drawn == {m.name for m in METRICS}


def test_the_documentation_has_every_metric_with_its_alarm() -> None:
    """The table of metrics in docker/OPERATE.md is the table in the code."""
    page = (DOCKER / "OPERATE.md").read_text()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.meaning} | {metric.alarm} |" in page


PAGES = {page.name: page.read_text() for page in DOCKER.glob("*.md")}


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_pages_exist(page: str) -> None:
    """Every command line of a page is taken by the command it names, every command in its text exists."""
    for line in re.findall(r"^ {4}(?:\S.* exec sidecar )?cvs ([^>#\n]+)", PAGES[page], flags=re.MULTILINE):
        name, *arguments = line.split()
        command = group.get_command(click.Context(group), name)
        assert command is not None, line
        assert command.make_context(name, list(arguments)).params
    named = set(re.findall(r"`cvs ([a-z]+)", PAGES[page]))
    for option in re.findall(r"`cvs ([a-z]+ --[a-z-]+)", PAGES[page]):
        name, flag = option.split()
        found = group.get_command(click.Context(group), name)
        assert found is not None
        assert any(flag in it.opts for it in found.params), option
    assert named - set(group.list_commands(click.Context(group))) == set()


def test_a_command_that_does_not_exist_would_be_noticed() -> None:
    """Options that no command has are refused by the same door."""
    command = group.get_command(click.Context(group), "pause")
    assert command is not None
    with pytest.raises(click.UsageError):
        command.make_context("pause", ["--everything"])


def test_links_between_the_pages_lead_somewhere() -> None:
    """Every relative link names a file."""
    for page in PAGES.values():
        assert [t for t in re.findall(r"\]\(([^)#:]+)\)", page) if not (DOCKER / t).exists()] == []


def test_shell_scripts_parse() -> None:
    """bash accepts each script."""
    for script in DOCKER.glob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)


def test_yaml_files_parse() -> None:
    """Every YAML file of the folder is YAML."""
    files = [*DOCKER.glob("*.y*ml"), *(DOCKER / "grafana").glob("*.yaml")]
    assert all(yaml.safe_load(Path(f).read_text()) for f in files)


def test_every_setting_is_documented_with_its_default() -> None:
    """Two keys stood in no document, and the defaults of most in none."""
    rows = re.findall(
        r"^\| `(\w+)\.(\w+)` \| (\S+) \|", (DOCKER / "OPERATE.md").read_text(), flags=re.MULTILINE
    )
    defaults = msgspec.to_builtins(Settings(), enc_hook=str)
    known = {(section, key): value for section, keys in defaults.items() for key, value in keys.items()}
    told = {(section, key): text.strip("`") for section, key, text in rows}
    assert told == {name: "none" if value is None else json.dumps(value) for name, value in known.items()}
