"""How addresses get around: every node comes to know where every other is called.

Law: an address heard from its owner is told to everybody connected, one heard from others is passed on to a few at
random, and now and then somebody is told some that it may have missed: so N nodes that start together send in the order
of N² items, and not N³. News wait NEWS_S for company.
"""

import asyncio
from random import Random
from secrets import token_bytes

from whence.core.links.addresses import Address, Addresses, pack, unpack
from whence.net.outboxes import NODE, Outboxes
from whence.net.peers import PeerTable

NEWS_S = 0.02
"""News wait so long for company: many nodes that start together would else tell everybody of each."""

RUMOUR_PEERS = 4
"""An address that was not heard from its owner is passed on to so many peers, each of which passes it on in turn."""

REMIND_ADDRESSES = 64
"""So many at most are in a reminder."""


class AddressExchange:
    """What a node tells others of its address book, and hears from them."""

    def __init__(self, peers: PeerTable, outboxes: Outboxes) -> None:
        self._peers = peers
        self._outboxes = outboxes
        self._loop = asyncio.get_running_loop()
        self._random = Random(token_bytes(16))
        self._met: dict[int, Address] = {}
        self._rumoured: dict[int, Address] = {}
        """Addresses to pass on: heard from their owners, and heard from others."""

    def met(self, address: Address) -> None:
        """Take a connected peer's own address; one that was unknown is told all others."""
        book = self._peers.book
        known = book.find(address.pid)
        if book.learn(address, own=True) or known is None:
            self._tell([address.pid], book.all())
            self._pass_on(self._met, book.some([address.pid]))

    def heard(self, peer: int, item: Addresses) -> None:
        """Take what a peer says of others, and answer what it asks."""
        self._pass_on(self._rumoured, [each for each in unpack(item.known) if self._peers.book.learn(each)])
        if item.asked:
            self._tell([peer], self._peers.book.some(item.asks()))

    def remind(self) -> None:
        """Tell one peer some addresses: it may have missed them."""
        connected, known = self._peers.connected_pids(), self._peers.book.all()
        some = self._random.sample(known, min(REMIND_ADDRESSES, len(known)))
        self._tell(self._random.sample(connected, min(1, len(connected))), some)

    def _pass_on(self, where: dict[int, Address], addresses: list[Address]) -> None:
        """Tell others of addresses soon."""
        if addresses and not self._met and not self._rumoured:
            self._loop.call_later(NEWS_S, self._tell_news)
        where.update((address.pid, address) for address in addresses)

    def _tell_news(self) -> None:
        met, self._met = self._met, {}
        rumoured, self._rumoured = self._rumoured, {}
        connected = self._peers.connected_pids()
        self._tell(connected, list(met.values()))
        some = self._random.sample(connected, min(RUMOUR_PEERS, len(connected)))
        self._tell(some, [address for pid, address in rumoured.items() if pid not in met])

    def _tell(self, to: list[int], addresses: list[Address]) -> None:
        for piece in pack(addresses) if to else ():
            self._outboxes.send(NODE, to, Addresses(piece, b""))
