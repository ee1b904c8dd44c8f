"""Plans: SQL cases in the style of sqllogictest, and TPC-H."""
