"""Properties that hold for all inputs, checked by Hypothesis."""
