"""The search for a group to join: a process asks its contacts, one after another, until one answers."""

from whence.core.membership.items import Subscribe
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Ready, Send
from whence.types import Instant


class ContactSearch:
    """The contacts that a process asks to be let in, and when it asks the next one."""

    __slots__ = ("_asked", "_retry_ns", "_tries_max", "active", "contacts", "retry_at")

    def __init__(self, settings: ViewSettings, round_ns: int) -> None:
        self._retry_ns = settings.join_retry_rounds * round_ns
        self._tries_max = settings.join_tries_max
        self._asked = 0
        self.contacts: tuple[int, ...] = ()
        self.active = False
        """The process is not a member yet, and asks to be one."""
        self.retry_at: Instant | None = None
        """When the next contact is asked."""

    def ask_next(self, now: Instant, ready: Ready) -> None:
        """Ask the next contact, if there is any, and plan to ask the one after it."""
        if self.contacts:
            contact = self.contacts[self._asked % len(self.contacts)]
            ready.send.append(Send((contact,), Subscribe(joining=True)))
        self._asked += 1
        self.retry_at = now + self._retry_ns

    def add(self, contact: int) -> None:
        """Add a contact to ask."""
        self.contacts = tuple(dict.fromkeys((*self.contacts, contact)))

    def stop(self) -> None:
        """Stop asking: the process is a member."""
        self.active = False
        self.retry_at = None

    def failed(self) -> bool:
        """Tell whether so many contacts have not answered that there seems to be no member."""
        return self.active and self._asked > self._tries_max
