"""The only door to storage."""
