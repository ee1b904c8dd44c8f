"""What type an expression has: CQL's names, SQL's arithmetic.

Only families matter for what may be compared with what; exact types matter for published columns. Fixed
integers widen to `bigint` when computed with, so that a sum of two ints cannot overflow silently.
"""

INTEGERS = ("tinyint", "smallint", "int", "bigint", "varint")
FLOATS = ("float", "double")
TEXTS = ("text", "varchar", "ascii")
NULL = "null"

_FAMILIES = {
    **dict.fromkeys((*INTEGERS, "counter"), "number"),
    **dict.fromkeys((*FLOATS, "decimal"), "number"),
    **dict.fromkeys(TEXTS, "text"),
    **{t: t for t in ("boolean", "date", "time", "timestamp", "inet", "blob", "duration")},
    **dict.fromkeys(("uuid", "timeuuid"), "uuid"),
}


def family(cql_type: str) -> str:
    """Return the family of a type; collections, tuples and user types are carried as values, each its own."""
    return _FAMILIES.get(cql_type, "null" if cql_type == NULL else cql_type)


def comparable(left: str, right: str) -> bool:
    """Say whether two types can be compared."""
    return NULL in (left, right) or family(left) == family(right)


def ordered(cql_type: str) -> bool:
    """Say whether `<` means something for a type."""
    return family(cql_type) in ("number", "text", "boolean", "date", "time", "timestamp", "uuid", "null")


def keyable(cql_type: str) -> bool:
    """Say whether a column of the type may be part of a Cassandra primary key."""
    if cql_type in ("duration", "counter", NULL):
        return False
    return cql_type in _FAMILIES or cql_type.startswith(("frozen<", "tuple<"))


def common(types: list[str]) -> str | None:
    """Return the type that holds values of all the types, or None if there is none."""
    known = [t for t in dict.fromkeys(types) if t != NULL]
    if not known:
        return NULL
    if len(known) == 1:
        return known[0]
    if len({family(t) for t in known}) != 1:
        return None
    if family(known[0]) == "number":
        return _widest(known)
    return {"text": "text", "uuid": "uuid"}.get(family(known[0]))


def arithmetic(operator: str, left: str, right: str) -> str | None:
    """Return the type of `+ - * / %` over two types, or None if it makes no sense."""
    if NULL in (left, right):
        other = right if left == NULL else left
        return other if family(other) in ("number", "null") else None
    if family(left) != "number" or family(right) != "number":
        return None
    widest = _widest([left, right])
    if operator == "/" and widest in INTEGERS:
        return "double"  # because Spark divides integers as doubles
    return widened(widest)


def widened(cql_type: str) -> str:
    """Return the type a computed number has: fixed integers become `bigint`, so that -x and ABS(x) always fit."""
    return "bigint" if cql_type in INTEGERS and cql_type != "varint" else cql_type


def _widest(types: list[str]) -> str:
    if any(t in FLOATS for t in types):
        return "double" if types != ["float"] * len(types) else "float"
    if "decimal" in types:
        return "decimal"
    ranks = [INTEGERS.index("bigint" if t == "counter" else t) for t in types]
    return INTEGERS[max(ranks)]
