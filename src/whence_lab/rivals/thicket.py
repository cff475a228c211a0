"""Thicket: several trees at once, such that nearly every member forwards in one of them and is a leaf in the others.

Promises: with high probability every member gets every message, once; no order. Survives members that crash. The load
of forwarding is spread over the members.
The sentence that decides: a message is new unless its name was seen lately.
A message belongs to one tree. A member that first hears of a tree forwards in it to a few peers, unless it forwards in
another tree already: then it is a leaf. A second copy prunes its link from the tree. Summaries name the messages of
each tree to the neighbours that the tree does not lead to; who misses one grafts a link to the neighbour that forwards
in fewest trees. A neighbour that forwards in another tree declines, unless nobody else is left; then the next is asked.
Costs: one copy per member, and summaries, gathered for a while.
Unlike in the paper, trees are shared by all publishers, who take turns among them, as Plumtree does with its one; and a
summary goes to every neighbour for the trees in which it is none, not only to those that are in no tree at all.
Source: Ferreira, Leitao, Rodrigues 2010, as in the thesis, 2.2.3.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from whence.core.levels.causal.tree.place import Place
from whence.core.ready import NEVER, BundleItem, Item, RandomSource, Ready, Send
from whence.types import Bundle, Instant, Process
from whence_lab.rivals.gossip_trees import GossipTreeMember, Group, Message, Missing, Name, name_of
from whence_lab.rivals.hyparview import HYPARVIEW_ITEMS
from whence_lab.rivals.settings import Settings

SUMMARY_NAMES_MAX = 256
"""Names of one summary. Full: it is sent at once."""

Tree = Annotated[int, Meta(ge=0, le=15)]
Load = Annotated[int, Meta(ge=0, le=16)]


class ThicketCopy(BundleItem, frozen=True, tag=225):
    """A message on a link of its tree; `load` is the number of trees in which its sender forwards."""

    tree: Tree
    load: Load
    group: Group
    bundle: Bundle


class ThicketSummary(Item, frozen=True, tag=226):
    """Messages that the sender has, each with its tree."""

    load: Load
    names: Annotated[tuple[tuple[Tree, Name], ...], Meta(max_length=SUMMARY_NAMES_MAX)]


class ThicketGraft(Item, frozen=True, tag=227):
    """The link shall belong to the tree; `must`: nobody else is left to ask."""

    tree: Tree
    load: Load
    must: bool
    name: Name


class ThicketPrune(Item, frozen=True, tag=228):
    """The link does not belong to the tree."""

    tree: Tree
    load: Load


THICKET_ITEMS: tuple[type[Item], ...] = (
    *HYPARVIEW_ITEMS, ThicketCopy, ThicketSummary, ThicketGraft, ThicketPrune,
)  # fmt: skip


class Thicket(GossipTreeMember):
    """One member of all trees."""

    def __init__(self, me: Process, place: Place, settings: Settings, rng: RandomSource) -> None:
        super().__init__(me, place, settings, rng)
        self._links: list[dict[int, None]] = [{} for _ in range(self._settings.trees)]
        """The peers of each tree."""
        self._loads: dict[int, int] = {}
        self._unsaid: dict[int, list[tuple[int, Name]]] = {}
        """Per neighbour, what its next summary says."""
        self._summary_at: Instant = NEVER
        self._turn = int(rng() * self._settings.trees)

    @property
    def load(self) -> int:
        """Return the number of trees in which this member forwards."""
        return sum(len(links) > 1 for links in self._links)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group, in the next tree. Raises as RivalBase."""
        bundle, ready = self._bundled(group, payloads)
        tree = self._turn = (self._turn + 1) % self._settings.trees
        name, message = name_of(bundle), Message(group, tree, bundle)
        self._is_new(name, message, ready)
        if not self._links[tree]:
            self._branch(tree)
        self._push(name, message, self.me.pid, now, ready)
        return bundle, self._planned(ready)

    def _up_with(self, peer: int) -> None:
        self._loads[peer] = 0

    def _lost(self, peer: int) -> None:
        self._loads.pop(peer, None)
        self._unsaid.pop(peer, None)
        for links in self._links:
            links.pop(peer, None)

    def _take(self, peer: int, item: Item, now: Instant, ready: Ready) -> None:
        linked = self._overlay.is_neighbour(peer, ready)
        if isinstance(item, ThicketCopy):
            if item.tree < len(self._links):
                self._copied(peer, item, now, ready, linked=linked)
            return
        if not linked or not isinstance(item, ThicketSummary | ThicketGraft | ThicketPrune):
            return
        self._loads[peer] = item.load
        match item:
            case ThicketSummary(_, names):
                for tree, name in names:
                    if tree < len(self._links):
                        self._announced(peer, name, tree, now)
            case ThicketGraft(tree, _, must, name) if tree < len(self._links):
                self._grafted(peer, tree, name, ready, must=must)
            case ThicketPrune(tree) if tree < len(self._links):
                self._links[tree].pop(peer, None)
                self._declined(peer, tree, now)

    def _copied(self, peer: int, copy: ThicketCopy, now: Instant, ready: Ready, *, linked: bool) -> None:
        name, tree = name_of(copy.bundle), copy.tree
        links = self._links[tree]
        if linked:
            self._loads[peer] = copy.load
        message = Message(copy.group, tree, copy.bundle)
        if not self._is_new(name, message, ready):
            if linked:
                links.pop(peer, None)
                ready.send.append(Send((peer,), ThicketPrune(tree, self.load)))
            return
        is_first = not links
        if linked:
            links[peer] = None
        if is_first and self.load == 0:
            self._branch(tree)
        self._push(name, message, peer, now, ready)

    def _branch(self, tree: int) -> None:
        """Begin to forward in a tree."""
        links = self._links[tree]
        choice = [peer for peer in self._overlay.active if peer not in links]
        for _ in range(min(self._settings.tree_fanout, len(choice))):
            links[choice.pop(int(self._rng() * len(choice)))] = None

    def _grafted(self, peer: int, tree: int, name: Name, ready: Ready, *, must: bool) -> None:
        """Take a peer into a tree, with the message it misses, unless that would be a second tree to forward in.

        Who declines does not send the message either: a peer that had it would ask nobody else, and stay outside.
        """
        links = self._links[tree]
        if not must and len(links) <= 1 and self.load:
            ready.send.append(Send((peer,), ThicketPrune(tree, self.load)))
            return
        links[peer] = None
        kept = self._kept.get(name)
        if kept is not None:
            ready.send.append(Send((peer,), ThicketCopy(tree, self.load, kept.group, kept.bundle)))

    def _declined(self, peer: int, tree: int, now: Instant) -> None:
        """Ask the next neighbour at once for what this one was asked for."""
        for missing in self._missing.values():
            if missing.tree == tree and missing.asked == peer:
                missing.asked = None
                missing.due = now

    def _source(self, missing: Missing) -> int:
        """Choose the neighbour that forwards in fewest trees."""
        return min(missing.sources, key=lambda peer: self._loads.get(peer, 0))

    def _ask(self, name: Name, missing: Missing, peer: int, ready: Ready) -> None:
        self._links[missing.tree][peer] = None
        ready.send.append(Send((peer,), ThicketGraft(missing.tree, self.load, not missing.sources, name)))

    def _push(self, name: Name, message: Message, came_from: int, now: Instant, ready: Ready) -> None:
        links = self._links[message.tree]
        targets = tuple(peer for peer in links if peer != came_from)
        if targets:
            ready.send.append(Send(targets, ThicketCopy(message.tree, self.load, message.group, message.bundle)))
        for peer in self._overlay.active:
            if peer not in links and peer != came_from:
                unsaid = self._unsaid.setdefault(peer, [])
                unsaid.append((message.tree, name))
                if len(unsaid) >= SUMMARY_NAMES_MAX:
                    self._summarize(peer, ready)
        if self._unsaid:
            self._summary_at = min(self._summary_at, now + self._settings.summary_ns)

    def _summarize(self, peer: int, ready: Ready) -> None:
        ready.send.append(Send((peer,), ThicketSummary(self.load, tuple(self._unsaid.pop(peer)))))

    def _due(self, now: Instant, ready: Ready) -> None:
        if now >= self._summary_at:
            self._summary_at = NEVER
            for peer in list(self._unsaid):
                self._summarize(peer, ready)
        super()._due(now, ready)

    def _next_due(self) -> Instant:
        return min(self._summary_at, super()._next_due())
