"""Plumtree: payloads along a tree that grows out of gossip, names along all other links, which repair it.

Promises: with high probability every member gets every message, once; no order. Survives members that crash.
The sentence that decides: a message is new unless its name was seen lately.
A message comes first along the best link; a second copy prunes the link that it came by. Names go along pruned links. A
name whose message does not follow in time grafts its link into the tree again, and asks for the message.
Costs: one copy per member and one name per link that is not in the tree.
Source: Leitao, Pereira, Rodrigues 2007 (Epidemic broadcast trees), as in the thesis, 2.2.2.
"""

from collections.abc import Sequence

from whence.core.levels.causal.tree.place import Place
from whence.core.ready import BundleItem, Item, RandomSource, Ready, Send
from whence.types import Bundle, Instant, Process
from whence_lab.rivals.gossip_trees import GossipTreeMember, Group, Message, Missing, Name, name_of
from whence_lab.rivals.hyparview import HYPARVIEW_ITEMS
from whence_lab.rivals.settings import Settings


class PlumCopy(BundleItem, frozen=True, tag=220):
    """A message on a link of the tree."""

    group: Group
    bundle: Bundle


class PlumHave(Item, frozen=True, tag=221):
    """The sender has this message."""

    name: Name


class PlumGraft(Item, frozen=True, tag=222):
    """The link belongs to the tree from now on; the message is asked for."""

    name: Name


class PlumPrune(Item, frozen=True, tag=223):
    """The link no longer belongs to the tree."""


PLUMTREE_ITEMS: tuple[type[Item], ...] = (*HYPARVIEW_ITEMS, PlumCopy, PlumHave, PlumGraft, PlumPrune)


class Plumtree(GossipTreeMember):
    """One member of the tree."""

    def __init__(self, me: Process, place: Place, settings: Settings, rng: RandomSource) -> None:
        super().__init__(me, place, settings, rng)
        self._eager: dict[int, None] = {}
        self._lazy: dict[int, None] = {}

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group. Raises as RivalBase."""
        bundle, ready = self._bundled(group, payloads)
        name = name_of(bundle)
        self._is_new(name, Message(group, 0, bundle), ready)
        self._push(name, PlumCopy(group, bundle), self.me.pid, ready)
        return bundle, self._planned(ready)

    def _up_with(self, peer: int) -> None:
        self._eager[peer] = None

    def _lost(self, peer: int) -> None:
        self._eager.pop(peer, None)
        self._lazy.pop(peer, None)

    def _take(self, peer: int, item: Item, now: Instant, ready: Ready) -> None:
        linked = self._overlay.is_neighbour(peer, ready)
        match item:
            case PlumCopy(group, bundle):
                name = name_of(bundle)
                if self._is_new(name, Message(group, 0, bundle), ready):
                    if linked:
                        self._move(peer, self._lazy, self._eager)
                    self._push(name, item, peer, ready)
                elif linked:
                    self._move(peer, self._eager, self._lazy)
                    ready.send.append(Send((peer,), PlumPrune()))
            case PlumHave(name) if linked:
                self._announced(peer, name, 0, now)
            case PlumGraft(name) if linked:
                self._move(peer, self._lazy, self._eager)
                if (kept := self._kept.get(name)) is not None:
                    ready.send.append(Send((peer,), PlumCopy(kept.group, kept.bundle)))
            case PlumPrune() if linked:
                self._move(peer, self._eager, self._lazy)

    def _source(self, missing: Missing) -> int:
        """Choose whom to ask: who is in the tree already, so that one repair makes one new link; else the first."""
        return next((peer for peer in missing.sources if peer in self._eager), super()._source(missing))

    def _ask(self, name: Name, missing: Missing, peer: int, ready: Ready) -> None:
        self._move(peer, self._lazy, self._eager)
        ready.send.append(Send((peer,), PlumGraft(name)))

    def _push(self, name: Name, copy: PlumCopy, came_from: int, ready: Ready) -> None:
        eager = tuple(peer for peer in self._eager if peer != came_from)
        lazy = tuple(peer for peer in self._lazy if peer != came_from)
        if eager:
            ready.send.append(Send(eager, copy))
        if lazy:
            ready.send.append(Send(lazy, PlumHave(name)))

    def _move(self, peer: int, source: dict[int, None], target: dict[int, None]) -> None:
        source.pop(peer, None)
        target[peer] = None
