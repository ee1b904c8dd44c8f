"""What the language of views takes, and how it refuses the rest: place, reason, the nearest thing that works."""

from dataclasses import replace
from decimal import Decimal

import pytest

from cvs.errors import SpecificationError
from cvs.model.expressions import Call, Column, Literal
from cvs.model.recompute import recompute
from cvs.model.views import Aggregate, BaseTable, Join, Project, Select
from cvs.plan.relations import scans
from cvs.plan.sql import parse_views

ORDERS = BaseTable(
    name="shop.orders",
    columns=(
        ("customer", "int"), ("id", "int"), ("region", "text"), ("total", "decimal"), ("day", "date"),
        ("tags", "list<text>"),
    ),
    partition_key=("customer",),
    clustering_key=("id",),
)  # fmt: skip
CUSTOMERS = BaseTable(
    name="shop.customers",
    columns=(("id", "int"), ("name", "text"), ("vip", "boolean")),
    partition_key=("id",),
)
TABLES = [ORDERS, CUSTOMERS]


def one(query: str, head: str = "CREATE MATERIALIZED VIEW v AS "):
    (view,) = parse_views(head + query, TABLES)
    return view


def test_a_selection_is_a_project_over_a_select() -> None:
    view = one("SELECT customer, id FROM orders WHERE total > 10")
    project = view.definition.relation
    assert isinstance(project, Project)
    assert isinstance(project.source, Select)
    assert project.source.predicate == Call(">", (Column("orders.total"), Literal(10)))
    assert (view.name, view.key.columns) == ("shop.v", ("customer", "id"))


def test_columns_that_differ_in_case_only_cannot_be_told_apart() -> None:
    """Cassandra keeps both; no way to write one of them would help, so none is named."""
    table = BaseTable(name="s.t", columns=(("id", "int"), ("a", "int"), ("A", "int")), partition_key=("id",))
    with pytest.raises(SpecificationError, match="`A` is ambiguous") as refusal:
        parse_views("CREATE MATERIALIZED VIEW s.v AS SELECT id, t.`A` FROM t", [table], keyspace="s")
    assert refusal.value.next_step == "write one of them into a column of another name: SQL does not see case"


def test_options_are_read() -> None:
    head = """CREATE OR REPLACE MATERIALIZED VIEW shop.v TBLPROPERTIES ('cvs.level' = 'weak',
              'cvs.key' = '(id, customer), day DESC', 'cvs.freshness' = '500 ms', 'cvs.buckets' = '8') AS """
    view = one("SELECT * FROM orders WHERE day IS NOT NULL", head)
    assert (view.options.level, view.options.freshness_s, view.options.buckets) == ("weak", 0.5, 8)
    assert (view.key.partition, view.key.clustering) == (("id", "customer"), (("day", True),))
    assert view.replace


def test_a_join_on_the_whole_key_keeps_the_other_sides_key() -> None:
    view = one("SELECT o.customer, o.id, name FROM orders o LEFT JOIN customers c ON o.customer = c.id")
    assert view.key.columns == ("customer", "id")
    assert isinstance(view.definition.relation.source, Join)


def test_group_by_what_a_key_determines_is_keyed_by_the_key_alone() -> None:
    view = one(
        "SELECT c.id, name, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.id, name"
    )
    assert view.key.columns == ("id",)
    assert view.warnings == ()


def test_what_a_left_join_does_not_find_is_keyed_by_its_left_side() -> None:
    """The habit of writing an anti-join: where a joined column is null, nothing was joined."""
    without = "SELECT c.id, c.name FROM customers c LEFT JOIN orders o ON o.customer = c.id"
    assert one(f"{without} WHERE o.customer IS NULL").key.columns == ("id",)
    assert one(f"{without} AND o.total > 5 WHERE o.id IS NULL AND c.name <> 'x'").key.columns == ("id",)
    for query in (without, f"{without} WHERE o.total IS NULL", f"{without} WHERE o.id IS NULL OR c.id = 1"):
        with pytest.raises(SpecificationError, match="surely unique") as refusal:
            one(query)
        assert refusal.value.next_step.startswith("GROUP BY what tells rows apart")


