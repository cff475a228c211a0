"""Oracles: they see only the trace, never a node's own claims. One file per promise."""
