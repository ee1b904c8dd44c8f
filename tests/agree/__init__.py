"""Deciders held against outsiders that share no code with them."""
