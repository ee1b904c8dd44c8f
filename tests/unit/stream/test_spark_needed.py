"""The end of Spark's own process is the machine's, not a mistake of ours."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from cvs.errors import ExitCode, MissingEnvironmentError
from cvs.stream.spark import needed, worth_tasks


class _Told(Py4JJavaError):
    """What Spark says of a job that failed."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        return "told"


@pytest.mark.parametrize(
    "fault",
    [
        Py4JError("An error occurred while calling o51.isActive"),
        # it was told as a disk's
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_its_end_is_said_with_what_to_do(fault: Exception) -> None:
    with (
        pytest.raises(MissingEnvironmentError, match=r"Spark's process ended: .*(o51|refused)") as ended,
        needed("local[2]"),
    ):
        raise fault
    assert (ended.value.exit_code, ended.value.where) == (ExitCode.ENVIRONMENT, '[spark] master = "local[2]"')


def test_what_it_tells_of_a_job_stays_as_it_is() -> None:
    with pytest.raises(_Told), needed("local[2]"):
        raise _Told


@pytest.mark.parametrize(
    ("master", "cores", "worth"),
    [
        ("local", 1, False),
        ("local[2]", 2, False),
        ("local[*]", 2, False),
        ("local[*]", 8, True),
        ("local-cluster[2,1,1024]", 2, True),
        ("spark://here:7077", 2, True),
    ],
)
def test_tasks_are_used_where_they_have_cores_of_their_own(master: str, cores: int, worth: bool) -> None:
    context = SimpleNamespace(master=master, defaultParallelism=cores)
    session: Any = SimpleNamespace(sparkContext=context)
    assert worth_tasks(session) is worth
