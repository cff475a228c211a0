"""Promises that no message carries: when a member of a strict group tells its clock to the others.

Laws: whoever got a message with a clock above what it has told owes the others its own clock, because all of them wait
for it. Its next message says it as well, and so does an acknowledgement to all; a beat says it where neither comes in
time. A beat goes out at once if there was none just before; else what comes in one turn of the loop shares one at its
end. Where more than three members may owe beats, whoever
has told its clock often pauses: the messages that come meanwhile share the next beat, or the own message that saves it.
Costs: a small item to every other member; at most one for every message that was got, and one for every pause.
"""

from whence.core.ready import NEVER, Ready, Send
from whence.core.views.items import Beat
from whence.core.views.links import Links
from whence.core.views.order import Order
from whence.types import Instant

NO_PAUSE_MAX = 2
"""With so many others or fewer there is no pause: their beats cost nobody much."""

ALONE_NS = 250_000
"""If the clock was told this long ago, the next beat does not wait for others to share it."""

AT_ONCE = 4
"""The clock may be told so many times at once after a silence."""


class Beats:
    """The beats of one member."""

    def __init__(self, links: Links, order: Order, pause_ns: int) -> None:
        self.at: Instant = NEVER
        """When the next beat is due."""
        self._links, self._state, self._order = links, links.state, order
        self._pause_ns = pause_ns
        self._next: Instant = -NEVER
        """When the clock would be told next if there had been a pause each time."""
        self._told_at: Instant = -NEVER

    def owe(self, now: Instant) -> None:
        """Plan to tell the clock at the end of this turn, or when the pause allows it."""
        if self.at == NEVER:
            self.at = max(now, self._next - (AT_ONCE - 1) * self._pause())

    def is_alone(self, now: Instant) -> bool:
        """Tell whether a beat that is due should go out before the turn ends."""
        return now - self._told_at >= ALONE_NS

    def told(self, now: Instant) -> None:
        """Note that all others are told the clock."""
        self.at, self._told_at = NEVER, now
        self._next = max(now, self._next) + self._pause()
        self._order.told()

    def tell(self, now: Instant, ready: Ready) -> None:
        """Tell the clock to all."""
        self.told(now)
        if self._links.all:
            state = self._state
            ready.send.append(Send(self._links.all, Beat(state.adopted, state.own.got, self._order.promise())))

    def _pause(self) -> int:
        """Return how far apart beats are in the long run: the more members there are, the more each of them costs."""
        return self._pause_ns * max(0, len(self._links.all) - NO_PAUSE_MAX)
