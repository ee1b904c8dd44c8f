"""Views as people write them, asked of Spark itself: it reads the texts as they stand, with a parser that is not ours.

DuckDB is asked in words that our own parser made of the text, so what that misreads both do.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, types

from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from cvs.stream.spark import spark_session
from tests.plan.programs_run import ProgramsRun
from tests.plan.test_written_views import CASES, TABLES, Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TYPES = {
    "int": types.IntegerType(), "bigint": types.LongType(), "smallint": types.ShortType(), "text": types.StringType(),
    "decimal": types.DecimalType(12, 2), "double": types.DoubleType(), "date": types.DateType(),
    "boolean": types.BooleanType(), "timestamp": types.TimestampType(),
}  # fmt: skip
NOT_IN_SPARK = {"shop.but_note"}
"""A star without some columns comes with Spark 4."""
VIEW = re.compile(r"CREATE MATERIALIZED VIEW (\S+)(?: TBLPROPERTIES \(.*?\))? AS\s(.*?);", re.DOTALL)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session = spark_session("local[2]", **{"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()


@pytest.mark.parametrize("file", ["shop.sql", "habits.sql"])
def test_views_as_people_write_them_equal_spark(session: SparkSession, file: str) -> None:
    text = CASES.joinpath(file).read_text()
    views, written = parse_views(text, TABLES), dict(VIEW.findall(text))
    base, run = Shop(Random(5), TABLES), ProgramsRun(maintenance_plan(views, TABLES, Choices(buckets=4)))
    for _ in range(4):
        run.epoch(base.epoch(50))
    for name, table in TABLES.items():
        fields = [types.StructField(column, TYPES[kind]) for column, kind in table.columns]
        frame = session.createDataFrame(list(base.rows[name].values()), types.StructType(fields))
        frame.createOrReplaceTempView(name.split(".")[1])
    wrong, refused = [], set()
    for view in views:
        columns = [name for name, _ in view.columns if name != "only"]
        try:
            rows = session.sql(written[view.name]).collect()
        except PySparkException:
            refused.add(view.name)
            continue
        answer = [dict(zip(columns, row, strict=True)) for row in rows]
        wanted = [row for row in answer if base.held(view, row)]
        shown = run.published[view.name].values()
        ours, theirs = (sorted(repr(_plain(row, columns)) for row in rows) for rows in (shown, wanted))
        if ours != theirs:
            wrong.append(f"{view.name}: only here {_more(ours, theirs)}, only there {_more(theirs, ours)}")
    assert not wrong, "\n".join(wrong)
    assert refused == NOT_IN_SPARK.intersection(written)


def _more(some: list[str], others: list[str]) -> list[str]:
    return [row for row in some if row not in others][:3]


def _plain(row: Any, columns: list[str]) -> tuple[Any, ...]:
    return tuple(_value(row[column]) for column in columns)


def _value(value: Any) -> Any:
    """Numbers to five digits, since Spark ends a mean of decimals there; midnights as days."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).isoformat()
        return moment.removesuffix("T00:00:00+00:00")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal | float | int) and not isinstance(value, bool):
        return float(f"{float(value):.5g}") + 0.0
    return value
