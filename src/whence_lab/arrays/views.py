"""The views of all members as arrays: whom each can write to, and what their news does to them.

The laws are those of core/membership (`FullView`, `PartialView`, `MembershipNews`) for a group of founders that stay:
nobody joins, leaves or fails. Then views are full from the beginning, so no arrival enters the rumours but the founding
peers of each member, which its first message carries; and how old news is decides nothing. What is left are the rules
here: announcements every `announce_rounds`, a random peer pushed out by a new one, questions to contacts every
`reach_rounds` and after `isolation_rounds` of silence, and their answers.
"""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from whence.core.dissemination.gossip import GossipSettings
from whence.core.membership.settings import ViewSettings
from whence.errors import UsageError
from whence_lab.arrays.calendar import Ints
from whence_lab.arrays.draws import drawn_apart

NO_NEWS, ANNOUNCES, FOUNDS, SUBSCRIBES, WELCOMES = range(5)
"""What a message says of the membership: nothing; that its sender is here; that, and who its founding peers are; are
you there?; the peers of whoever was asked that."""


class Questions(NamedTuple):
    """Members that ask a peer whether it is there: their places among those whose round it is, and whom they ask."""

    askers: Ints
    asked: Ints


class FullViews:
    """Every member knows every other; there is nothing to spread. What would be sent without a bundle is left out."""

    def __init__(self, nodes: int, rng: Generator) -> None:
        self._nodes = nodes
        self._rng = rng

    def targets(self, pids: Ints, fanout: int) -> Ints:
        """Draw distinct members of the same group for each of some members, none of them itself."""
        own = pids % self._nodes
        count = min(fanout, self._nodes - 1)
        drawn = drawn_apart(self._rng, pids.size, count, self._nodes, own[:, None])
        return drawn + (pids - own)[:, None]


