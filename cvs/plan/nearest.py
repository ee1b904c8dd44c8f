"""What the refusal of a piece of SQL names instead: the nearest thing that works; and the reason, where it has one."""

import re
from difflib import get_close_matches

from sqlglot import exp

from cvs.plan.functions import CASTS

_WHOLE = "select the whole column: collections, tuples and user types travel as values"
_CONSTANT = "write the constant itself: a view has no parameters"
_DATE = "write DATE_TRUNC('month', x), or YEAR(x) and MONTH(x)"
_TIMEUUID = "store the time in a column of its own: a timeuuid is compared as a whole"
_STORED = "it tells of one write, not of the row: store what you need in a column"

_NOT_IN_ON = "in ON no subquery can stand: put the condition into WHERE, or join the subquery itself"

NEAREST: dict[type[exp.Expr], str] = {
    exp.All: "compare with (SELECT MAX(...) ...) or (SELECT MIN(...) ...)",
    exp.Any: "compare with (SELECT MIN(...) ...) or (SELECT MAX(...) ...); = ANY is IN",
    exp.ArrayContains: _WHOLE,
    exp.ArraySize: _WHOLE,
    exp.Bracket: _WHOLE,
    exp.Contains: "CONTAINS is of two texts here",
    exp.DateTrunc: _DATE,
    exp.DecodeCase: "write CASE x WHEN ... THEN ... ELSE ... END",
    exp.Exists: _NOT_IN_ON,
    exp.Escape: "\\ escapes % and _: write LIKE '100\\\\%'",
    exp.Explode: "keep a base table with one row an element: collections travel as values",
    exp.ILike: "write LOWER(x) LIKE 'a%'",
    exp.IntDiv: "write CAST(a / b AS bigint)",
    exp.Nvl2: "write CASE WHEN x IS NULL THEN ... ELSE ... END",
    exp.Placeholder: _CONSTANT,
    exp.Parameter: _CONSTANT,
    exp.Pow: "multiply: x * x",
    exp.RegexpLike: "use LIKE, STARTS_WITH, ENDS_WITH or CONTAINS",
    exp.Subquery: _NOT_IN_ON,
    exp.TimeToStr: _DATE,
    exp.ToChar: _DATE,
    exp.Var: "name a column of the query",
    exp.Tuple: "compare the columns one by one; for (a, b) IN (SELECT ...) write EXISTS with both equalities",
}
"""Scalar SQL."""

NEAREST_PARTS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Between, "symmetric"): "write BETWEEN LEAST(a, b) AND GREATEST(a, b)",
    (exp.ConcatWs, "flatten"): "write CONCAT, and COALESCE around what may be null",
    (exp.DateDiff, "expression"): "write DATEDIFF(end, start): whole days, the later date first",
    (exp.DateDiff, "unit"): "write DATEDIFF(end, start): whole days, the later date first",
    (exp.In, "field"): _WHOLE,
    (exp.In, "query"): _NOT_IN_ON,
    (exp.TsOrDsToDate, "format"): "TO_DATE(x) reads texts like '2026-01-31'",
    (exp.Union, "by_name"): "columns go by their places: select them in one order",
}
"""Parts of a piece that is known without them; of any other the nearest is to leave it out."""

NEAREST_NAMES = {
    "dateof": _TIMEUUID,
    "every": "write COUNT_IF(NOT x) = 0",
    "isnotnull": "write x IS NOT NULL",
    "isnull": "write x IS NULL",
    "maxtimeuuid": _STORED,
    "mean": "write AVG(x)",
    "mintimeuuid": _STORED,
    "std": "write STDDEV(x)",
    "some": "write COUNT_IF(x) > 0",
    "todate": _TIMEUUID,
    "token": "it tells where a row lies: views are keyed by columns ('cvs.key')",
    "totimestamp": _TIMEUUID,
    "tounixtimestamp": _TIMEUUID,
    "ttl": _STORED,
    "unixtimestampof": _TIMEUUID,
    "writetime": _STORED,
    "zeroifnull": "write COALESCE(x, 0)",
}
"""Functions the parser does not know."""

AGGREGATES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.AnyValue: ("which value it gives is nobody's choice", "MIN(x) or MAX(x)"),
    exp.ApproxDistinct: ("its error is not that of a view", "COUNT(DISTINCT x), which is exact"),
    exp.ArgMax: ("it is a whole row a group", "MAX(x) and join back to it, or ORDER BY with LIMIT"),
    exp.ArgMin: ("it is a whole row a group", "MIN(x) and join back to it, or ORDER BY with LIMIT"),
    exp.First: ("rows of a group have no order", "MIN(x)"),
    exp.Grouping: ("it belongs to ROLLUP and CUBE", "write one view each, or UNION ALL"),
    exp.Last: ("rows of a group have no order", "MAX(x)"),
    exp.LogicalAnd: ("booleans are counted", "COUNT_IF(NOT x) = 0"),
    exp.LogicalOr: ("booleans are counted", "COUNT_IF(x) > 0"),
    exp.StddevPop: ("the sample's are kept", "STDDEV(x), and COUNT(x) to correct it"),
    exp.VariancePop: ("the sample's are kept", "VARIANCE(x) * (COUNT(x) - 1) / COUNT(x)"),
}
"""Aggregates: reason, nearest; of any other all rows of a group are needed."""

