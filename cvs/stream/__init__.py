"""The pipeline on real parts: epochs over Cassandra, driven by Spark Structured Streaming."""
