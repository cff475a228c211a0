"""Causal order in small groups: every message goes straight from its publisher to all, with one vector clock."""
