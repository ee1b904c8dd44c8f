"""The end of Spark's own process is the machine's, not a mistake of ours."""

import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from cvs.errors import ExitCode, MissingEnvironmentError
from cvs.stream.spark import needed


class _Told(Py4JJavaError):
    """What Spark says of a job that failed."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        return "told"


def test_its_end_is_said_with_what_to_do() -> None:
    with (
        pytest.raises(MissingEnvironmentError, match=r"Spark's process ended: .* o51") as ended,
        needed("local[2]"),
    ):
        raise Py4JError("An error occurred while calling o51.isActive")
    assert (ended.value.exit_code, ended.value.where) == (ExitCode.ENVIRONMENT, '[spark] master = "local[2]"')


def test_what_it_tells_of_a_job_stays_as_it_is() -> None:
    with pytest.raises(_Told), needed("local[2]"):
        raise _Told
