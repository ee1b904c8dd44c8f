"""Unit tests of the planner."""
