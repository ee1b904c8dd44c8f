"""Campaigns: real processes under load, killed at random, and what they leave behind judged."""