WHOLE_GROUPS = (
    "it needs all rows of a group",
    "use COUNT, COUNT DISTINCT, SUM, AVG, MIN, MAX, STDDEV, VARIANCE or COUNT_IF; or ORDER BY with LIMIT",
)

CLAUSES = {
    "cluster": ("CLUSTER BY", "'cvs.key' gives partition and clustering"),
    "distribute": ("DISTRIBUTE BY", "'cvs.key' gives the partition key"),
    "laterals": (
        "LATERAL VIEW",
        "keep a base table with one row an element: collections travel as values",
    ),
    "method": ("{} JOIN", "JOIN ... USING (columns), or ON a = b"),
    "pivots": ("PIVOT", "one column each: SUM(x) FILTER (WHERE region = 'a') AS a"),
    "qualify": ("QUALIFY", "GROUP BY, or ORDER BY with LIMIT: window functions are not incremental here"),
    "sample": ("TABLESAMPLE", "leave it out, or select by a column in WHERE"),
    "sort": ("SORT BY", "'cvs.key' gives clustering order, ORDER BY with LIMIT the first rows"),
    "version": ("VERSION", "leave it out: a view is of the tables as they are"),
}
"""Clauses of a query, by the parser's name: what people call them, and the nearest."""

BASE_TABLE = "base tables are made in Cassandra; a schema without a cluster is given with --schema"
_CQL = (
    (r"(?m)^\s*CREATE\s+TABLE\b", "CREATE TABLE", BASE_TABLE),
    (
        r"\bPRIMARY\s+KEY\s*\(",
        "PRIMARY KEY after the query",
        "TBLPROPERTIES ('cvs.key' = '(city), day DESC, id') before AS; without it the key is found",
    ),
    (
        r"\bWITH\s+CLUSTERING\s+ORDER\b",
        "CLUSTERING ORDER",
        "TBLPROPERTIES ('cvs.key' = '(city), day DESC, id')",
    ),
    (r"\bALLOW\s+FILTERING\b", "ALLOW FILTERING", "leave it out: a view may select by any column"),
    (r"\bPER\s+PARTITION\s+LIMIT\b", "PER PARTITION LIMIT", "ORDER BY with LIMIT, over the whole view"),
    (r"\bSELECT\s+JSON\b", "SELECT JSON", "select the columns"),
    (r"\bCONTAINS\s+(KEY\s+)?[^(\s]", "CONTAINS", _WHOLE),
)


_LANGUAGE = "see cvs/plan/README.md for the language of views"
_TOKENS = {
    "~": "use LIKE, STARTS_WITH, ENDS_WITH or CONTAINS",
    "WITH": "options stand before AS: TBLPROPERTIES ('cvs.level' = 'strong')",
}
_CLAUSES = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "JOIN",
    "UNION",
    "BETWEEN",
    "FILTER",
)
_SIGNS = {
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "eq": "=",
    "neq": "<>",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
}


def complaint(description: str, word: str = "", before: str = "") -> tuple[str, str]:
    """Return the parser's complaint at a word, which stands after another, in words of SQL, and what to do."""
    if opened := re.match(r"Missing (\S+) from", description):
        return f"{opened[1]} is opened and never closed", f"close it with {opened[1]}"
    missing = re.search(r"missing for <class 'sqlglot\.expressions\.(?:\w+\.)*(\w+)'>", description)
    if missing:
        sign = _SIGNS.get(missing[1].lower())
        if sign:
            return f"{sign} is not finished", f"write what stands after {sign}"
        return f"{missing[1].upper()} is not finished", _LANGUAGE
    if "TYPE after CAST" in description:
        return "CAST to a type that is none", f"one of {', '.join(CASTS)}"
    if "Unexpected token" in description and word.upper() in ("CREATE", "DROP"):
        return f"`{word}` where the statement above it goes on", "end the statement above it with `;`"
    if "Unexpected token" in description and word:
        near = get_close_matches(before.upper(), _CLAUSES, n=1, cutoff=0.75)
        meant = f"did you mean {near[0]} instead of `{before}`?" if near and near[0] != before.upper() else ""
        return f"nothing is understood from `{word}` on", meant or _TOKENS.get(word.upper(), _LANGUAGE)
    return description, _LANGUAGE


def misspelt(text: str) -> tuple[str, str, int] | None:
    """Return a word of a statement's head that is none, what was meant, and where it stands in the text."""
    begins = re.search(r"\bas\s+(?!select\b)([A-Za-z]+)\s", text, re.IGNORECASE)
    if begins and get_close_matches(begins[1].lower(), ["select"], n=1, cutoff=0.75):
        return begins[1], "SELECT", begins.start(1)
    words = ("create", "or", "replace", "materialized", "view", "drop", "tblproperties")
    for statement in re.finditer(r"[^;]+", text):
        head = re.split(r"\b(?:as|select)\b", statement[0], maxsplit=1, flags=re.IGNORECASE)[0]
        for found in list(re.finditer(r"[A-Za-z]+", head))[:5]:
            near = get_close_matches(found[0].lower(), words, n=1, cutoff=0.75)
            if near and near[0] != found[0].lower():
                return found[0], near[0].upper(), statement.start() + found.start()
    return None


def cql(text: str) -> tuple[str, str] | None:
    """Return which word of CQL a text that is not SQL may have meant to use, and the nearest thing."""
    bare = re.sub(r"--[^\n]*|'[^']*'", "''", text)
    return next(((word, near) for form, word, near in _CQL if re.search(form, bare, re.IGNORECASE)), None)