def test_the_joined_columns_of_a_full_join_are_its_key_together() -> None:
    small = "(SELECT customer, COUNT(*) AS n FROM orders WHERE total > 5 GROUP BY customer)"
    by_region = "(SELECT region AS customer, COUNT(*) AS n FROM orders{} GROUP BY region)"
    full = (
        "SELECT COALESCE({}) AS customer, a.n, b.n AS m FROM {} a FULL JOIN {} b ON a.customer = b.customer"
    )
    for names in ("a.customer, b.customer", "b.customer, a.customer"):
        view = one(full.format(names, small, small.replace(">", "<")))
        assert (view.key.columns, view.warnings) == (("customer",), ())
    known = by_region.format(" WHERE region IS NOT NULL")
    assert one(full.format("a.customer, b.customer", known, known)).key.columns == ("customer",)
    for query in (  # a null of each side; what is no COALESCE of both
        full.format("a.customer, b.customer", by_region.format(""), known),
        full.format("a.customer, 0", small, small),
    ):
        with pytest.raises(SpecificationError, match="surely unique"):
            one(query)


def test_a_nullable_key_leaves_rows_out_and_says_so() -> None:
    view = one("SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    assert isinstance(view.definition.relation, Select)
    assert "region is null" in view.warnings[0]
    assert "region is empty" in view.warnings[1]


def test_a_star_is_written_out_without_what_it_excepts() -> None:
    view = one(
        "SELECT c.* EXCEPT (id), o.* EXCEPT (tags) FROM orders o JOIN customers c ON o.customer = c.id"
    )
    names = [name for name, _ in view.columns]
    assert names == ["name", "vip", "customer", "id", "region", "total", "day"]
    assert "*" not in view.statement
    assert parse_views(view.statement, TABLES)[0].definition == view.definition
    with pytest.raises(SpecificationError, match="no column `nothing`"):
        one("SELECT * EXCEPT (nothing) FROM customers")
    with pytest.raises(SpecificationError, match="`REPLACE`"):
        one("SELECT * REPLACE (1 AS name) FROM customers")


def test_an_empty_text_is_no_partition_key() -> None:
    """Found by random views: Cassandra has no such row, so the table lacked what the definition had."""
    view = one("SELECT COALESCE(region, '') AS r, COUNT(*) AS n FROM orders GROUP BY COALESCE(region, '')")
    assert isinstance(view.definition.relation, Select)
    assert view.definition.relation.predicate == Call("<>", (Column("r"), Literal("")))
    assert "r is empty" in view.warnings[0]
    named = BaseTable(name="shop.named", columns=(("name", "text"), ("n", "int")), partition_key=("name",))
    query = "CREATE MATERIALIZED VIEW v AS SELECT n.name, COUNT(*) AS n FROM {} GROUP BY n.name"
    (own,) = parse_views(query.format("named n"), [named, CUSTOMERS])
    assert own.warnings == (), "a partition key of a base table is never empty"
    other = BaseTable(name="shop.other", columns=(("id", "int"), ("name", "text")), partition_key=("id",))
    (its,) = parse_views(query.format("other n"), [other, CUSTOMERS])
    assert len(its.warnings) == 2


def test_one_row_gets_a_key_column() -> None:
    view = one("SELECT COUNT(*) AS n FROM orders")
    assert view.columns == (("n", "bigint"), ("only", "boolean"))
    assert view.key.columns == ("only",)


def test_views_on_views_and_drop() -> None:
    text = """CREATE MATERIALIZED VIEW a AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region;
              CREATE MATERIALIZED VIEW b AS SELECT n, COUNT(*) AS regions FROM a GROUP BY n;
              CREATE MATERIALIZED VIEW c AS SELECT id FROM customers; DROP MATERIALIZED VIEW c"""
    assert [view.name for view in parse_views(text, TABLES)] == ["shop.a", "shop.b"]


def test_a_bare_name_means_the_table_of_the_views_keyspace_and_is_written_out() -> None:
    tables = [replace(ORDERS, name=f"{space}.orders") for space in ("archive", "shop", "test")]
    text = "CREATE MATERIALIZED VIEW {}v AS SELECT customer, id FROM orders"
    (by_name,) = parse_views(text.format("shop."), tables)
    (by_option,) = parse_views(text.format(""), tables, keyspace="shop")
    (elsewhere,) = parse_views(text.format("seen."), tables, keyspace="shop")
    assert {scan.table for v in (by_name, by_option, elsewhere) for scan in scans(v.definition.relation)} == {
        "shop.orders"
    }
    assert parse_views(elsewhere.statement, tables)[0].definition == elsewhere.definition
    with pytest.raises(SpecificationError, match="`orders` is ambiguous"):
        parse_views(text.format("seen."), tables)


def test_constants_are_folded_and_take_the_type_they_meet() -> None:
    view = one(
        "SELECT customer, id FROM orders WHERE day < DATE '2026-01-31' + INTERVAL '1' MONTH AND total > 1 + 1"
    )
    predicate = view.definition.relation.source.predicate
    assert str(predicate.arguments[0].arguments[1].value) == "2026-02-28"
    assert predicate.arguments[1].arguments[1] == Literal(2)


def test_aggregates_are_kept_once() -> None:
    view = one(
        "SELECT region, SUM(total) AS a, SUM(total) + 1 AS b FROM orders GROUP BY region HAVING SUM(total) > 5"
    )
    found = view.definition.relation
    while not isinstance(found, Aggregate):
        found = found.source
    assert len(found.aggregates) == 1


REFUSALS = [
    ("SELECT customer FROM orders", "surely unique", "add orders.id"),
    ("SELECT region, total FROM orders GROUP BY region", "`total` is neither", "GROUP BY total"),
    ("SELECT id, customer, RAND() AS r FROM orders", "volatile", "column of the base table"),
    ("SELECT id, customer, CURRENT_TIMESTAMP() AS r FROM orders", "volatile", "column of the base table"),
    ("SELECT id, customer, ROW_NUMBER() OVER (ORDER BY day) AS r FROM orders", "window", "ORDER BY with LIMIT"),
    ("SELECT id, customer FROM orders LIMIT 5", "LIMIT without ORDER BY", "ORDER BY"),
    ("SELECT id, customer FROM orders WHERE region = 5", "text cannot be compared with int", "cast"),
    ("SELECT id, customer FROM orders WHERE total", "not a condition", "compare"),
    ("SELECT id, customer FROM orders WHERE nothing = 1", "no column `nothing`", "columns here"),
    ("SELECT id FROM nowhere", "no table or view `nowhere`", "shop.customers"),
    ("SELECT o.id, customer FROM orders o, customers c", "product", "ON a = b"),
    ("SELECT o.id, customer FROM orders o JOIN customers c ON o.total > c.id", "product", "ON a = b"),
    ("SELECT id FROM orders o JOIN customers c ON o.customer = c.id", "`id` is ambiguous", "o.id or c.id"),
    ("SELECT id, customer, 1 + 1 FROM orders", "has no name", "AS name"),
    ("SELECT id, customer, id AS customer FROM orders", "two columns are called", "AS"),
    ("SELECT SUM(region) AS s FROM orders", "SUM of text", "cast"),
    ("SELECT region, COUNT(*) AS n FROM orders GROUP BY ROLLUP (region)", "several views", "UNION ALL"),
    ("SELECT id, customer FROM orders TABLESAMPLE (5 PERCENT)", "not in the language", ""),
    ("SELECT id, customer FROM orders WHERE id = (SELECT id FROM customers)", "several rows", "MAX"),
    ("SELECT id, customer FROM orders WHERE id BETWEEN SYMMETRIC 5 AND 1", "SYMMETRIC", "BETWEEN LEAST(a, b)"),
    ("SELECT tags, COUNT(*) AS n FROM orders GROUP BY tags", "cannot be part of a key", "group by something"),
    ("SELECT MAX(tags) AS n FROM orders", "no order", "COUNT"),
    ("WITH RECURSIVE r AS (SELECT id FROM customers) SELECT id FROM r", "RECURSIVE", "fixed depth"),
    ("SELECT id FROM customers UNION SELECT id, name FROM customers", "1 and 2 columns", "same columns"),
    ("SELECT id FROM customers UNION ALL SELECT customer FROM orders", "surely unique", "DISTINCT"),
    ("SELECT id FROM customers WHERE FOO(id) = 1", "not in the language", "it knows"),
    ("SELECT COUNT(DISTINCT id, name) AS n FROM customers", "several columns", "DISTINCT"),
    ("SELECT id FROM custmers", "no table or view `custmers`", "did you mean `shop.customers`?"),
    ("SELECT id, customer FROM orders WHERE regoin = 'a'", "no column `regoin`", "did you mean `region`?"),
    ("SELECT id, customer, NOW() AS n FROM orders", "volatile", "column of the base table"),
    ("SELECT id, name FROM customers WHERE name ILIKE 'a%'", "not in the language", "LOWER"),
    ("SELECT id, name FROM customers WHERE name RLIKE 'a'", "not in the language", "LIKE"),
    ("SELECT id, DATE_FORMAT(day, 'MM') AS d, customer FROM orders", "not in the language", "DATE_TRUNC"),
    ("SELECT id, customer, tags FROM orders ORDER BY tags, id, customer LIMIT 2", "no order", "something else"),
    ("SELECT id, customer, tags FROM orders ORDER BY 3 LIMIT 2", "no order", "something else"),
    ("SELECT id, customer, GREATEST(tags, tags) AS t FROM orders", "no order", "CASE"),
    ("SELECT id, customer, day - DATE '2020-01-01' AS d FROM orders", "makes no sense", "DATEDIFF"),
    ("SELECT id, customer, DATE_TRUNC('day', total) AS h FROM orders", "not a date", "column of its own"),
    ("SELECT id, customer, DATE_TRUNC('day', region) AS h FROM orders", "not a date", "CAST(x AS date)"),
    ("SELECT id, customer, HOUR(day) AS h FROM orders", "no such part of date", "HOUR"),
    ("SELECT id, customer, DATE_TRUNC('fortnight', day) AS h FROM orders", "no such unit", "quarter"),
    ("SELECT UPPER(region) AS region, COUNT(*) AS n FROM orders GROUP BY region", "surely unique", "add region to"),
    ("SELECT region, COLLECT_LIST(id) AS n FROM orders GROUP BY region", "needs all rows", "ORDER BY with LIMIT"),
    ("SELECT region, MEDIAN(id) AS n FROM orders GROUP BY region", "needs all rows", "STDDEV"),
    ("SELECT id, name FROM customers WHERE name = NULL", "never true", "IS NULL"),
    ("SELECT id, (SELECT total FROM orders o WHERE o.customer = c.id) AS x FROM customers c", "several rows", "MAX"),
    ("SELECT 'region', COUNT(*) AS n FROM orders GROUP BY region", "has no name", "quotes make a text"),
    ("SELECT id name FROM customers WHERE", "WHERE is not finished", "language of views"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "reason", "nearest"), REFUSALS)
def test_the_rest_is_refused(query: str, reason: str, nearest: str) -> None:
    with pytest.raises(SpecificationError) as refusal:
        one(query)
    assert reason.lower() in refusal.value.what.lower()
    assert nearest.lower() in refusal.value.next_step.lower()
    assert refusal.value.where.startswith("line 1:")


INSTEAD = [
    ("SELECT region, COUNT_IF(NOT total > 1) = 0 AS b FROM orders GROUP BY region", "BOOL_AND(total > 1)"),
    ("SELECT region, COUNT_IF(total > 1) > 0 AS b FROM orders GROUP BY region", "BOOL_OR(total > 1)"),
    ("SELECT region, VARIANCE(id) * (COUNT(id) - 1) / COUNT(id) AS v FROM orders GROUP BY region", "VAR_POP(id)"),
    ("SELECT region, COUNT(DISTINCT id) AS n FROM orders GROUP BY region", "APPROX_COUNT_DISTINCT(id)"),
    ("SELECT region, SUM(total) FILTER (WHERE id = 1) AS a FROM orders GROUP BY region", "FIRST(total)"),
    ("SELECT id, customer, CAST(id / 2 AS BIGINT) AS d FROM orders", "id DIV 2"),
    ("SELECT id, customer, region LIKE '10\\\\%' AS d FROM orders", "region LIKE '10!%' ESCAPE '!'"),
    ("SELECT id, customer, REPLACE(region, 'x', '') AS d FROM orders", "TRIM('x' FROM region)"),
    ("SELECT id, customer, DATE_TRUNC('month', day) AS d FROM orders", "TRUNC(day, 'MM')"),
    ("SELECT id, customer FROM orders WHERE total > (SELECT MAX(id) FROM customers)", "ALL (SELECT id FROM customers)"),
    ("SELECT id, customer, GREATEST(id, customer) AS d, LEAST(id, 3) AS e FROM orders", "SQRT(id)"),
    ("SELECT id, customer FROM orders WHERE region IS DISTINCT FROM 'a'", "MD5(region)"),
]  # fmt: skip


@pytest.mark.parametrize(("works", "refused_expression"), INSTEAD)
def test_what_a_refusal_names_instead_works(works: str, refused_expression: str) -> None:
    one(works)
    grouped = " GROUP BY region" in works
    head = "region" if grouped else "id, customer"
    inside = refused_expression.startswith("ALL")
    wrong = f"SELECT {head} FROM orders WHERE total > {refused_expression}"
    if not inside:
        tail = " GROUP BY region" if grouped else ""
        wrong = f"SELECT {head}, {refused_expression} AS x FROM orders{tail}"
    with pytest.raises(SpecificationError) as refusal:
        one(wrong)
    assert refusal.value.where.startswith("line 1:")
    assert refusal.value.next_step


CLAUSES = [
    ("SELECT o.id, customer FROM orders o NATURAL JOIN customers", "`NATURAL JOIN`", "USING"),
    ("SELECT id, customer FROM orders SORT BY id", "`SORT BY`", "cvs.key"),
    ("SELECT id, customer FROM orders QUALIFY ROW_NUMBER() OVER (ORDER BY id) = 1", "`QUALIFY`", "GROUP BY"),
    ("SELECT id, customer FROM orders ALLOW FILTERING", "ALLOW FILTERING is CQL", "any column"),
    ("SELECT id, customer FROM orders WHERE tags CONTAINS 'a'", "CONTAINS is CQL", "whole column"),
    ("SELECT JSON * FROM orders", "SELECT JSON", "select the columns"),
    ("SELECT id, customer, tags.first AS t FROM orders", "one value here", "`tags` as a whole"),
    ("SELECT id, customer FROM orders WHERE id = ?", "not in the language", "no parameters"),
    ("SELECT id, customer, WRITETIME(total) AS t FROM orders", "not in the language", "one write"),
    ("SELECT id, customer, day + 1 AS d FROM orders", "makes no sense", "INTERVAL"),
    ("SELECT id, customer FROM orders WHERE id IS NOT NULL PRIMARY KEY (id)", "PRIMARY KEY after", "cvs.key"),
    ("SELECT id, customer, UPER(region) AS r FROM orders", "not in the language", "did you mean `upper`?"),
    ("SELECT id, customer, CAST(region AS money) AS r FROM orders", "a type that is none", "DECIMAL"),
    ("SELECT id, customer FROM orders WHERE id >", "> is not finished", "what stands after >"),
    ("SELECT id, customer FROM orders WHERE day BETWEEN 1 AND 2", "cannot be compared", "'2026-01-31'"),
    ("SELECT id, customer FROM orders WHERE region > 5", "cannot be compared", "CAST(... AS INT)"),
    ("SELECT id, customer FROM orders AS o (a, b)", "other names", "id AS a"),
    ("SELECT * FROM orders o JOIN customers c ON o.customer = c.id", "two columns are called `id`", "EXCEPT (id)"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "reason", "instead"), CLAUSES)
def test_what_people_know_from_elsewhere_is_refused_in_their_words(
    query: str, reason: str, instead: str
) -> None:
    with pytest.raises(SpecificationError) as refusal:
        one(query)
    assert reason in refusal.value.what
    assert instead in refusal.value.next_step
    assert refusal.value.where.startswith("line 1:")


@pytest.mark.parametrize("table", ["id int PRIMARY KEY", "id int, PRIMARY KEY ((id), day)", "id int"])
def test_a_table_among_views_is_told_where_tables_belong(table: str) -> None:
    """Of one file for `cvs suite`; it was told about keys of views."""
    text = f"CREATE TABLE shop.t ({table});\nCREATE MATERIALIZED VIEW a AS SELECT id, name FROM customers"
    with pytest.raises(SpecificationError, match="CREATE TABLE") as refusal:
        parse_views(text, TABLES)
    assert "--schema" in refusal.value.next_step


def test_a_misspelt_word_of_a_later_statement_is_found() -> None:
    text = "CREATE MATERIALIZED VIEW a AS SELECT id, name FROM customers;\nDRP MATERIALIZED VIEW a"
    with pytest.raises(SpecificationError, match="`DRP`") as refusal:
        parse_views(text, TABLES)
    assert (refusal.value.where, refusal.value.next_step) == ("line 2:1", "did you mean DROP?")


HEAD = "CREATE MATERIALIZED VIEW b AS"
FIRST = "CREATE MATERIALIZED VIEW a AS SELECT id, name FROM customers"
PLACES = [
    (f"{FIRST};\n\n{HEAD}\nSELECT id, name\nFORM customers", "from `customers` on", "line 5:6", "FROM instead of"),
    (f"{FIRST}\n{HEAD} SELECT id FROM customers", "`CREATE`", "line 2:1", "with `;`"),
    (f"{FIRST};\nCREATE MATERIALIZED VEIW b AS SELECT id FROM customers", "`VEIW`", "line 2:21", "VIEW"),
    (f"{FIRST};\n{FIRST} WHERE name ~ 'x'", "`~`", "line 2:73", "LIKE"),
    (f"{FIRST};\n{FIRST} WHERE name = 'x", "' is opened", "line 2:75", "close it"),
    (f"{FIRST};\n{HEAD} SELECT id, map(id) AS m FROM customers", "arguments", "line 2:1", ""),
    (f"-- PRIMARY KEY (id)\n{FIRST} WITH NO DATA", "`WITH`", "line 2:62", "before AS"),
    (f"{FIRST} WHERE \"name\" = 'x'", "is a text, as in Spark", "line 1:68", "`name` for the column"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason", "where", "instead"), PLACES)
def test_a_text_of_several_statements_is_refused_where_it_is_wrong(
    text: str, reason: str, where: str, instead: str
) -> None:
    with pytest.raises(SpecificationError) as refusal:
        parse_views(text, TABLES)
    assert reason in refusal.value.what
    assert refusal.value.where == where
    assert instead in refusal.value.next_step


@pytest.mark.parametrize(
    "call",
    [
        "DATEDIFF(day)",
        "DATEDIFF()",
        "YEAR()",
        "FLOOR()",
        "SUBSTRING(region)",
        "REGEXP_REPLACE(region, total)",
    ],
)
def test_a_function_without_its_arguments_is_refused(call: str) -> None:
    with pytest.raises(SpecificationError) as refusal:
        one(f"SELECT id, customer, {call} AS x FROM orders")
    assert refusal.value.where.startswith("line 1:")


def test_a_refusal_is_all_that_is_said(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SpecificationError) as refusal:
        one("SELECT id, customer, TO_CHAR(day, 'MM') AS x FROM orders")
    assert "DATE_TRUNC" in refusal.value.next_step
    assert not capfd.readouterr().err
    assert not caplog.text


def test_a_product_is_refused_at_the_table_nothing_ties() -> None:
    with pytest.raises(SpecificationError, match="`c` and what stands before it") as refusal:
        one("SELECT o.id, customer FROM orders o, customers c", head="CREATE MATERIALIZED VIEW v AS\n")
    assert refusal.value.where == "line 2:38"


def test_counters_are_no_base() -> None:
    table = BaseTable(
        name="shop.clicks", columns=(("page", "text"), ("n", "counter")), partition_key=("page",)
    )
    with pytest.raises(SpecificationError, match="counts in `n`") as refusal:
        parse_views("CREATE MATERIALIZED VIEW v AS SELECT page, n FROM clicks", [table])
    assert "SUM" in refusal.value.next_step


def test_an_alias_means_its_expression_in_group_by_and_having() -> None:
    """As in Spark; a column of that name wins."""
    view = one("SELECT region AS r, COUNT(*) AS n FROM orders GROUP BY r HAVING n > 1")
    same = one("SELECT region AS r, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > 1")
    assert view.definition == same.definition
    column = one(
        "SELECT region, COUNT(*) AS n, MAX(total) AS total FROM orders GROUP BY region HAVING MAX(total) > 1"
    )
    assert column.key.columns == ("region",)


@pytest.mark.parametrize(
    ("column", "wide"),
    [("a * b", 2**62), ("SUM(a * 2)", 2**62), ("-a", -(2**63)), ("ABS(a)", -(2**63)), ("a + 1", 2**63 - 1)],
)
def test_what_no_bigint_can_hold_is_null(column: str, wide: int) -> None:
    """As a cast that fails: the published column could not be written, and its pipeline would stand still."""
    table = BaseTable(
        name="shop.wide", columns=(("id", "int"), ("a", "bigint"), ("b", "bigint")), partition_key=("id",)
    )
    group = " GROUP BY id" if "SUM" in column else ""
    (view,) = parse_views(f"CREATE MATERIALIZED VIEW v AS SELECT id, {column} AS x FROM wide{group}", [table])
    assert dict(view.columns)["x"] == "bigint"
    rows = [{"id": 1, "a": 3, "b": 1}, {"id": 2, "a": wide, "b": 4}]
    shown = recompute(view.definition, {"shop.wide": rows}, {"shop.wide": table})
    assert {row["id"]: row["x"] is None for row in shown.values()} == {1: False, 2: True}


def test_single_floats_stay_single() -> None:
    table = BaseTable(name="shop.f", columns=(("id", "int"), ("a", "float")), partition_key=("id",))
    (view,) = parse_views("CREATE MATERIALIZED VIEW v AS SELECT id, a * a AS x FROM f", [table])
    (row,) = recompute(view.definition, {"shop.f": [{"id": 1, "a": 1e30}]}, {"shop.f": table}).values()
    assert row["x"] == float("inf"), "a double of 1e60 fits no column of type float"


def test_a_decimal_meets_a_double_as_a_double() -> None:
    table = BaseTable(
        name="shop.m", columns=(("id", "int"), ("d", "double"), ("m", "decimal")), partition_key=("id",)
    )
    where = "d = m AND NOT d > m AND d IN (m, 7) AND m IN (d, 7) AND m = 1e-1"
    (view,) = parse_views(f"CREATE MATERIALIZED VIEW v AS SELECT id FROM m WHERE {where}", [table])
    rows = [{"id": 1, "d": 0.1, "m": Decimal("0.1")}]
    assert len(recompute(view.definition, {"shop.m": rows}, {"shop.m": table})) == 1


def test_a_column_has_the_name_its_table_gives_it() -> None:
    """However a query spells it: CQL finds it without quotes then."""
    assert [name for name, _ in one("SELECT ID, Vip FROM customers").columns] == ["id", "vip"]


def test_names_that_need_quotes_are_told_of() -> None:
    view = one("SELECT id, name AS Name, vip AS `order` FROM customers")
    assert [name for name, _ in view.columns] == ["id", "Name", "order"]
    assert ['"Name"' in view.warnings[0], '"order"' in view.warnings[1]] == [True, True]


def test_a_blob_that_is_the_whole_partition_key_is_not_empty() -> None:
    table = BaseTable(name="shop.b", columns=(("id", "int"), ("photo", "blob")), partition_key=("id",))
    (view,) = parse_views(
        "CREATE MATERIALIZED VIEW v AS SELECT photo, COUNT(*) AS n FROM b GROUP BY photo", [table]
    )
    rows = [{"id": 1, "photo": b""}, {"id": 2, "photo": b"x"}]
    assert len(recompute(view.definition, {"shop.b": rows}, {"shop.b": table})) == 1
    assert "photo is empty" in view.warnings[1]


def test_the_key_may_be_written_in_any_case() -> None:
    head = "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('cvs.key' = '(Region), COUNTED DESC') AS "
    view = one("SELECT region, COUNT(*) AS counted FROM orders GROUP BY region", head)
    assert (view.key.partition, view.key.clustering) == (("region",), (("counted", True),))


STATEMENTS = [
    ("SELECT 1", "is no view"),
    ("INSERT INTO t VALUES (1)", "is no view"),
    ("CREATE VIEW v AS SELECT id FROM customers", "only materialized"),
    ("CREATE MATERIALIZED VIEW customers AS SELECT id FROM customers", "exists already"),
    ("CREATE MATERIALIZED VIEW v TBLPROPERTIES ('cvs.level' = 'best') AS SELECT id FROM customers", "cvs.level"),
    ("CREATE MATERIALIZED VIEW v TBLPROPERTIES ('level' = 'weak') AS SELECT id FROM customers", "unknown property"),
    ("CREATE MATERIALIZED VIEW v TBLPROPERTIES ('cvs.key' = 'name') AS SELECT id, name FROM customers", "not unique"),
    ("CREATE MATERIALIZED VIEW v AS SELEC id", "not SQL"),
    ("CREATE MATERIALIZED VIEW v WITH (cvs.level = 'weak') AS SELECT id FROM customers", "in CREATE"),
    ("CREATE MATERIALIZED VIEW `my view` AS SELECT id FROM customers", "no name of a table"),
    (f"CREATE MATERIALIZED VIEW shop.{'long' * 13} AS SELECT id FROM customers", "no name of a table"),
    ("CREATE MATERIALIZED VIEW a.v TBLPROPERTIES ('cvs.keyspace' = 'b') AS SELECT id FROM customers", "the name says"),
    ("CREATE MATERIALIZED VIEW v USING delta AS SELECT id FROM customers", "in CREATE"),
    ("CREATE MATERIALIZED VIEW v AS SELECT id FROM customers; DROP MATERIALIZED VIEW v CASCADE", "`CASCADE`"),
    ("DROP MATERIALIZED VIEW v", "no view"),
    ("DROP TABLE customers", "drops no materialized"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "reason"), STATEMENTS)
def test_statements_are_refused(statement: str, reason: str) -> None:
    with pytest.raises(SpecificationError) as refusal:
        parse_views(statement, TABLES)
    assert reason in refusal.value.what


def test_a_view_others_read_is_not_dropped() -> None:
    text = """CREATE MATERIALIZED VIEW a AS SELECT id, name FROM customers;
              CREATE MATERIALIZED VIEW b AS SELECT id FROM a; DROP MATERIALIZED VIEW a"""
    with pytest.raises(SpecificationError, match="is read by"):
        parse_views(text, TABLES)
