"""The property-based suites as a product: view classes, level table, stories, pytest plugin."""
