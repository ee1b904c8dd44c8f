"""Lets update programs meet a store: view managers, recorder."""
