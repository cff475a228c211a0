"""One file per promise: each returns the table of its violations, written independently of the oracles in check/."""
