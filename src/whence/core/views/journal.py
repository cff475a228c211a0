"""What a member of a living group writes to its journal, each record before anything that follows from it is sent.

Own messages; views adopted and entered; votes and promises; what is frozen; where a newcomer begins; marks of others;
what the application has taken; and custody: messages of others, as far as a change or a majority needs them.
"""

from msgspec import DecodeError, Struct, msgpack

from whence.core.ready import Ready
from whence.core.views.items import Message, ViewMark, ViewMessage
from whence.core.views.state import ViewState
from whence.core.views.streams import Stream
from whence.core.views.view import Ballot, MarkAt, MemberId, View
from whence.errors import StorageError
from whence.types import Bundle, EventId


class Adopted(Struct, frozen=True, tag=40, array_like=True, gc=False):
    """A view that is decided; and the slots in which the application's progress with new members is counted."""

    view: View
    slots: list[tuple[int, int, int, int]]
    """Peer, epoch it was added in, slot, and what was counted there before."""


class Entered(Struct, frozen=True, tag=41, array_like=True, gc=False):
    """A view that was entered."""

    epoch: int


class Published(Struct, frozen=True, tag=42, array_like=True, gc=False):
    """An own message."""

    origin: int
    epoch: int
    past: list[int]
    clock: int
    wants_majority: bool
    bundle: Bundle


class Marked(Struct, frozen=True, tag=43, array_like=True, gc=False):
    """An own mark."""

    origin: int
    epoch: int
    past: list[int]
    clock: int
    prev: int


class TakenCounts(Struct, frozen=True, tag=44, array_like=True, gc=False):
    """How far the application is, by slot."""

    counts: list[int]


class Voted(Struct, frozen=True, tag=45, array_like=True, gc=False):
    """A promise, and the last vote."""

    instance: int
    promised: Ballot
    accepted: Ballot
    value: View | None


class Frozen(Struct, frozen=True, tag=46, array_like=True, gc=False):
    """Members whose messages are not taken until the instance is decided, and the ballot that was reported to."""

    instance: int
    ballot: Ballot
    pids: list[int]


class Base(Struct, frozen=True, tag=47, array_like=True, gc=False):
    """Where a stream begins here, and the marks of its member that are known by then: strict order needs their
    clocks."""

    pid: int
    joined: int
    base: int
    marks: list[MarkAt]


class Opened(Struct, frozen=True, tag=48, array_like=True, gc=False):
    """A newcomer was opened."""

    start_clock: int


class MarkSeen(Struct, frozen=True, tag=49, array_like=True, gc=False):
    """A mark of another member."""

    pid: int
    joined: int
    mark: MarkAt


class Custody(Struct, frozen=True, tag=50, array_like=True, gc=False):
    """A message of another member."""

    origin: int
    epoch: int
    past: list[int]
    clock: int
    wants_majority: bool
    bundle: Bundle


class MarkCustody(Struct, frozen=True, tag=51, array_like=True, gc=False):
    """A mark of another member, as a message."""

    origin: int
    epoch: int
    past: list[int]
    clock: int
    prev: int


class StreamAt(Struct, frozen=True, tag=53, array_like=True, gc=False):
    """A stream as it is: in a rewritten journal."""

    pid: int
    joined: int
    nonce: int
    slot: int
    start: int
    counted: int
    base: int
    taken: int
    silent: list[int]
    marks: list[MarkAt]
    in_view: bool


class OwnAt(Struct, frozen=True, tag=54, array_like=True, gc=False):
    """This member as it is: in a rewritten journal."""

    pid: int
    joined: int
    published: int
    bundles: int
    mark_epoch: int
    opened: bool
    settled: EventId | None


class RemovedAt(Struct, frozen=True, tag=55, array_like=True, gc=False):
    """This member was removed: it may be the only one up that knows the view (T63)."""

    epoch: int
    view: View | None = None
    """None: written by an earlier version."""


class Skipped(Struct, frozen=True, tag=57, array_like=True, gc=False):
    """A message from before a newcomer's first key: its application is not handed it."""

    pid: int
    joined: int
    number: int


class Reserve(Struct, frozen=True, tag=56, array_like=True, gc=False):
    """The clock stays below this; a later incarnation begins there."""

    limit: int


class Former(Struct, frozen=True, array_like=True, gc=False):
    """How the others removed this member, and how far its events took effect; see RemovedError."""

    epoch: int
    cut: EventId | None
    is_known: bool
    published: bool
    is_replaced: bool
    generation: int


class Ended(Struct, frozen=True, tag=58, array_like=True, gc=False):
    """This member is out, and enough of the others know: what comes later belongs to another member."""

    bundles: int
    """Own messages with events, in all incarnations and memberships."""
    former: Former | None = None
    """The verdict if it was removed. It is kept until a later membership is opened: only then the application was told
    for certain."""


class Lost(Struct, frozen=True, tag=59, array_like=True, gc=False):
    """Own events that a view without this member leaves out, written as it ended; no application was told of them."""

    bundle: Bundle


class LostTold(Struct, frozen=True, tag=60, array_like=True, gc=False):
    """The application was told of all own events that views have left out so far."""


class FixedGroup(Struct, frozen=True, tag=32, array_like=True, gc=False):
    """The first record of a group with fixed members, and how its messages spread: no living group begins with it."""

    processes: list[int]
    founders: list[tuple[int, int]]
    spread: str


