"""One input's turn, as actors have turns: the time, where effects go, and what this process sends to itself.

A process is often also one of its own seeds, or the former coordinator it asks about. What it sends to itself is
handled in the same turn, after the rest, by the same code as anybody's item; so no rule has a second form for oneself.
"""

from collections import deque

from whence.core.levels.optimistic.tickets.items import TO_WITNESSES
from whence.core.ready import Item, Note, Ready, Send
from whence.types import ANY_INCARNATION, Instant, Process


class Turn:
    """What one input causes."""

    def __init__(self, me: Process, now: Instant, ready: Ready) -> None:
        self.me = me
        self.now = now
        self.ready = ready
        self.to_self: deque[Item] = deque()

    def post(self, to: Process, item: Item) -> None:
        """Send an item to one incarnation of a peer; an earlier one of ours is dead and gets nothing.

        What is said to a witness goes to whichever incarnation there is: it may remember what that one promised.
        """
        if isinstance(item, TO_WITNESSES):
            self.post_pid(to.pid, item)
        elif to == self.me:
            self.to_self.append(item)
        elif to.pid != self.me.pid:
            self.ready.send.append(Send((to.pid,), item, to.incarnation))

    def post_pid(self, pid: int, item: Item) -> None:
        """Send an item to whichever incarnation of a peer answers."""
        if pid == self.me.pid:
            self.to_self.append(item)
        else:
            self.ready.send.append(Send((pid,), item, ANY_INCARNATION))

    def post_all(self, to: tuple[Process, ...], item: Item) -> None:
        """Send one item to several."""
        for process in to:
            self.post(process, item)

    def note(self, reason: str, ticket: int | None = None, epoch: int | None = None) -> None:
        """Tell observers what happened."""
        self.ready.notes.append(Note("note", reason, ticket=ticket, epoch=epoch))
