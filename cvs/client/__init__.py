"""What applications import: snapshot reads and wait tokens."""
