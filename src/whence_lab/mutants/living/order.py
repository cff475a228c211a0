"""Bugs in the strict total order of a living group (views 6)."""

from whence.core.ready import Ready
from whence.core.views.journal import Reserve, encode
from whence.core.views.streams import Stream
from whence.core.views.total_order import TotalOrder
from whence.core.views.view import MarkAt, MemberId
from whence.types import Instant


class WaitsForTheRemoved(TotalOrder):
    """Waits for the promise of a member that was removed (T28)."""

    _ever: dict[MemberId, Stream] | None = None

    def _is_due(self, clock: int, stream: Stream) -> bool:
        self._ever = {**(self._ever or {}), **{each.member: each for each in self.state.here}}
        others = [each for each in self._ever.values() if each is not stream and each.member != self.state.me]
        return all(other.promised >= clock for other in others)


class OverlooksTheFrozen(TotalOrder):
    """Does not wait for who is about to be removed (T29)."""

    def _is_due(self, clock: int, stream: Stream) -> bool:
        state, me = self.state, self.state.me
        return all(
            other.promised >= clock or other.member.pid in state.frozen
            for other in state.here
            if other is not stream and other.member != me
        )


class BelievesPromisesAtOnce(TotalOrder):
    """Counts a promise before the messages that it speaks of were got (T30)."""

    def promised(self, member: MemberId, number: int, clock: int) -> None:
        super().promised(member, 0, clock)


class PromisesInMemory(TotalOrder):
    """Remembers across crashes the clocks of its messages, and not what it promised besides (T31)."""

    _last = 0

    def next_clock(self, now: Instant) -> int:
        self._last = super().next_clock(now)
        return self._last

    def reserve(self, ready: Ready) -> None:
        if self.state.remembers and self._last > self._reserved:
            self._reserved = self._last
            ready.persist.append(encode(Reserve(self._last)))


class BeginsAtTheLeastMark(TotalOrder):
    """Begins as a newcomer after the first of the marks (T32)."""

    def begin_at(self, start: int) -> None:
        super().begin_at(min([start, *_base_clocks(self)]))


class BeginsWithoutTheRemoved(TotalOrder):
    """Begins as a newcomer after the marks, whatever the removed published without one (T33)."""

    def begin_at(self, start: int) -> None:
        super().begin_at(min(start, max(_base_clocks(self), default=start)))


class LiveBeforeItsFirstKey(TotalOrder):
    """Lets `open` return before everybody has promised to publish after the newcomer's first key (T34)."""

    def is_caught_up(self) -> bool:
        return True


class TakesItsOwnMark(TotalOrder):
    """Takes its own mark for the promise of those that came with it (T44)."""

    def marked(self, mark: MarkAt) -> None:
        for member, stream in self.state.streams.items():
            if mark.prev < member.joined <= mark.epoch:
                stream.promised = max(stream.promised, mark.clock)


class ForgetsWhatItLeftOut(TotalOrder):
    """Does not write down which messages before its first key it left out (T45)."""

    def _hand(self, stream: Stream, number: int, hold_ns: int, ready: Ready) -> None:
        remembers, self.state.remembers = self.state.remembers, False
        super()._hand(stream, number, hold_ns, ready)
        self.state.remembers = remembers


def _base_clocks(order: TotalOrder) -> list[int]:
    """Return the clocks of the marks with which a newcomer begins."""
    me = order.state.me
    assert me is not None
    streams = order.state.streams.values()
    return [mark.clock for stream in streams for mark in stream.marks if mark.is_base_for(me.joined)]
