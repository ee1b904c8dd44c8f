"""Definitions as JSON that people write by hand: what is wrong in them is one message, before anything is computed."""

from typing import Any

import pytest

from cvs.errors import SpecificationError
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.model.scope import require_columns
from cvs.model.views import BaseTable
from tests.stories.views import VIEWS

R: dict[str, Any] = {"is": "Scan", "table": "r", "alias": "r"}
S: dict[str, Any] = {"is": "Scan", "table": "s", "alias": "s"}


def column(name: str) -> dict[str, Any]:
    return {"is": "Column", "name": name}


def projected(*names: str, source: Any = R) -> dict[str, Any]:
    columns = [{"is": "Named", "name": n.split(".")[-1], "expression": column(n)} for n in names]
    return {"is": "Project", "source": source, "columns": columns}


def view(relation: Any, key: tuple[str, ...] = ("k",)) -> dict[str, Any]:
    return {"is": "ViewDefinition", "name": "v", "relation": relation, "key": list(key)}


def joined(**changes: Any) -> dict[str, Any]:
    return {
        "is": "Join",
        "kind": "inner",
        "left": R,
        "right": S,
        "on": [[column("r.y"), column("s.k")]],
        **changes,
    }


def united(left: Any, right: Any) -> dict[str, Any]:
    return {"is": "SetOperation", "kind": "union", "all": False, "left": left, "right": right}


def summed(name: str) -> dict[str, Any]:
    fold = {"is": "AggregateColumn", "name": "k", "function": "sum", "argument": column(name)}
    return {"is": "Aggregate", "source": R, "group": [], "aggregates": [fold]}


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (5, "a ViewDefinition takes no 5 as its relation"),
        (column("r"), "as its relation"),
        ({**R, "alias": 3}, "a Scan takes no 3 as its alias"),
        ({"is": "Select", "source": R, "predicate": 7}, "a Select takes no 7 as its predicate"),
        ({"is": "Project", "source": R, "columns": 5}, "a Project takes no 5 as its columns"),
        (projected("r.k", source=column("r")), "as its source"),
        (joined(kind="iner"), "a Join takes no 'iner' as its kind"),
        (joined(on=[5]), "a Join takes no [5] as its on"),
        (joined(on=[[column("r.y")]]), "as its on"),
        ({"is": "TopK", "source": R, "order": [], "limit": True}, "a TopK takes no True as its limit"),
        (projected("q.k"), "no column 'q.k' is below"),
        (projected("r.k", "k"), "no column 'k' is below"),
        (projected("r.k", source=projected("r.y")), "no column 'r.k' is below"),
        (projected("r.y"), "no column 'k' is below"),
        (joined(on=[[column("s.k"), column("r.y")]]), "no column 's.k' is below"),
        (projected("s.k", source=joined(kind="semi")), "no column 's.k' is below"),
        (joined(residual=column("t.z")), "no column 't.z' is below"),
        (united(projected("r.k"), projected("s.k", "s.z", source=S)), "1 and 2 columns"),
        ({"is": "TopK", "source": R, "order": [{"is": "OrderBy", "expression": column("z")}], "limit": 1}, "'z'"),
        (summed("y"), "no column 'y' is below"),
        ({"is": "Select", "source": R, "predicate": {"is": "Call", "function": "zz", "arguments": []}}, "zz"),
        ({"is": "Select", "source": R, "predicate": {"is": "Call", "function": "+", "arguments": []}}, "takes 2"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_definition_is_said(relation: Any, message: str) -> None:
    with pytest.raises(SpecificationError) as refusal:
        view_from_json(view(relation))
    assert message in str(refusal.value)


def test_columns_are_those_of_the_declared_table_if_there_is_one() -> None:
    found = view_from_json(view(projected("r.k", "r.z")))
    require_columns(found)
    table = BaseTable(name="r", columns=(("k", "text"), ("y", "int")), partition_key=("k",))
    with pytest.raises(SpecificationError) as refusal:
        require_columns(found, {"r": table})
    assert str(refusal.value) == "no column 'r.z' is below (view \"v\"); there are r.k, r.y"


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_what_is_right_stays_as_it_is(name: str) -> None:
    assert view_from_json(definition_to_json(VIEWS[name])) == VIEWS[name]
