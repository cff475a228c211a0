"""The address book: where each peer can be reached. Learned from greetings, passed on among all connected processes.

Promises: an address of a newer incarnation replaces one of an older incarnation, never the other way round; the book is
bounded; what is not a host name is never learned, so never passed on, and a peer that gives such a name for itself
loses its own connection (greeting). The same holds for the names of processes.
Assumes: members do not lie; a process that answers at an address must still name itself (greeting, TLS), so a wrong
entry costs a failed call and nothing else.
Costs: an entry of some 20 bytes for each peer on each new connection, and once more when it changes.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import Annotated, NamedTuple

from msgspec import Meta

from whence import limits
from whence.core.links.greeting import is_host
from whence.core.links.process_names import is_name
from whence.core.ready import Item

_ENTRY = Layout("<HIHBB")
"""pid, incarnation, port, lengths of the host's name and of the process's name, which follow."""

ADDRESSES_BYTES_MAX = 1 << 15
ASKED_MAX = 64
ADDRESSES_MAX = 4096
"""Peers in one book. Full: further ones are not learned."""


class Address(NamedTuple):
    """Where one incarnation of a peer listens."""

    pid: int
    incarnation: int
    host: str
    port: int
    name: str = ""


def pack(addresses: Iterable[Address]) -> list[bytes]:
    """Return the entries end to end, in pieces that each fit an item."""
    pieces, piece = [], bytearray()
    for pid, incarnation, host, port, name in addresses:
        texts = host.encode(), name.encode()
        if len(piece) + _ENTRY.size + len(texts[0]) + len(texts[1]) > ADDRESSES_BYTES_MAX:
            pieces.append(bytes(piece))
            piece.clear()
        piece += _ENTRY.pack(pid, incarnation, port, len(texts[0]), len(texts[1])) + texts[0] + texts[1]
    if piece:
        pieces.append(bytes(piece))
    return pieces


def unpack(packed: bytes) -> Iterator[Address]:
    """Yield the entries. Raises ValueError if one is not whole."""
    at = 0
    while at < len(packed):
        if at + _ENTRY.size > len(packed):
            raise ValueError("an address is cut off")
        pid, incarnation, port, host_length, name_length = _ENTRY.unpack_from(packed, at)
        at += _ENTRY.size
        texts = packed[at : at + host_length + name_length]
        if len(texts) != host_length + name_length or incarnation > limits.INCARNATION_MAX:
            raise ValueError("an address is cut off or out of range")
        at += len(texts)
        host, name = (text.decode("ascii", "replace") for text in (texts[:host_length], texts[host_length:]))
        yield Address(pid, incarnation, host, port, name)  # what is not a host name or a name is not learned


class Addresses(Item, frozen=True, tag=112):
    """The addresses of some peers, and a question for the addresses of others."""

    known: Annotated[bytes, Meta(max_length=ADDRESSES_BYTES_MAX)]
    asked: Annotated[bytes, Meta(max_length=2 * ASKED_MAX)]
    """pids, two bytes each."""

    def is_valid(self) -> bool:
        """Tell whether every entry is whole."""
        try:
            for _ in unpack(self.known):
                pass
        except ValueError:
            return False
        return len(self.asked) % 2 == 0

    def asks(self) -> list[int]:
        """Return the pids whose address is wanted."""
        return [int.from_bytes(self.asked[at : at + 2], "little") for at in range(0, len(self.asked), 2)]


def asking(pids: Iterable[int]) -> Addresses:
    """Return the question for the addresses of some peers."""
    return Addresses(b"", b"".join([pid.to_bytes(2, "little") for pid in pids][:ASKED_MAX]))


class Book:
    """Every address this process knows."""

    def __init__(self, me: Address) -> None:
        self._known: dict[int, Address] = {me.pid: me} if me.port else {}
        self._me = me.pid

    def learn(self, address: Address, *, own: bool = False) -> bool:
        """Learn an address; return whether it is news. What a peer says of itself overrides what others said."""
        known = self._known.get(address.pid)
        if address.pid == self._me or not address.port or not is_host(address.host):
            return False
        if address.name and not is_name(address.name):
            return False
        if known is not None and (address == known or (address.incarnation < known.incarnation and not own)):
            return False
        if known is None and len(self._known) >= ADDRESSES_MAX:
            return False
        self._known[address.pid] = address
        return True

    def find(self, pid: int) -> Address | None:
        """Return a peer's address, if it is known."""
        return self._known.get(pid)

    def forget(self, pid: int) -> None:
        """Forget a number that no process uses any more."""
        if pid != self._me:
            self._known.pop(pid, None)

    def all(self) -> list[Address]:
        """Return every entry, including one's own."""
        return list(self._known.values())

    def some(self, pids: Iterable[int]) -> list[Address]:
        """Return the entries of these peers that are known."""
        return [self._known[pid] for pid in pids if pid in self._known]
