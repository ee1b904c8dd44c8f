"""The allow-list of scalar SQL: which sqlglot node is which function of the evaluator, and its type.

What is not here is refused. The names on the right are those of `model/expressions.py`.
"""

from sqlglot import exp

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}

TEXT, NUMBER, SAME, BOOLEAN = "text", "number", "same", "boolean"

# node -> (name, argument families in order, result: a CQL type, or SAME as the first argument)
SIMPLE: dict[type[exp.Expr], tuple[str, tuple[str, ...], str]] = {
    exp.Upper: ("upper", (TEXT,), "text"),
    exp.Lower: ("lower", (TEXT,), "text"),
    exp.Length: ("length", (TEXT,), "int"),
    exp.Abs: ("abs", (NUMBER,), SAME),
    exp.Neg: ("negate", (NUMBER,), SAME),
    exp.StartsWith: ("starts_with", (TEXT, TEXT), "boolean"),
    exp.EndsWith: ("ends_with", (TEXT, TEXT), "boolean"),
    exp.Contains: ("contains", (TEXT, TEXT), "boolean"),
}

CHOICES: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}

VOLATILE: tuple[type[exp.Expr], ...] = (
    exp.Rand,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
)

KEPT: tuple[type[exp.Expr], ...] = (
    exp.Count,
    exp.CountIf,
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Variance,
    exp.Stddev,
    exp.StddevSamp,
)

VOLATILE_NAMES = {
    "now",
    "unix_timestamp",
    "localtimestamp",
    "curdate",
    "monotonically_increasing_id",
    "input_file_name",
    "shuffle",
    "randn",
}

CASTS = {
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL": "decimal",
    "TEXT": "text",
    "VARCHAR": "text",
    "CHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp",
    "UUID": "uuid",
}

CASTABLE = {
    "number": ("number", "text", "boolean"),
    "text": ("text", "number", "boolean", "date", "timestamp", "uuid"),
    "boolean": ("number", "text"),
    "date": ("timestamp", "text"),
    "timestamp": ("date", "text"),
    "uuid": ("uuid", "text"),
    "inet": ("text",),
}
"""Family -> families it can be cast to; anything else would be null in every row, or Python's words."""

PARTS: dict[type[exp.Expr], set[str]] = {
    exp.Column: {"table", "db"},
    exp.Literal: {"is_string"},
    exp.Case: {"ifs", "default"},
    exp.If: {"true", "false"},
    exp.Between: {"low", "high"},
    exp.Substring: {"start", "length"},
    exp.Round: {"decimals"},
    exp.Cast: {"to"},
    exp.TryCast: {"to"},
    exp.Like: {"negate"},
    exp.Greatest: {"ignore_nulls"},
    exp.Least: {"ignore_nulls"},
    exp.Interval: {"unit"},
    exp.Replace: {"replacement"},
    exp.StrPosition: {"substr"},
    exp.TimestampTrunc: {"unit"},
    exp.Trim: {"position"},
    exp.TsOrDsAdd: {"unit"},
}


_SPECIAL = (
    "case", "coalesce", "nullif", "if", "cast", "concat", "substring", "round", "floor", "ceil", "greatest", "least",
    "between", "in", "like", "trim", "ltrim", "rtrim", "left", "right", "replace", "instr", "year", "quarter", "month",
    "day", "dayofweek", "dayofyear", "hour", "minute", "second", "date_trunc", "datediff", "date_add", "date_sub",
    "add_months", "to_date",
)  # fmt: skip


def names() -> tuple[str, ...]:
    """Return every function a view may use."""
    simple = sorted({name for name, _, _ in SIMPLE.values()} - {"negate"})
    return (*_SPECIAL, *simple)


def listed() -> str:
    """Return them for the message that refuses one."""
    return f"{', '.join(names())}; or compute it when writing and store it in a column"
