"""HyParView: a small active view whose links go both ways, and a passive view to replace from what fails in it.

Promises: with high probability the links of all active views connect all members that are up; a member that fails is
replaced. Assumes that a connection tells when its other end is gone; here a copy that finds nobody does.
A newcomer is announced on random walks, and some members on the way take it into their active views. A member with too
few active peers asks one of its passive view; with none at all its wish cannot be refused. Passive views are refreshed
by shuffles. A peer that is not active here and behaves as if it were is told so: both ends must agree on a link.
Costs: nothing per message; a shuffle now and then.
Source: Leitao, Pereira, Rodrigues 2007, as in the thesis, 2.2.1.
"""

from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import Meta

from whence.core.ready import Item, RandomSource, Ready, Send
from whence.types import PeerId
from whence_lab.rivals.settings import HyParViewSettings

SHUFFLED_ACTIVE, SHUFFLED_PASSIVE = 3, 4
"""How many peers of each view a shuffle carries, besides its origin; the paper's values."""

Ttl = Annotated[int, Meta(ge=0, le=16)]
Peers = Annotated[tuple[PeerId, ...], Meta(max_length=16)]


class HyJoin(Item, frozen=True, tag=210):
    """A newcomer asks a contact to let it in."""


class HyForwardJoin(Item, frozen=True, tag=211):
    """A newcomer on its random walk."""

    newcomer: PeerId
    ttl: Ttl


class HyNeighbour(Item, frozen=True, tag=212):
    """Asks for a place in the active view; an urgent wish is not refused."""

    urgent: bool


class HyAnswer(Item, frozen=True, tag=213):
    """Whether the asked one is now an active peer."""

    accepted: bool


class HyDisconnect(Item, frozen=True, tag=214):
    """The sender is no active peer, or no longer."""


class HyShuffle(Item, frozen=True, tag=215):
    """Peers that its origin knows, on a random walk."""

    origin: PeerId
    ttl: Ttl
    peers: Peers


class HyShuffleReply(Item, frozen=True, tag=216):
    """Peers in return."""

    peers: Peers


HYPARVIEW_ITEMS: tuple[type[Item], ...] = (
    HyJoin, HyForwardJoin, HyNeighbour, HyAnswer, HyDisconnect, HyShuffle, HyShuffleReply,
)  # fmt: skip


