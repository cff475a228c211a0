"""Causal order in small groups: every message goes directly from its publisher to all, with one vector clock."""
