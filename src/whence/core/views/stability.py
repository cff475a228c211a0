"""What is stable: which messages everybody has taken for whom they were, and which own ones a quorum has stored.

Laws: a message is retained until every member it was for has taken it; whoever entered the view that removed a member,
and no longer speaks of it, has all of it. For a quorum only those count that are in the same view. A removed member is
forgotten when nothing of it is missing, retained or untaken.
"""

from whence.core.ready import Note, Ready
from whence.core.views.items import ViewMessage
from whence.core.views.links import Links
from whence.core.views.peers import Peer
from whence.core.views.settings import ViewSettings
from whence.core.views.streams import Stream
from whence.core.views.view import MemberId
from whence.types import Bundle, EventId


def last_event(bundle: Bundle) -> EventId:
    """Return the last event of a bundle."""
    return EventId(bundle.pid, bundle.incarnation, bundle.last)


class Stability:
    """How far the messages retained here are safe, by what the other members say."""

    def __init__(self, links: Links, settings: ViewSettings) -> None:
        self.state = links.state
        self.links = links
        self.settings = settings
        self.settled = 0
        """Own messages up to here are stable."""
        self.settled_last: EventId | None = None
        """The last own event that is stable."""
        self.majority = 0
        """Own messages up to here are stored by a quorum."""
        self.majority_last: EventId | None = None
        """The last own event that is stored by a quorum, as far as it was not stable before that was known."""
        self.retained_bytes = 0
        """Payload bytes of own messages that are not stable."""
        self._settled_noted: EventId | None = None

    def settle(self, ready: Ready) -> None:
        """Drop what everybody has taken for whom it was, and notice which own messages are safe."""
        state = self.state
        if state.me is None or not state.here:
            return
        state.count_taken()
        latest, peers = state.latest, self.links.peers.values()
        places = {member: place for place, member in enumerate(latest.members)}
        mine = [state.streams[member].taken for member in latest.members]
        joined = [state.me.joined, *[peer.member.joined for peer in peers]]
        rows = [mine, *[peer.taken for peer in peers]]
        youngest, by_all = max(joined), list(map(min, *rows)) if peers else mine
        for stream in list(state.streams.values()):
            place = places.get(stream.member)
            if place is None:
                if stream.retained:
                    taken = [(state.me.joined, stream.taken), *self._taken_of_removed(stream.member)]
                    self._drop_stable(stream, min([number for _, number in taken]), taken)
                self._finish(stream, places)
                continue
            for number, message in stream.retained.items():
                if number <= by_all[place] or message.epoch < youngest:
                    taken = list(zip(joined, [row[place] for row in rows], strict=True))
                    self._drop_stable(stream, by_all[place], taken)
                break  # if the first is not stable and for all, none is
        own = state.own
        settled = next(iter(own.retained), own.got + 1) - 1
        if settled > self.settled:
            self.settled = settled
            if self.settled_last != self._settled_noted:
                self._settled_noted = self.settled_last
                ready.notes.append(Note("note", "settled", event=self.settled_last))
        self._count_majority(ready)

    def _taken_of_removed(self, member: MemberId) -> list[tuple[int, int]]:
        """Return what every other member has taken of one that was removed."""
        epoch = self.state.removal_of(member)
        return [(peer.member.joined, peer.taken_of_removed(member, epoch)) for peer in self.links.peers.values()]

    def _drop_stable(self, stream: Stream, by_all: int, taken: list[tuple[int, int]]) -> None:
        """Drop what all have taken, and what was taken by those it is for: members as old as its view."""
        mine = stream.member == self.state.me
        stable: list[int] = []
        for number, message in stream.retained.items():
            if number > by_all and any(has < number for joined, has in taken if joined <= message.epoch):
                break
            stable.append(number)
        for number in stable:  # few of what may be many
            message = stream.retained.pop(number)
            if mine and isinstance(message, ViewMessage):
                self.retained_bytes -= len(message.bundle.body)
                self.settled_last = last_event(message.bundle)

    def _finish(self, stream: Stream, places: dict[MemberId, int]) -> None:
        """Forget a removed member of which nothing is missing, retained or untaken."""
        state = self.state
        if stream.member in places or stream.retained or stream.member in state.open_cuts:
            return
        if stream.member in state.view.members or stream.taken < stream.got or stream.base is None:
            return
        del state.streams[stream.member]

    def has_quorum(self, member: MemberId, number: int) -> bool:
        """Tell whether a quorum of the voters here has a member's messages up to a number, in this view."""
        state = self.state
        has = [state.pid] if self.links.stored_numbers().get(member, 0) >= number else []
        place = state.latest.place_of(member.pid)
        if place < 0 or state.latest.members[place] != member:
            return True  # it was removed: what counts of it was flushed
        has += [pid for pid, peer in self.links.peers.items() if self._counts(peer) and peer.stored[place] >= number]
        return state.view.has_quorum(has)

    def _counts(self, peer: Peer) -> bool:
        """Tell whether what a member has stored counts here: only in the same view."""
        return peer.entered == self.state.entered

    def _count_majority(self, ready: Ready) -> None:
        state = self.state
        if not self.settings.majority or state.me is None or not state.opened:
            return
        view, has = state.view, self._stored(state.me)
        for number in sorted({has[voter.pid] for voter in view.voters if voter.pid in has}, reverse=True):
            if number <= self.majority:
                return
            if view.has_quorum(pid for pid, stored in has.items() if stored >= number):
                self.majority = number
                self._note_majority(number, ready)
                return

    def _stored(self, mine: MemberId) -> dict[int, int]:
        """Return up to which own message each member has stored, as far as that counts here."""
        has = {self.state.pid: self.links.stored_numbers().get(mine, 0)}
        for pid, peer in self.links.peers.items():
            if self._counts(peer):
                has[pid] = peer.stored[self.links.place]
        return has

    def voters_without(self, number: int) -> tuple[int, ...]:
        """Return the voters that are not known to have stored the own messages up to a number."""
        state = self.state
        if state.me is None or not state.opened:
            return ()
        has = self._stored(state.me)
        return tuple(voter.pid for voter in state.view.voters if has.get(voter.pid, 0) < number)

    def _note_majority(self, number: int, ready: Ready) -> None:
        own = self.state.own
        while number and not isinstance(own.retained.get(number), ViewMessage):
            if number not in own.retained:
                return
            number -= 1
        message = own.retained.get(number)
        if isinstance(message, ViewMessage):
            self.majority_last = last_event(message.bundle)
            ready.notes.append(Note("note", "majority", event=self.majority_last))
