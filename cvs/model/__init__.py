"""Words and laws: what every other room speaks of."""