class HyParView:
    """The two views of one member. `on_up` and `on_down` hear of active peers that come and go."""

    def __init__(
        self,
        me: int,
        settings: HyParViewSettings,
        rng: RandomSource,
        on_up: Callable[[int], None],
        on_down: Callable[[int], None],
    ) -> None:
        self.active: dict[int, None] = {}
        self.passive: dict[int, None] = {}
        self._me = me
        self._settings = settings
        self._rng = rng
        self._on_up, self._on_down = on_up, on_down
        self._asked: dict[int, None] = {}
        """Peers that have not answered yet whether they take this member."""
        self._refused: dict[int, None] = {}
        """Peers that are not asked again before the next shuffle."""
        self._contacts: list[int] = []

    def found(self, peers: Iterable[int], ready: Ready) -> None:
        """Start with some peers in the passive view."""
        for peer in peers:
            self._add_passive(peer)
        self._contacts = list(self.passive)
        self._promote(ready)

    def join(self, contacts: Iterable[int], ready: Ready) -> None:
        """Ask one of the contacts to let this member in."""
        self._contacts = [contact for contact in contacts if contact != self._me] or self._contacts
        if self._contacts:
            ready.send.append(Send((self._draw(self._contacts),), HyJoin()))

    def receive(self, peer: int, item: Item, ready: Ready) -> None:
        """Take an item of this protocol."""
        match item:
            case HyJoin():
                others = [other for other in self.active if other != peer]
                self._add_active(peer, ready)
                ready.send.append(Send((peer,), HyAnswer(True)))
                if others:
                    ready.send.append(Send(tuple(others), HyForwardJoin(peer, self._settings.active_walk)))
            case HyForwardJoin(newcomer, ttl):
                self._walk(peer, newcomer, ttl, ready)
            case HyNeighbour(urgent):
                accepted = urgent or peer in self.active or len(self.active) < self._settings.active_view
                if accepted:
                    self._add_active(peer, ready)
                ready.send.append(Send((peer,), HyAnswer(accepted)))
            case HyAnswer(accepted):
                self._asked.pop(peer, None)
                if accepted:
                    self._add_active(peer, ready)
                else:
                    self._refused[peer] = None
                self._promote(ready)
            case HyDisconnect():
                if self._remove(peer):
                    self._refused[peer] = None
                self._add_passive(peer)
                self._promote(ready)
            case HyShuffle(origin, ttl, peers):
                self._shuffled(peer, origin, ttl, peers, ready)
            case HyShuffleReply(peers):
                for other in peers:
                    self._add_passive(other)

    def is_neighbour(self, peer: int, ready: Ready) -> bool:
        """Tell whether a peer that uses a link has one; one that was asked has accepted, any other is told off."""
        if peer in self.active:
            return True
        if self._asked.pop(peer, 0) is None:
            self._add_active(peer, ready)
            return True
        ready.send.append(Send((peer,), HyDisconnect()))
        return False

    def unreachable(self, peer: int, ready: Ready) -> None:
        """Forget a peer that is gone, and find another."""
        self._remove(peer)
        self.passive.pop(peer, None)
        self._asked.pop(peer, None)
        if not self.active and not self.passive:
            self.join((), ready)
        self._promote(ready)

    def shuffle(self, ready: Ready) -> None:
        """Refresh the passive views, and try again whoever refused or did not answer."""
        self._refused.clear()
        self._asked.clear()
        if not self.active:
            self.join((), ready)
        else:
            some = (*self._sample(self.active, SHUFFLED_ACTIVE), *self._sample(self.passive, SHUFFLED_PASSIVE))
            walk = HyShuffle(self._me, self._settings.active_walk, some)
            ready.send.append(Send((self._draw(self.active),), walk))
        self._promote(ready)

    def _walk(self, peer: int, newcomer: int, ttl: int, ready: Ready) -> None:
        others = [other for other in self.active if other not in (peer, newcomer)]
        if newcomer in (self._me, *self.active):
            return
        if ttl == 0 or not others:
            self._asked[newcomer] = None
            ready.send.append(Send((newcomer,), HyNeighbour(True)))
            return
        if ttl == self._settings.passive_walk:
            self._add_passive(newcomer)
        ready.send.append(Send((self._draw(others),), HyForwardJoin(newcomer, ttl - 1)))

    def _shuffled(self, peer: int, origin: int, ttl: int, peers: tuple[int, ...], ready: Ready) -> None:
        others = [other for other in self.active if other not in (peer, origin)]
        if ttl and others:
            ready.send.append(Send((self._draw(others),), HyShuffle(origin, ttl - 1, peers)))
            return
        if origin != self._me:
            ready.send.append(Send((origin,), HyShuffleReply(self._sample(self.passive, len(peers)))))
        for other in (origin, *peers):
            self._add_passive(other)

    def _promote(self, ready: Ready) -> None:
        """Ask passive peers until the active view will be full."""
        while len(self.active) + len(self._asked) < self._settings.active_view:
            choice = [peer for peer in self.passive if peer not in self._asked and peer not in self._refused]
            if not choice:
                return
            peer = self._draw(choice)
            self._asked[peer] = None
            ready.send.append(Send((peer,), HyNeighbour(not self.active)))

    def _add_active(self, peer: int, ready: Ready) -> None:
        if peer == self._me or peer in self.active:
            return
        self.passive.pop(peer, None)
        while len(self.active) >= self._settings.active_view:
            dropped = self._draw(self.active)
            self._remove(dropped)
            self._add_passive(dropped)
            ready.send.append(Send((dropped,), HyDisconnect()))
        self.active[peer] = None
        self._on_up(peer)

    def _add_passive(self, peer: int) -> None:
        if peer == self._me or peer in self.active or peer in self.passive:
            return
        while len(self.passive) >= self._settings.passive_view:
            del self.passive[self._draw(self.passive)]
        self.passive[peer] = None

    def _remove(self, peer: int) -> bool:
        if peer not in self.active:
            return False
        del self.active[peer]
        self._on_down(peer)
        return True

    def _draw(self, peers: Iterable[int]) -> int:
        choice = list(peers)
        return choice[int(self._rng() * len(choice))]

    def _sample(self, peers: Iterable[int], count: int) -> tuple[int, ...]:
        left = list(peers)
        return tuple(left.pop(int(self._rng() * len(left))) for _ in range(min(count, len(left))))
