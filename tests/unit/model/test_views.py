"""View definitions can be written down."""

from cvs.model.expressions import Column
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Named,
    Scan,
    ViewDefinition,
)


def test_a_count_view_names_its_parts() -> None:
    """A COUNT view is an aggregate over a scan, keyed by its group column."""
    orders = BaseTable(name="shop.orders", columns=(("id", "int"), ("region", "text")), partition_key=("id",))
    count = Aggregate(
        source=Scan(table=orders.name, alias="o"),
        group=(Named(name="region", expression=Column("o.region")),),
        aggregates=(AggregateColumn(name="n", function=AggregateFunction.COUNT),),
    )
    view = ViewDefinition(name="by_region", relation=count, key=("region",))
    assert (orders.key, view.key) == (("id",), ("region",))
