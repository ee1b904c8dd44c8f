"""Settings come from one file and the environment; what is wrong is said, secrets are not."""

from pathlib import Path

import pytest

from cvs.cli.options import read_settings
from cvs.errors import SpecificationError
from cvs.sidecar.settings import Secret, Settings, settings_from


def read(text: str, **environment: str) -> Settings:
    return settings_from(text, environment, where="cvs.toml")


def test_an_empty_file_is_the_defaults() -> None:
    """Everything has a default that works on one machine."""
    assert read("") == Settings()


def test_the_environment_lies_over_the_file() -> None:
    """A variable named after section and key wins, with the key's type."""
    settings = read("[cluster]\nport = 1\n", CVS_CLUSTER_PORT="9999", CVS_CLUSTER_CONTACT_POINTS="a, b,")
    assert (settings.cluster.port, settings.cluster.contact_points) == (9999, ("a", "b"))


def test_secrets_do_not_print_themselves() -> None:
    """A password is in neither the repr nor the str of anything that holds it."""
    settings = read('[cluster]\nusername = "u"\n', CVS_CLUSTER_PASSWORD="hunter2")
    assert settings.cluster.password == Secret("hunter2")
    assert "hunter2" not in repr(settings) + str(settings.cluster.password)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[cluster]\nprot = 1", 'unknown setting "prot" in [cluster] (cvs.toml); did you mean "port"?'),
        ("[clutser]", 'unknown section [clutser] (cvs.toml); did you mean "cluster"?'),
        ("cluster = 1", '"cluster" is a section, not a value'),
        (
            "[cluster]\nport = 70000",
            "Expected `int` <= 65535 - at `cluster.port`",
        ),
        ('[cluster]\nserial_consistency = "ONE"', "use SERIAL or LOCAL_SERIAL"),
        ("[cluster", "the settings are not TOML"),
        (
            '[views]\nstate_keyspace = "my ks"',
            "matching regex '^[A-Za-z0-9_]{1,48}$' - at `views.state_keyspace`",
        ),
        ('[views]\npublished_keyspace = ""', "at `views.published_keyspace`"),
        ('[http]\nport = "x"', "Expected `int`, got `str` - at `http.port` (cvs.toml)"),
        ("[cluster]\npassword = 12345", "Expected `str`, got `int` - at `cluster.password`"),
        ("[cluster]\nkey_file = ['a.pem']", "Expected `str`, got `list` - at `cluster.key_file`"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    """A bad key or value gets one message with the place and the nearest thing that works."""
    with pytest.raises(SpecificationError) as refusal:
        read(text)
    assert says in str(refusal.value)


def test_a_wrong_value_of_the_environment_names_its_variable() -> None:
    """ "the environment, or the environment over it" was named."""
    with pytest.raises(SpecificationError) as refusal:
        read("", CVS_HTTP_PORT="")
    assert refusal.value.where == "CVS_HTTP_PORT in the environment"


def test_an_unknown_name_in_the_environment_is_refused() -> None:
    """A misspelt setting that is passed over would be found out in production."""
    with pytest.raises(SpecificationError, match="CVS_CLUSTER_PRT") as refusal:
        read("", CVS_CLUSTER_PRT="1")
    assert "CVS_CLUSTER_PORT" in refusal.value.next_step
    assert read("", CVS_CACHE="/tmp/x", CVS="1").cluster.port == 9042


def test_files_of_windows_are_read(tmp_path: Path) -> None:
    """A mark at the beginning is none of the text, and other encodings are named."""
    file = tmp_path / "cvs.toml"
    file.write_bytes(b"\xef\xbb\xbf[http]\r\nport = 9471\r\n")
    assert read_settings(str(file)).http.port == 9471
    file.write_text("[http]\nport = 9471\n", encoding="utf-16")
    with pytest.raises(SpecificationError, match="not UTF-8") as refusal:
        read_settings(str(file))
    assert refusal.value.next_step == "save it as UTF-8"
