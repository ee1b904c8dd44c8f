"""The eight tables of TPC-H as Cassandra tables."""

from cvs.model.views import BaseTable

_TABLES = {
    "region": ("r_regionkey", "", "r_regionkey int, r_name text, r_comment text"),
    "nation": ("n_nationkey", "", "n_nationkey int, n_name text, n_regionkey int, n_comment text"),
    "supplier": (
        "s_suppkey",
        "",
        (
            "s_suppkey int, s_name text, s_address text, s_nationkey int, s_phone text, s_acctbal decimal, "
            "s_comment text"
        ),
    ),
    "part": (
        "p_partkey",
        "",
        (
            "p_partkey int, p_name text, p_mfgr text, p_brand text, p_type text, p_size int, p_container text, "
            "p_retailprice decimal, p_comment text"
        ),
    ),
    "partsupp": (
        "ps_partkey",
        "ps_suppkey",
        "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost decimal, ps_comment text",
    ),
    "customer": (
        "c_custkey",
        "",
        (
            "c_custkey int, c_name text, c_address text, c_nationkey int, c_phone text, c_acctbal decimal, "
            "c_mktsegment text, c_comment text"
        ),
    ),
    "orders": (
        "o_orderkey",
        "",
        (
            "o_orderkey bigint, o_custkey int, o_orderstatus text, o_totalprice decimal, o_orderdate date, "
            "o_orderpriority text, o_clerk text, o_shippriority int, o_comment text"
        ),
    ),
    "lineitem": (
        "l_orderkey",
        "l_linenumber",
        (
            "l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity decimal, "
            "l_extendedprice decimal, l_discount decimal, l_tax decimal, l_returnflag text, l_linestatus text, "
            "l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, "
            "l_comment text"
        ),
    ),
}


def _table(name: str, partition: str, clustering: str, columns: str) -> BaseTable:
    pairs = tuple(tuple(part.split()) for part in columns.split(", "))
    return BaseTable(
        name=f"tpch.{name}",
        columns=pairs,  # type: ignore[arg-type]
        partition_key=(partition,),
        clustering_key=(clustering,) if clustering else (),
    )


TABLES = {f"tpch.{name}": _table(name, *rest) for name, rest in _TABLES.items()}
