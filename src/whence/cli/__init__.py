"""The command line: one file per command."""

from whence.cli.app import main

__all__ = ["main"]
