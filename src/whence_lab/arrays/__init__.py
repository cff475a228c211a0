"""Protocols as arrays: all members at once, for groups that are too large for the event loop."""
