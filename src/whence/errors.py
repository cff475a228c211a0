"""The error tree, by who must act.

The caller (UsageError and below), the peer (RemoteProtocolError: counted, never escapes a driver), a limit
(LimitError: names it and its value), the world (TraceError: a file that cannot be read), or us (InternalError:
prints the seed that shows it again).
"""


class WhenceError(Exception):
    """Anything Whence raises on purpose."""


class UsageError(WhenceError):
    """The caller asked for something that cannot be; the sentence says what would be right."""


class SettingError(UsageError):
    """A setting's value cannot work, or no setting has that name."""


class NotMemberError(UsageError):
    """The call needs a member, and this process has not joined or has left."""


class LimitError(UsageError):
    """A stated limit was reached: names it, its value and what was asked."""

    def __init__(self, name: str, value: int, asked: int) -> None:
        super().__init__(f"{name} is {value}, and {asked} were asked for")
        self.name, self.value, self.asked = name, value, asked


class RemoteProtocolError(WhenceError):
    """A peer sent bytes that are no item of ours. The driver counts it and drops the bytes."""


class TraceError(WhenceError):
    """A trace cannot be read: names the file or directory and what is wrong with it."""


class InternalError(WhenceError):
    """We have a bug. Carries the seed of the run that shows it."""
