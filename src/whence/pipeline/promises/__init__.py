"""One file per promise: each returns the table of what speaks against it, written apart from the oracles of check/."""
