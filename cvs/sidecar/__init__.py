"""Keeps cvs alive and observable beside a cluster: settings, lifecycle, health, metrics."""
