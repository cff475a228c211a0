"""Versions that follow a paper to the letter, to reproduce its figures or to show where it breaks."""
