"""What the local engine says when it cannot do something."""

from whence.errors import UsageError


class NotLocal(UsageError):
    """The local engine does not know something; Spark does."""

    def __init__(self, what: str) -> None:
        super().__init__(f"--engine local does not know {what}; give --engine spark")
