"""View definitions, expressions and base tables as JSON: for history headers and bookkeeping.

Every part is an object that names its class under `is`; fields that have their default are left out. Generic on
purpose: a class that joins the algebra needs one word here.
"""

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from typing import Literal as OneOf

from cvs.errors import SpecificationError
from cvs.model import views
from cvs.model.expressions import Call, Column, Literal
from cvs.model.scope import require_columns
from cvs.model.values import from_json, to_json

Json = Any  # because JSON nests

_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Call,
        Column,
        Literal,
        views.Aggregate,
        views.AggregateColumn,
        views.BaseTable,
        views.Distinct,
        views.Join,
        views.Named,
        views.OrderBy,
        views.Project,
        views.Scan,
        views.Select,
        views.SetOperation,
        views.TopK,
        views.ViewDefinition,
    )
}
_DEPTH_MAX = 200  # because a definition nested deeper is an attack on the stack, not a view


def definition_to_json(part: Any) -> Json:
    """Return a definition, or any part of one, as JSON."""
    if isinstance(part, Literal):
        return {"is": "Literal", "value": to_json(part.value)}
    if isinstance(part, Enum):
        return part.value
    if isinstance(part, tuple):
        return [definition_to_json(item) for item in part]
    if is_dataclass(part) and type(part).__name__ in _CLASSES:
        given = {f.name: getattr(part, f.name) for f in fields(part) if getattr(part, f.name) != f.default}
        return {"is": type(part).__name__} | {n: definition_to_json(v) for n, v in given.items()}
    return to_json(part)


def definition_from_json(json: Json) -> Any:
    """Return the part of a definition that some JSON describes; anything else is refused."""
    return _part(json, 0)


def is_defined(json: Json) -> bool:
    """Say whether a view is told by more than its name, which may be all that is known of it."""
    return set(json) != {"name"}


def view_from_json(json: Json) -> views.ViewDefinition:
    """Return a view definition; one that reads columns of no table in it is refused."""
    view: views.ViewDefinition = _checked(json, views.ViewDefinition)
    require_columns(view)
    return view


def table_from_json(json: Json) -> views.BaseTable:
    """Return a base table."""
    return _checked(json, views.BaseTable)  # type: ignore[no-any-return]


def _checked(json: Json, wanted: type) -> Any:
    found = definition_from_json(json)
    if not isinstance(found, wanted):
        raise SpecificationError(f"this describes no {wanted.__name__}", where=repr(json)[:80])
    return found


def _part(json: Json, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise SpecificationError(f"a definition is nested deeper than {_DEPTH_MAX}")
    if isinstance(json, list):
        return tuple(_part(item, depth + 1) for item in json)
    if not isinstance(json, dict):
        return json
    kind = _CLASSES.get(json.get("is", ""))
    if kind is None:
        raise SpecificationError(
            f"{json.get('is')!r} is no part of a definition", next_step=f"it is one of {', '.join(_CLASSES)}"
        )
    if kind is Literal:
        return Literal(from_json(json.get("value")))
    return _built(kind, {name: value for name, value in json.items() if name != "is"}, depth)


def _built(kind: type, given: dict[str, Json], depth: int) -> Any:
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(given) - set(known))
    missing = sorted(n for n, f in known.items() if f.default is MISSING and n not in given)
    if unknown or missing:
        raise SpecificationError(
            f"a {kind.__name__} "
            + " and ".join([f"has no {name}" for name in unknown] + [f"needs its {name}" for name in missing])
        )
    values = {name: _part(value, depth + 1) for name, value in given.items()}
    if kind is views.AggregateColumn:
        try:
            values["function"] = views.AggregateFunction(values["function"])
        except ValueError as error:
            raise SpecificationError(f"{values['function']!r} is no aggregate function") from error
    for name, value in values.items():
        if not _fits(value, _types(kind)[name]):
            raise SpecificationError(f"a {kind.__name__} takes no {given[name]!r:.60} as its {name}")
    return kind(**values)


_types = cache(get_type_hints)


def _fits(value: Any, wanted: Any) -> bool:
    """Say whether a value is what a field says it is."""
    kind, inner = get_origin(wanted), get_args(wanted)
    if kind in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if kind is OneOf:
        return type(value) is str and value in inner
    if kind is not tuple:
        return type(value) is wanted
    if not isinstance(value, tuple):
        return False
    each = inner[:1] * len(value) if inner[-1] is ... else inner
    return len(value) == len(each) and all(map(_fits, value, each))
