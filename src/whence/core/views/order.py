"""When a message that was got is handed to the application: at `causal` at once; total_order.py waits for its place."""

from whence.core.ready import Delivery, Mark, Ready
from whence.core.views.items import Message, ViewMessage
from whence.core.views.journal import Reserve
from whence.core.views.state import ViewState
from whence.core.views.streams import Stream
from whence.core.views.view import MarkAt, MemberId
from whence.types import Instant


class Order:
    """Hands out messages as soon as they are got: everything they follow was got before."""

    start: int | None = 0
    """A newcomer hands out nothing up to this clock."""

    def __init__(self, state: ViewState) -> None:
        self.state = state
        self._epoch = -1
        self._mark = Mark(epoch=-1)

    def mark_of(self, message: Message) -> Mark:
        """Return what is stated about a message: the epoch it was published in."""
        if message.epoch != self._epoch:
            self._epoch, self._mark = message.epoch, Mark(epoch=message.epoch)
        return self._mark

    def next_clock(self, now: Instant) -> int:
        """Return the clock of the next own message: `causal` needs none."""
        return 0

    def promise(self) -> int:
        """Return the clock that all later own messages exceed: `causal` needs none."""
        return 0

    def told(self) -> None:
        """Note that all others are told the clock: `causal` has none."""

    def reserve(self, ready: Ready) -> None:
        """Write down how far the clock may go: `causal` has none."""

    def restore(self, limit: int) -> None:
        """Take over the clock of an earlier incarnation: `causal` has none."""

    def promised(self, member: MemberId, number: int, clock: int) -> None:
        """Take the promise of a member: `causal` needs none."""

    def records(self) -> list[Reserve]:
        """Return what a rewritten journal must have of the clock."""
        return []

    def may_mark(self) -> bool:
        """Tell whether an own mark may be published."""
        return True

    def begin_at(self, start: int) -> None:
        """Set the first clock of a newcomer: `causal` has none."""

    def marked(self, mark: MarkAt) -> None:
        """Learn of an own mark."""

    def is_caught_up(self) -> bool:
        """Tell whether a newcomer that is opened is live."""
        return True

    def arrived(self, clock: int, now: Instant) -> None:
        """Learn of the clock of a message that came too early to count, or of a promise: `causal` has none."""

    def got(self, stream: Stream, message: Message, hold_ns: int, now: Instant, ready: Ready) -> None:
        """Take a message that was got just now."""
        stream.handed = stream.got
        if stream.place >= 0:
            self.state.note_handed(stream.place)
        if type(message) is ViewMessage:
            mark = self._mark if message.epoch == self._epoch else self.mark_of(message)
            ready.deliver.append(Delivery(message.bundle, hold_ns, mark))

    def progress(self, now: Instant, ready: Ready) -> None:
        """Hand out what may be handed out by now: nothing waits here."""
