"""May this be published now? It is admitted, waits for a reason that passes by itself, or is refused with an error.

Law. A publication is refused if waiting for others does not help: the group is closed or has failed, the process has no
right to write or no valid ticket, no merger answers, no bundle can carry it, or accepted events were lost and their
publisher must learn that first. Errors that pass by themselves say after how long to retry. Otherwise it waits, for the
first of these reasons that applies:

    MEMBER    the member does not accept the previous bundle yet, and nothing may overtake that
    INBOX     the application here has too many deliveries left to take
    OUTBOX    too many bytes wait for a connected peer
    WINDOW    the member has as much under way as can arrive in time
    CREDIT    too many bytes are under way that some member has not taken; the disk here may be the cause

Otherwise it is admitted. If nothing is in the way, that costs one call, reads no clock and creates no object.

Pure: what others have taken is passed in, the two ends of the group (inbox, outbox) are read, `Sources` gives the rest.
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from itertools import islice
from typing import Any, NamedTuple, NoReturn, Protocol

from whence.core.credit import CREDIT_BYTES_MIN, Credit
from whence.core.member import FlowControlled, Member
from whence.core.pacing import QUICK_S, BundlePacer
from whence.errors import BackPressureError, EventsLostError, LimitError, Refusal, StalledError, UsageError, WhenceError
from whence.limits import BUNDLE_BYTES_MAX, BUNDLE_EVENTS_MAX
from whence.types import Bundle

CREDIT_LOOK_S = 0.02
"""Credit is shared anew at most once in this time, however many publishers ask."""

LIGHT_BYTES = 64 << 10
"""If nothing waited when the outboxes were last checked, they are not checked again until this much was written."""

BUSY_BYTES = 256 << 10
"""While this many bytes wait for a peer, or a quarter of the credit is used, sending sooner would not make anything
arrive sooner: bundles then grow beyond one turn of the loop."""

LOST_BYTES_MAX = 4 << 20
"""Payload bytes of lost events that wait to be reported. Full: further events are reported without their payloads."""

NAMED_MAX = 8
"""Members that an error names. More: it says that there are others."""


class Reason(Enum):
    """What a publication waits for; see the law above."""

    MEMBER = auto()
    INBOX = auto()
    OUTBOX = auto()
    WINDOW = auto()
    CREDIT = auto()


class Inbox(Protocol):
    """What was delivered and the application here has not taken yet."""

    events: int
    events_max: int

    def full(self) -> bool:
        """Tell whether publishers should wait for the application."""


class Outbox(Protocol):
    """What was sent and has not left yet, to all peers of this process."""

    most_waiting: int
    """Bytes that waited for the slowest peer at the last check."""
    unlooked_bytes: int
    """Bytes that were written since the last check."""
    high_bytes: int
    """While more than this waits for a connected peer, publishers wait."""

    def congested(self) -> bool:
        """Tell whether publishers should wait: some connected peer is behind."""

    def waiting_bytes(self) -> int:
        """Return the number of bytes that wait for the slowest peer."""

    def waiting_by_peer(self) -> dict[int, int]:
        """Return the number of bytes that wait for each connected peer."""


class Limit(NamedTuple):
    """A limit, named after what sets it: a setting or the wire."""

    name: str
    value: int


class BundleLimits(NamedTuple):
    """What one bundle of a group may carry at most."""

    events: Limit
    bytes: Limit

    @classmethod
    def of(cls, settings: dict[str, Any]) -> "BundleLimits":
        """Return the lower of the limits set by a level's settings and by the wire."""
        most = [_lower("publish_bytes_max", settings["publish_bytes_max"], BUNDLE_BYTES_MAX)]
        if "retained_bytes_max" in settings:
            most.append(Limit("retained_bytes_max // 4", settings["retained_bytes_max"] // 4))
        return cls(
            _lower("publish_events_max", settings["publish_events_max"], BUNDLE_EVENTS_MAX),
            min(most, key=lambda limit: limit.value),
        )


class Sources(NamedTuple):
    """What a flow asks for when it needs it."""

    clock: Callable[[], float]
    """Return the time in seconds, from an arbitrary start."""
    members: Callable[[], int]
    """Return the number of members that share the group's credit."""
    publishers: Callable[[], int]
    """Return the number of members that publish, including this one."""
    unsettled: Callable[[], Iterable[int]]
    """Return the members that are not known to have the oldest event published here that some member lacks."""
    disk_is_behind: Callable[[], bool]
    """Tell whether something of the member waits for the disk."""
    refusal: Callable[[], Refusal | None] | None = None
    """Return why the member would refuse any publication: a ticket, a lease, a clock. None: it never does."""
    named: Callable[[int], int] = int
    """Return a pid that messages show with its name, where it has one."""


class Flow:
    """The flow control of one publisher in one group."""

    def __init__(
        self, me: int, member: Member, limits: BundleLimits, inbox: Inbox, outbox: Outbox, sources: Sources,
        *, held_bytes_max: int | None = None,
    ) -> None:  # fmt: skip
        """`held_bytes_max`: the bytes that members may hold back, at levels that hold events back on purpose."""
        self.limits = limits
        self.credit = Credit(me, held_bytes_max)
        self.pacer = BundlePacer(measures=held_bytes_max is None)
        self.published_events = 0
        self.refused: WhenceError | None = None
        """Why the member does not accept the waiting bundle yet; it will later. Set by the caller that offers it."""
        self.refusal = sources.refusal
        self._me = me
        self._controlled = member if isinstance(member, FlowControlled) else None
        self._inbox, self._outbox = inbox, outbox
        self._sources = sources
        self._events_max, self._bytes_max = limits.events.value, limits.bytes.value
        self._shared_until = 0.0
        self._barred = False
        """One of the next three is set."""
        self._lost: EventsLostError | None = None
        self._closed: WhenceError | None = None
        self._forbidden: UsageError | None = None

    # --- the question ---

    def admit(self, events: int, size: int) -> Reason | None:
        """Return None if `events` events of `size` bytes may be published now, else the reason they wait for.

        Raises the error that refuses them.
        """
        if self._barred:
            self._refuse()
        if self.refusal is not None and (refusal := self.refusal()) is not None:
            raise refusal
        if size > self._bytes_max or events > self._events_max:
            raise self._too_large(events, size)
        outbox, inbox, credit = self._outbox, self._inbox, self.credit
        if (
            not outbox.most_waiting
            and outbox.unlooked_bytes <= LIGHT_BYTES
            and inbox.events < inbox.events_max
            and credit.away_bytes <= credit.light_bytes
            and self._controlled is None
            and self.refused is None
        ):
            return None
        return self.reason()

    def reason(self) -> Reason | None:
        """Return the reason why nothing can be published now; None if there is none."""
        if self.refused is not None:
            return Reason.MEMBER
        if self._inbox.full():
            return Reason.INBOX
        if self._outbox.congested():
            return Reason.OUTBOX
        return self.ahead()

    def ahead(self) -> Reason | None:
        """Return WINDOW or CREDIT if too much is under way that members have not taken or acknowledged; else None."""
        if self._controlled is not None and self._controlled.held_back():
            return Reason.WINDOW
        credit = self.credit
        if credit.away_bytes <= CREDIT_BYTES_MIN:
            return None
        now = self._sources.clock()
        if now >= self._shared_until:
            self._shared_until = now + CREDIT_LOOK_S
            credit.share(self._sources.members(), self._sources.publishers(), now)
        return Reason.CREDIT if credit.is_used_up(now) else None

    def _too_large(self, events: int, size: int) -> LimitError:
        limit, asked = self.limits.events, events
        if events <= limit.value:
            limit, asked = self.limits.bytes, size
        return LimitError(*limit, asked)

    # --- pacing ---

    def is_busy(self) -> bool:
        """Tell whether peers are so busy that what is sent now would not arrive sooner than what is sent later."""
        outbox, credit = self._outbox, self.credit
        may_wait = outbox.most_waiting or outbox.unlooked_bytes > LIGHT_BYTES
        if may_wait and outbox.waiting_bytes() > BUSY_BYTES:
            return True
        return credit.away_bytes > credit.light_bytes and credit.is_strained()

    def gap_s(self) -> float:
        """Return how long a bundle that nobody waits for should be delayed to gather more events; 0 or less: not at
        all."""
        pacer = self.pacer
        return 0.0 if pacer.delivery_s <= QUICK_S else pacer.gap_s(self._sources.clock())

    def may_go_alone(self, turn_at: float) -> bool:
        """Tell whether events published together may go out before the turn of the loop ends."""
        return not self.is_busy() and self.gap_s() <= 0 and self.pacer.may_go_alone(turn_at)

    # --- what is reported to it ---

    def published(self, bundle: Bundle, count: int) -> None:
        """Record an own bundle of `count` events, before any member can have taken any of it."""
        last, now = bundle.first + count - 1, self._sources.clock()
        self.published_events += count
        self.credit.published(last, len(bundle.body), now)
        self.pacer.published(last, now)

    def reached(self, peer: int, last: int, waited_s: float = 0.0) -> bool:
        """Record that a member's application took own events up to `last`, `waited_s` ago; return whether that is
        news."""
        is_news = self.credit.reached(peer, last)
        if is_news:
            self.pacer.taken(last, waited_s, self._sources.clock())
        return is_news

    def forbid(self, error: UsageError) -> None:
        """Refuse everything: the process has no right to write."""
        self._forbidden, self._barred = error, True

    def close(self, error: WhenceError) -> None:
        """Refuse everything from now on: the group is closed or has failed."""
        self._closed, self._barred = error, True

    def lost(self, error: EventsLostError) -> None:
        """Refuse the next publication, once: its publisher must learn first which accepted events were lost."""
        self._lost = error if self._lost is None else self._lost.and_then(error, LOST_BYTES_MAX)
        self._barred = True

    def tell_lost(self) -> None:
        """Raise EventsLostError, once, if accepted events were lost since the last call."""
        lost, self._lost = self._lost, None
        self._barred = self._closed is not None or self._forbidden is not None
        if lost is not None:
            raise lost

    def _refuse(self) -> NoReturn:
        self.tell_lost()
        error = self._closed or self._forbidden
        assert error is not None
        raise error.with_traceback(None)  # else each raise would retain the frames of earlier ones

    # --- why it waits, as text ---

    def error(self, reason: Reason | None) -> WhenceError:
        """Return the error for a wait that took too long: the limit that was reached, and which members are behind."""
        if reason is Reason.MEMBER:
            if isinstance(self.refused, StalledError):
                return self.refused
            if isinstance(self.refused, LimitError):
                refused = self.refused
                return BackPressureError(refused.name, refused.value, refused.asked, self._unsettled())
        elif reason is Reason.INBOX:
            inbox = self._inbox
            return BackPressureError("inbox_events_max", inbox.events_max, inbox.events + 1, "the application here")
        elif reason is Reason.OUTBOX:
            high, waiting = self._outbox.high_bytes, self._outbox.waiting_by_peer()
            slow = [pid for pid, size in waiting.items() if size > high] or waiting
            return BackPressureError("outbox_high_bytes", high, max(waiting.values(), default=0), named(slow))
        window = self._controlled.full_window() if self._controlled is not None else None
        if window is not None:
            return BackPressureError(*window, "the mergers")
        credit = self.credit
        behind = ", ".join(self._behind(pid) for pid in credit.behind()[:NAMED_MAX])
        return BackPressureError("CREDIT_BYTES", credit.limit_bytes(), credit.away_bytes, behind)

    def describe(self, reason: Reason | None = None) -> str:
        """Return, as text, the limit that is reached and who is behind; without `reason`, for the present reason."""
        why = self.error(reason or self.reason())
        if not isinstance(why, BackPressureError):
            return str(why)
        return f"{why.name} is {why.value}" + (f", and {why.behind} must take more" if why.behind else "")

    def _unsettled(self) -> str:
        """Return who has not taken all that was published here, this process too."""
        others = named(self._sources.unsettled())
        here = self._behind(self._me) if self.credit.reported_by(self._me) < self.credit.last else ""
        return " and ".join(filter(None, [others, here]))

    def _behind(self, pid: int) -> str:
        if pid != self._me:
            return f"process {self._sources.named(pid)}"
        return "the disk here" if self._sources.disk_is_behind() else "the application here"


def passes(refusal: WhenceError) -> bool:
    """Tell whether a member that refuses a publication now will accept it a little later."""
    return isinstance(refusal, StalledError) or (isinstance(refusal, LimitError) and refusal.transient)


def named(pids: Iterable[int]) -> str:
    """Return processes as text for a sentence."""
    listed = [str(pid) for pid in islice(pids, NAMED_MAX + 1)]
    if not listed:
        return ""
    more = " and others" if len(listed) > NAMED_MAX else ""
    return f"{'process' if len(listed) == 1 else 'processes'} {', '.join(listed[:NAMED_MAX])}{more}"


def _lower(name: str, chosen: int, wire: int) -> Limit:
    """Return the lower limit, named after what sets it: the level's settings, or the wire."""
    return Limit(name, chosen) if chosen < wire else Limit(name.replace("publish", "bundle").upper(), wire)