Entry = (
    Adopted | Entered | Published | Marked | TakenCounts | Voted | Frozen | Base | Opened | MarkSeen | Custody
    | MarkCustody | StreamAt | OwnAt | RemovedAt | Reserve | Skipped | Ended
    | Lost | LostTold
)  # fmt: skip

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry | FixedGroup] = msgpack.Decoder(Entry | FixedGroup)


def decode(record: bytes) -> Entry:
    """Return the entry in a record. Raises StorageError for an unknown record: nothing after it could be trusted."""
    try:
        entry = _decoder.decode(record)
    except DecodeError as error:
        raise StorageError(
            f"the journal has a record that no living group wrote: {error}. Give the settings with which the group "
            "began (spread, order), or open a group of another name"
        ) from None
    if isinstance(entry, FixedGroup):
        raise _fixed(entry)
    return entry


def _fixed(group: FixedGroup) -> StorageError:
    if group.spread.startswith("spread=tree"):
        return StorageError(
            f"the journal is of a group on a tree that began with {group.spread}, and now it would be a living group; "
            "give the settings it began with, or open a group of another name"
        )
    return StorageError(
        "the journal is of a mesh with fixed members, as earlier versions made them; the members of a mesh change now, "
        "and its records are not read. Let every member take everything with the version that wrote it, then open a "
        "group of another name, or move the directory away at all members and begin the group again"
    )


class Journal:
    """Writes the records of one member, if anything is retained across its crashes."""

    def __init__(self, state: ViewState) -> None:
        self.state = state
        self.on = state.remembers
        self.counts_written: list[int] = []

    def write(self, entry: Entry, ready: Ready) -> None:
        """Persist a record."""
        if self.on:
            ready.persist.append(encode(entry))

    def own(self, message: Message, ready: Ready) -> None:
        """Persist an own message."""
        if self.on:
            self.write(_own(message), ready)

    def adopted(self, view: View, added: list[Stream], ready: Ready) -> None:
        """Persist a view."""
        slots = [(stream.member.pid, stream.member.joined, stream.slot, stream.start) for stream in added]
        self.write(Adopted(view, slots), ready)

    def mark_seen(self, stream: Stream, mark: ViewMark, ready: Ready) -> None:
        """Persist a mark of another member: it is not fetched again, and newcomers may need it."""
        if self.on:
            self.write(MarkSeen(stream.member.pid, stream.member.joined, mark.at()), ready)

    def taken(self, ready: Ready) -> None:
        """Persist how far the application is, before it is acknowledged."""
        counts = self.state.taken_counts
        if self.on and counts != self.counts_written:
            self.counts_written = counts.copy()
            last = max((place + 1 for place, count in enumerate(counts) if count), default=0)
            self.write(TakenCounts(counts[:last]), ready)

    def begins(self, stream: Stream, ready: Ready) -> None:
        """Persist where a stream begins here."""
        member = stream.member
        self.write(Base(member.pid, member.joined, stream.base or 0, stream.marks.copy()), ready)

    def store(self, stream: Stream, upto: int, ready: Ready) -> None:
        """Take custody of another member's messages up to a number, as far as they are retained."""
        if not self.on or stream.member == self.state.me:
            return
        for number, message in stream.retained.items():
            if stream.stored < number <= upto:
                ready.persist.append(encode(_custody(message)))
        stream.stored = max(stream.stored, upto)

    def barrier(self, ready: Ready) -> None:
        """Take custody of everything that was got and is not stable: the past of a message must be as safe as it is."""
        for stream in self.state.streams.values():
            self.store(stream, stream.got, ready)


def _own(message: Message) -> Published | Marked:
    if isinstance(message, ViewMark):
        return Marked(message.origin, message.epoch, message.past, message.clock, message.prev)
    return Published(
        message.origin, message.epoch, message.past, message.clock, message.wants_majority, message.bundle
    )  # fmt: skip


def _custody(message: Message) -> Custody | MarkCustody:
    if isinstance(message, ViewMark):
        return MarkCustody(message.origin, message.epoch, message.past, message.clock, message.prev)
    return Custody(message.origin, message.epoch, message.past, message.clock, message.wants_majority, message.bundle)


def message_in(entry: Published | Marked | Custody | MarkCustody) -> Message:
    """Return the message in a record; it says nothing about what was taken."""
    if isinstance(entry, Marked | MarkCustody):
        return ViewMark(entry.origin, entry.epoch, entry.past, entry.clock, entry.prev)
    return ViewMessage(entry.origin, entry.epoch, entry.past, entry.clock, entry.wants_majority, [], entry.bundle)


def record_of_own(message: Message) -> bytes:
    """Return the record of an own message, for a rewritten journal."""
    return encode(_own(message))


def record_of_custody(message: Message) -> bytes:
    """Return the record of another member's message, for a rewritten journal."""
    return encode(_custody(message))


def streams_in(state: ViewState, member: MemberId) -> Stream:
    """Return a member's stream. Raises StorageError for a record about a member that is not known."""
    stream = state.streams.get(member)
    if stream is None:
        raise StorageError(f"the journal speaks of member {member.pid} of epoch {member.joined}, whom no view has")
    return stream
