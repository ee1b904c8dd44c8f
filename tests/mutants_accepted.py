"""Mutants of `cvs/programs` that no test needs to kill: survivor -> reason."""

ACCEPTED: dict[str, str] = {}
