"""Bugs in the exchange of messages among members that stay: order, acknowledgements, repetition, what is written down
(views 5.1 to 5.3, 5.9). Nobody need come or go for them to show."""

from collections.abc import Sequence

from msgspec import structs

from whence.core.ready import Delivery, Ready, Returned, Send
from whence.core.views.changes import Changes
from whence.core.views.inbox import Inbox
from whence.core.views.items import Fetch, Message, ViewMessage
from whence.core.views.journal import Journal
from whence.core.views.links import Links
from whence.core.views.member import ViewMember
from whence.core.views.peers import Peer
from whence.core.views.stability import Stability
from whence.core.views.state import ViewState
from whence.core.views.streams import Stream
from whence.types import Bundle, Instant

# --- clocks ---


class KeepsOnlyPublishersOrder(ViewState):
    """Keeps the order of each publisher, and no other."""

    def is_ready(self, message: Message, stream: Stream, number: int) -> bool:
        return super().is_ready(structs.replace(message, past=[0] * len(message.past)), stream, number)


class ComparesOneTooFew(ViewState):
    """Does not compare the last entry of the clock."""

    def is_ready(self, message: Message, stream: Stream, number: int) -> bool:
        return super().is_ready(structs.replace(message, past=[*message.past[:-1], 0]), stream, number)


class TellsAnOldPast(Changes):
    """Sends the past that it had when it last published in the same view."""

    _told: list[int] | None = None
    _told_in = -1

    def past(self, own: Stream) -> list[int]:
        past, before = super().past(own), self._told if self._told_in == self.state.entered else None
        self._told, self._told_in = past.copy(), self.state.entered
        if before is None:
            return past
        before[self.state.place] = past[self.state.place]
        return before


class PassesOnWithoutThePast(Inbox):
    """Passes on another publisher's message with its number alone."""

    def answer(self, sender: int, asked: Fetch, ready: Ready) -> None:
        found = Ready()
        super().answer(sender, asked, found)
        for send in found.send:
            item = send.item
            assert isinstance(item, Message)
            past = [number if place == item.origin else 0 for place, number in enumerate(item.past)]
            ready.send.append(Send(send.to, structs.replace(item, past=past)))


# --- acknowledgements ---


class WaitsForTheFirstOnly(Links):
    """Repeats until a member has the first message that is retained, whatever it lacks of the others (T46)."""

    def waits_for(self, peer: Peer) -> bool:
        whole = {stream: stream.retained for stream in self.state.streams.values()}
        for stream, retained in whole.items():
            stream.retained = dict(list(retained.items())[:1])
        try:
            return super().waits_for(peer)
        finally:
            for stream, retained in whole.items():
                stream.retained = retained


class SettlesWithoutTheSilent(Stability):
    """Forgets a message once every member that it does not suspect has it."""

    def settle(self, ready: Ready) -> None:
        got = [self.state.streams[member].got for member in self.state.latest.members] if self.state.opened else []
        for pid in self.links.suspects.now if got else ():
            if pid in self.links.peers:
                peer = self.links.peers[pid]
                peer.raise_to(peer.got, got)
        super().settle(ready)


# --- messages ---


class TakesDuplicates(Inbox):
    """Delivers a message as often as it comes."""

    def receive(self, sender: int, message: Message, now: Instant, ready: Ready) -> None:
        member = self.state.origin_of(message)
        stream = self.state.streams.get(member) if member is not None and member != self.state.me else None
        again = stream is not None and (stream.base or 0) <= message.number <= stream.got
        super().receive(sender, message, now, ready)
        if again and isinstance(message, ViewMessage):
            ready.deliver.append(Delivery(message.bundle))


class HoldsWithoutBound(Inbox):
    """Holds back as many messages as come."""

    def _hold(self, stream: Stream, message: Message, number: int, now: Instant, ready: Ready) -> None:
        counted, self.held_count = self.held_count, 0
        super()._hold(stream, message, number, now, ready)
        self.held_count += counted


# --- what is written down ---


class ForgetsItsOwnInACrash(Journal):
    """Does not persist what it publishes, and uses its numbers again after a crash."""

    def own(self, message: Message, ready: Ready) -> None:
        if not isinstance(message, ViewMessage):
            super().own(message, ready)


class DeliversAgain(ViewMember):
    """Hands over everything it has again after a crash."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        ready = super().restore(records, now)
        if self.state.me is not None:
            own = self.state.own.retained.values()
            ready.deliver += [Delivery(message.bundle) for message in own if isinstance(message, ViewMessage)]
        return ready


class DeliversNothingTwice(ViewMember):
    """Hands over nothing of its own from before a crash, whether the application had it or not."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        ready = super().restore(records, now)
        ready.deliver = [step for step in ready.deliver if isinstance(step, Returned)]
        return ready


class NotForItself(ViewMember):
    """A publisher does not deliver its own messages."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        bundle, ready = super().publish(payloads, now)
        ready.deliver = [step for step in ready.deliver if isinstance(step, Returned)]
        return bundle, ready
