"""A deterministic world to run members in: the same seed gives the same run, to the byte."""
