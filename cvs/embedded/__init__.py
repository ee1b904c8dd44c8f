"""Boots real servers from published artifacts: Cassandra nodes, the jars of Spark's connector, TLC."""
