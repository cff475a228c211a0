"""The command line: one file per command group, one door for errors."""

from whence.cli.app import main

__all__ = ["main"]
