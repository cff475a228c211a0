"""How addresses spread: every node learns the address of every other.

Law: an address received from its owner is sent to every connected peer; one received from others is passed on to a few
at random; now and then a peer is sent some that it may have missed. So N nodes that start together send in the order of
N² items, and not N³. News waits NEWS_S to be batched.
"""

import asyncio
from random import Random
from secrets import token_bytes

from whence.core.links.addresses import Address, Addresses, pack, unpack
from whence.net.outboxes import NODE, Outboxes
from whence.net.peers import PeerTable

NEWS_S = 0.02
"""News waits this long to be batched: many nodes that start together would otherwise send each address on its own."""

RUMOUR_PEERS = 4
"""An address that did not come from its owner is passed on to this number of peers, and each of them passes it on in
turn."""

REMIND_ADDRESSES = 64
"""Addresses in one reminder at most."""


class AddressExchange:
    """What a node sends from its address book to others, and receives from them."""

    def __init__(self, peers: PeerTable, outboxes: Outboxes) -> None:
        self._peers = peers
        self._outboxes = outboxes
        self._loop = asyncio.get_running_loop()
        self._random = Random(token_bytes(16))
        self._met: dict[int, Address] = {}
        self._rumoured: dict[int, Address] = {}
        """Addresses to pass on: those from their owners, and those from others."""

    def met(self, address: Address) -> None:
        """Take a connected peer's own address; a peer that was unknown is sent all others."""
        book = self._peers.book
        known = book.find(address.pid)
        if book.learn(address, own=True) or known is None:
            self._tell([address.pid], book.all())
            self._pass_on(self._met, book.some([address.pid]))

    def heard(self, peer: int, item: Addresses) -> None:
        """Take addresses that a peer sends, and answer its questions."""
        news = [each for each in unpack(item.known) if self._peers.book.learn(each)]
        for address in news:
            self._peers.rumoured(address)
        self._pass_on(self._rumoured, news)
        if item.asked:
            self._tell([peer], self._peers.book.some(item.asks()))

    def remind(self) -> None:
        """Send one peer some addresses that it may have missed."""
        connected, known = self._peers.connected_pids(), self._peers.book.all()
        some = self._random.sample(known, min(REMIND_ADDRESSES, len(known)))
        self._tell(self._random.sample(connected, min(1, len(connected))), some)

    def _pass_on(self, where: dict[int, Address], addresses: list[Address]) -> None:
        """Plan to send addresses to other peers soon."""
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
