"""The items that let a process into a group, and how news of peers is packed."""

from struct import Struct as Layout
from typing import Annotated

from msgspec import Meta

from whence import limits
from whence.core.ready import Item

NEWS = Layout("<HIB")
"""One peer in the news: pid, incarnation, rounds for which the entry is still passed on."""

News = Annotated[bytes, Meta(max_length=NEWS.size * (limits.VIEW_MAX + 1))]
"""Peers end to end: at most a full list and oneself. Packed: a decoded list would take 32 bytes per small number."""


def whole(news: bytes) -> bool:
    """Tell whether news are whole entries whose incarnations fit 31 bits: no top byte of one has its top bit set."""
    if not news:
        return True
    size = NEWS.size
    return len(news) % size == 0 and news[5::size].isascii()


class Subscribe(Item, frozen=True, tag=2):
    """Let me in; or, from a member: are you there? The sender is the subject."""

    joining: bool
    """Whether the sender asks for a snapshot too."""


class Welcome(Item, frozen=True, tag=3):
    """You are in: some peers to start with, and what you need not wait for."""

    peers: News
    snapshot: Annotated[bytes, Meta(max_length=limits.SNAPSHOT_BYTES_MAX)]

    def is_valid(self) -> bool:
        """Tell whether the news are whole."""
        return whole(self.peers)
