"""The command line: one file per command."""

import sys

INTERRUPTED = 130
"""The exit code of a command that an interrupt has ended."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; an interrupt ends it without a traceback, also while it is being loaded."""
    try:
        from whence.cli.app import run

        sys.exit(run(arguments))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


__all__ = ["INTERRUPTED", "main"]
