"""Update programs as pure state machines."""
