"""Guests with a data directory stay members when they end: that is said, and `--leave` takes them out."""

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Annotated

import typer

from whence.api.group import Group
from whence.cli.output import print_message
from whence.errors import LeaveTimeoutError, OutcomeUnknownError, UsageError

Leave = Annotated[
    bool,
    typer.Option(
        "--leave",
        help="With --data at causal and total: leave the group for good at the end; else this process stays a member "
        "that is away. Without --data it leaves in any case.",
    ),
]

LEAVE_S = 30.0
"""How long to wait with --leave until the others have let this process go."""


def check_leave(group: Group, leave: bool) -> None:
    """Raise UsageError where a group cannot be left for good, before anything is done in it."""
    if leave and group.view() is None:
        raise UsageError(
            f"--leave is for groups whose members change by views, and those of group {group.name!r} do not: leave it "
            "out, and this process is out when it ends"
        )


async def leave(group: Group, who: str, done: str) -> None:
    """Leave a group for good, after something was done there. Raises OutcomeUnknownError where the others do not let
    this process go in time."""
    try:
        await group.leave(LEAVE_S)
    except LeaveTimeoutError as error:
        raise OutcomeUnknownError(
            f"{done}, and {who} could not leave group {group.name!r} within {LEAVE_S:g} s: it waited for "
            f"{error.waits_for}"
        ) from None


@contextmanager
def said(group: Group, who: str) -> Iterator[None]:
    """Say that this process stays a member, where that is so, if the body fails. Raises what the body raises."""
    try:
        yield
    except BaseException:
        if stays := sentence(group, who):
            print_message(stays)
        raise


def sentence(group: Group, who: str) -> str:
    """Say that this process stays a member when it ends, and how to take it out; empty if it does not."""
    if not group.stays:
        return ""
    return (
        f"{who} stays a member of group {group.name!r}, and the others wait for it until it is started again or "
        f"removed: whence remove {quote(group.name)} {who} at a member takes it out"
    )
