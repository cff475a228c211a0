"""One member's messages, as another member sees them: received, handed out, retained for others, held back.

Laws: `got` is the one measure. Messages from `base` to `got` were received with everything they follow that is for this
member, so a maximum over members is closed too. What was got is retained until it is stable: until everybody it is for
has taken it. Marks are numbered like messages, and no application takes them.
"""

from collections import deque

from msgspec import Struct

from whence.core.views.items import Message, ViewMark
from whence.core.views.view import MARKS_MAX, MarkAt, MemberId
from whence.types import Instant


class Held(Struct, eq=False, gc=False):
    """A message that came before something it follows."""

    message: Message
    since: Instant
    is_kept: bool = False
    """It is in the journal, and perhaps nowhere else."""


class Stream:
    """The messages of one member."""

    __slots__ = (
        "base", "clock", "counted", "got", "handed", "held", "in_part", "last_epoch", "marks", "member", "nonce",
        "place", "promised", "retained", "silent", "slot", "start", "stored", "taken",
    )  # fmt: skip

    def __init__(self, member: MemberId, nonce: int, slot: int, start: int, base: int | None) -> None:
        self.member = member
        self.nonce = nonce
        """Processes before this incarnation were other members."""
        self.slot = slot
        """Where the application's progress with this stream is counted, in messages with events."""
        self.start = self.counted = start
        """What was counted there before this stream, and up to the last look."""
        self.place = -1
        """Its place in the view that was entered, or -1."""
        self.base = base
        """The first number that is for this member; None: not known yet."""
        self.got = self.taken = self.handed = 0 if base is None else base - 1
        self.in_part = 0
        """The number of a message that the application had in hand in an earlier incarnation, and published after; 0:
        none."""
        self.clock = 0
        """The clock of the last message that was got."""
        self.last_epoch = member.joined
        """The epoch of that message."""
        self.promised = 0
        """All later messages have a later clock."""
        self.retained: dict[int, Message] = {}
        """Messages that were got and are not known to be stable, by number, in order."""
        self.held: dict[int, Held] = {}
        self.marks: list[MarkAt] = []
        self.silent: deque[int] = deque()
        """Numbers of marks beyond what was taken: they need not be taken."""
        self.stored = 0
        """Messages up to here are in the journal, or were taken (`keep`)."""

    def begin_at(self, base: int) -> None:
        """Set where the stream begins here."""
        self.base = base
        self.got = max(self.got, base - 1)
        self.taken = max(self.taken, base - 1)
        self.handed = max(self.handed, base - 1)

    def seen(self, mark: MarkAt) -> None:
        """Remember a mark, for newcomers that begin there."""
        if not self.marks or self.marks[-1].number < mark.number:
            self.marks.append(mark)
            del self.marks[:-MARKS_MAX]

    def get(self, message: Message, number: int) -> None:
        """Count a message as got, and retain it."""
        self.got = number
        self.last_epoch = message.epoch
        if message.clock > self.clock:
            self.clock = message.clock
        self.retained[number] = message
        if type(message) is ViewMark:
            self.seen(message.at())
            self.silent.append(number)

    def take(self, counted: int, upto: int | None = None) -> None:
        """Set how many messages with events were counted in the slot; marks that were handed out, or up to a number,
        need not be taken."""
        handed = self.handed if upto is None else upto
        left, self.counted = counted - self.counted, max(counted, self.counted)
        taken, silent = self.taken, self.silent
        while True:
            if silent and silent[0] <= taken + 1 and silent[0] <= handed:
                taken = max(taken, silent.popleft())
            elif left > 0:
                some = min(left, silent[0] - taken - 1) if silent else left
                taken += some
                left -= some
            else:
                break
        self.taken = taken

    def skip(self, number: int) -> None:
        """Note a message that the application is not handed, so that it need not be taken."""
        self.silent = deque(sorted({*self.silent, number}))

    @property
    def acted_on(self) -> int:
        """Return the number up to which this process may have acted on messages, in any incarnation."""
        return max(self.got, self.in_part)

    @property
    def held_from(self) -> int:
        """Return the first number from which on every message that was got is retained."""
        number = self.got + 1
        while number - 1 in self.retained:
            number -= 1
        return number

    def base_for(self, joined: int) -> int | None:
        """Return where a member that was added in an epoch begins this stream, if its mark is known."""
        for mark in self.marks:
            if mark.is_base_for(joined):
                return mark.number
        return None