class PartialViews:
    """Some peers of every member, refreshed by what gossip carries."""

    def __init__(self, nodes: int, groups: int, gossip: GossipSettings, settings: ViewSettings, rng: Generator) -> None:
        if nodes <= settings.view_size:
            raise UsageError(f"partial views of {settings.view_size} need more than {nodes} members; take view=full")
        total = nodes * groups
        self._rng = rng
        self._settings = settings
        self._idle_rounds = gossip.idle_rounds
        self.peers = self._founding_peers(nodes, total)
        self._contacts = self.peers.copy()
        self._told = min(settings.view_size - 1, settings.subs_max)
        """Founding peers that first messages tell of: all but the last, which filled the view; some, if they are more
        than rumours have room for."""
        if self._told < settings.view_size - 1:
            self._contacts[:, :-1] = rng.permuted(self._contacts[:, :-1], axis=1)
        self.round = np.zeros(total, np.int32)
        self._heard_round = np.zeros(total, np.int32)
        self._announce_at = np.zeros(total, np.int32)
        self._silent = np.zeros(total, np.int16)
        self._changed = np.ones(total, bool)
        self._founding = np.ones(total, bool)
        """Its founding peers are still to be passed on."""

    def _founding_peers(self, nodes: int, total: int) -> NDArray[np.int32]:
        """Draw the peers that founders start with: the right neighbour, and others, as the simulator does."""
        own = np.arange(total) % nodes
        right = (own + 1) % nodes
        others = drawn_apart(self._rng, total, self._settings.view_size - 1, nodes, np.column_stack([own, right]))
        return np.asarray(np.column_stack([right, others]) + (np.arange(total) - own)[:, None], np.int32)

    # --- rounds ---

    def next_round(self, pids: Ints) -> Questions:
        """Begin a round of some members; return whom they ask."""
        settings = self._settings
        self.round[pids] += 1
        rounds = self.round[pids]
        quiet = rounds - self._heard_round[pids]
        alone = (quiet > 0) & (quiet % settings.isolation_rounds == 0)
        lonely, reaching = np.flatnonzero(alone), np.flatnonzero(~alone & (rounds % settings.reach_rounds == 0))
        has_lost, lost = self._lost_contacts(pids[reaching])
        return Questions(
            np.concatenate([lonely, reaching[has_lost]]), np.concatenate([self._anybody(pids[lonely]), lost])
        )

    def speaking(self, pids: Ints, carrying: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which members send a message in this round: who has a bundle or news, or was silent for long."""
        self._silent[pids] += 1
        speaks = carrying | self._changed[pids] | (self._silent[pids] >= self._idle_rounds)
        self._silent[pids[speaks]] = 0
        return speaks

    def news(self, pids: Ints) -> NDArray[np.int16]:
        """Return what the messages of some members say of the membership."""
        self._changed[pids] = False
        rounds = self.round[pids]
        due = rounds >= self._announce_at[pids]
        self._announce_at[pids[due]] = rounds[due] + self._settings.announce_rounds
        news = np.where(self._founding[pids], FOUNDS, np.where(due, ANNOUNCES, NO_NEWS))
        self._founding[pids] = False
        return news.astype(np.int16)

    def targets(self, pids: Ints, fanout: int) -> Ints:
        """Draw distinct peers for each of some members, uniformly."""
        places = drawn_apart(self._rng, pids.size, fanout, self._settings.view_size)
        return self.peers[pids[:, None], places].astype(np.int64)

    def _anybody(self, pids: Ints) -> Ints:
        """Draw a contact or a peer for each of some members that have heard nothing for long."""
        known = np.concatenate([self._contacts[pids], self.peers[pids]], axis=1)
        return known[np.arange(pids.size), self._rng.integers(0, known.shape[1], pids.size)].astype(np.int64)

    def _lost_contacts(self, pids: Ints) -> tuple[NDArray[np.bool_], Ints]:
        """Tell which of some members have a contact that is not in their view, and draw one for each that has."""
        contacts = self._contacts[pids]
        lost = ~_among(contacts, self.peers[pids])
        have: NDArray[np.bool_] = np.asarray(lost.any(axis=1))
        lots = np.where(lost[have], self._rng.random((int(have.sum()), contacts.shape[1])), -1.0)
        return have, contacts[have][np.arange(lots.shape[0]), lots.argmax(axis=1)].astype(np.int64)

    # --- what comes in ---

    def hear(self, pids: Ints) -> None:
        """Note that members got a message."""
        self._heard_round[pids] = self.round[pids]

    def meet(self, pids: Ints, senders: Ints) -> None:
        """Let each of some different members learn of one that announces itself; a random one makes room."""
        new = ~(self.peers[pids] == senders[:, None]).any(axis=1)
        pids, senders = pids[new], senders[new]
        self._changed[pids] = True
        places = self._places(pids.size)
        stays = places < self._settings.view_size  # else the newcomer itself is the one that makes room
        self.peers[pids[stays], places[stays]] = senders[stays]

    def _places(self, count: int) -> Ints:
        """Draw which of a full view and a newcomer makes room."""
        return self._rng.integers(0, self._settings.view_size + 1, count)

    def learn(self, pids: Ints, told: Ints) -> None:
        """Let each of some different members learn of several at once; then random ones make room."""
        size = self._settings.view_size
        held = self.peers[pids]
        fresh = (told != pids[:, None]) & ~_among(told, held)
        any_fresh = fresh.any(axis=1)
        pids, held, told, fresh = pids[any_fresh], held[any_fresh], told[any_fresh], fresh[any_fresh]
        self._changed[pids] = True
        lots = self._rng.random((pids.size, size + told.shape[1]), np.float32)
        lots[:, size:][~fresh] = 2.0
        kept = np.argpartition(lots, size - 1, axis=1)[:, :size]
        self.peers[pids] = np.take_along_axis(np.concatenate([held, told.astype(np.int32)], axis=1), kept, axis=1)

    def founding_news(self, senders: Ints) -> Ints:
        """Return what first messages tell of: founding peers, and the sender."""
        return np.concatenate([self._contacts[senders, : self._told].astype(np.int64), senders[:, None]], axis=1)

    def welcome(self, asked: Ints) -> Ints:
        """Return what members answer that are asked: their peers, and themselves."""
        return np.concatenate([self.peers[asked].astype(np.int64), asked[:, None]], axis=1)


def _among(values: NDArray[np.int32] | Ints, held: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which values of each row are among the row's held ones."""
    found = np.zeros(values.shape, bool)
    for at in range(held.shape[1]):
        found |= values == held[:, at, None]
    return found
