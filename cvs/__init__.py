"""cvs: a consistency-verified view store for Apache Cassandra."""
