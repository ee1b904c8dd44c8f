"""TPC-H as views: schema, queries, data."""
