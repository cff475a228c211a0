"""The error tree, by who must act.

The caller (UsageError and below), the peer (RemoteProtocolError: counted, never escapes a driver), a limit
(LimitError: names it and its value), the world (TraceError: a file that cannot be read; StorageError, JoinError), you
(ClosedError), nobody yet (OutcomeUnknownError: ask, then decide; EventsLostError, LeftOutError: publish again, or do
without), or us (InternalError: prints the seed that shows it again).
"""

from collections.abc import Sequence


def printable(text: str) -> str:
    """Return a text from outside in a form that a terminal or a log displays and does not interpret.

    Whatever is not printable (escape codes, line ends, marks that change the writing direction) is escaped.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text])


class WhenceError(Exception):
    """Anything Whence raises on purpose."""


class UsageError(WhenceError):
    """The caller asked for something impossible; the message says what would be right."""


class SettingError(UsageError):
    """A setting's value cannot work, or no setting has that name."""


class NotMemberError(UsageError):
    """The call needs a member, and this process has not joined or has left."""


class RemovedError(NotMemberError):
    """The other members removed this one from the group: says which of its own events took effect."""

    def __init__(
        self, epoch: int, cut: tuple[int, int, int] | None, *, is_known: bool = True, published: bool = True,
        is_replaced: bool = False, generation: int = 0, was_away: bool = False,
    ) -> None:  # fmt: skip
        self._given = (epoch, cut, is_known, published, is_replaced, generation)
        if not published:
            told = ""
        elif not is_known:
            told = ": how far its events took effect is no longer known"
        elif cut is None:
            told = ": its events did not take effect, and never will"
        else:
            told = f": its events up to {tuple(cut)} took effect, later ones never will"
        how, what = f"this member was removed by view {epoch}", "open the group again to join as a new one"
        if is_replaced:
            how = f"this member was replaced by another process of its name by view {epoch}"
            what = "two cannot share one: end one of them, or give it another name"
        elif generation:
            how = f"an operator forced the group to go on without this member, as generation {generation}, view {epoch}"
        super().__init__(f"{how}{told}" + ("" if was_away else f"; {what}"))
        self.epoch = epoch
        """A view that is without it: that which removed it or, after a force, one that it met."""
        self.cut = cut
        """The last of its events that took effect, as (process, incarnation, number); None: none did, or it is not
        known."""
        self.is_known = is_known
        """False: an operator forced the group, or so much happened meanwhile that nobody remembers the cut."""
        self.generation = generation
        """The generation in which an operator let the group go on without it; 0: the others decided it."""
        self.is_replaced = is_replaced
        """True: a process of the same name is a member in its place."""

    def while_away(self) -> "RemovedError":
        """Return the same verdict as it is told to whoever is back already, as a new member: there is nothing to do."""
        epoch, cut, is_known, published, is_replaced, generation = self._given
        return RemovedError(
            epoch, cut, is_known=is_known, published=published, is_replaced=is_replaced, generation=generation,
            was_away=True,
        )  # fmt: skip

    def covers(self, event: tuple[int, int, int]) -> bool:
        """Tell whether an own event took effect."""
        return self.cut is not None and event <= self.cut


class StalledError(UsageError):
    """The clock must catch up first: an event published now could be mistaken for an older one, or be refused."""

    def __init__(self, why: str, retry_ns: int) -> None:
        super().__init__(f"nothing may be published now: {why}; retry in {retry_ns / 1e6:,.0f} ms")
        self.why, self.retry_ns = why, retry_ns


class NotCoordinatorError(NotMemberError):
    """The call needs a ticket, and this process has none: says why, and after what time asking again may help."""

    def __init__(self, why: str, retry_ns: int | None) -> None:
        hint = "call acquire_ticket first" if retry_ns is None else f"retry in {retry_ns / 1e6:,.0f} ms"
        super().__init__(f"only a coordinator may publish, and this process is none: {why}; {hint}")
        self.why, self.retry_ns = why, retry_ns


class LeaseSuspendedError(NotMemberError):
    """This process has a ticket and may not use it now: says why, and after what time it may again."""

    def __init__(self, why: str, retry_ns: int) -> None:
        super().__init__(f"this coordinator may not publish now: {why}; retry in {retry_ns / 1e6:,.0f} ms")
        self.why, self.retry_ns = why, retry_ns


Refusal = StalledError | NotCoordinatorError | LeaseSuspendedError
"""Why nothing may be published now; `retry_ns` says when that may have changed, if waiting helps."""


class LimitError(UsageError):
    """A stated limit was reached: names it, its value and what was asked."""

    def __init__(self, name: str, value: int, asked: int, *, transient: bool = False) -> None:
        super().__init__(f"{name} is {value}, and {asked} were asked for")
        self.name, self.value, self.asked = name, value, asked
        self.transient = transient
        """The limit eases by itself, as others take or acknowledge: retry the same call a little later."""


class PayloadError(UsageError, TypeError):
    """What was given to publish is not bytes."""


class BackPressureError(LimitError):
    """A publish waited for room as long as it may: peers or the group's own consumer are too slow."""

    def __init__(self, name: str, value: int, asked: int, behind: str = "") -> None:
        super().__init__(name, value, asked, transient=True)
        self.behind = behind
        """A description of who has not taken what is in flight."""
        if behind:
            self.args = (f"{self}; nothing was published, and it waits for {behind}",)


class SlowConsumerError(LimitError):
    """The application did not take its deliveries in time, and its group was opened with `overflow="close"`."""


class ClosedError(WhenceError):
    """You closed it: the node, the group or the iterator accepts nothing more."""


class JoinError(WhenceError):
    """The world did not let us in: no contact answered, or the group could not be reached in time."""


class JoinTimeoutError(JoinError, TimeoutError):
    """The group could not be entered in time: names who is missing."""


WITHOUT_QUORUM = (
    "start one of them again with the data directory it had; if they are gone for good, go on with those that are left "
    "(whence force, Group.force), or begin a group of another name"
)
"""What to do where those that are left are no quorum of the voters."""


class QuorumError(WhenceError):
    """A change of the members needs voters that cannot be reached or are to go: names them."""

    def __init__(self, what: str, missing: Sequence[int]) -> None:
        names = ", ".join(map(str, missing))
        super().__init__(
            f"{what}: without the voters {names} those that stay are no quorum, and could contradict them; "
            f"{WITHOUT_QUORUM}"
        )
        self.missing = tuple(missing)


class NameTakenError(JoinError):
    """Another process has this one's pid, or a later incarnation of it is known: says which, and what to do."""


class StorageError(WhenceError):
    """The disk refused a write. Nothing further is acknowledged, and the group publishes nothing more."""


class OutcomeUnknownError(WhenceError):
    """It may have happened: the wait for an acknowledgement ended before the answer was known."""


class LeaveTimeoutError(OutcomeUnknownError, TimeoutError):
    """The group was not left in time, and the member is still leaving: names whom it waits for, and what to do."""

    def __init__(self, sentence: str, waits_for: str = "") -> None:
        super().__init__(sentence)
        self.waits_for = waits_for
        """Whom it waits for, and for what."""


class EventsLostError(WhenceError):
    """Events that were published are lost, or may be: says how many, which, and why."""

    def __init__(self, payloads: Sequence[bytes], why: WhenceError, count: int = 0) -> None:
        self.payloads = list(payloads)
        """The events themselves, in order, to publish them again; fewer than `count` where there are very many."""
        self.why = why
        self.count = count or len(self.payloads)
        events = "1 event that was published is" if self.count == 1 else f"{self.count} events that were published are"
        is_sure = why.is_known if isinstance(why, RemovedError) else not isinstance(why, OutcomeUnknownError)
        first = (
            f"the first begins with {self.payloads[0][:24]!r}" if self.payloads else "too many to retain their payloads"
        )
        super().__init__(f"{events} {'lost' if is_sure else 'lost, or may be'} ({first}): {why}")

    def and_then(self, other: "EventsLostError", bytes_max: int) -> "EventsLostError":
        """Return one error for both losses, this one first, with at most `bytes_max` bytes of payloads."""
        room = bytes_max - sum(map(len, self.payloads))
        more = other.payloads if sum(map(len, other.payloads)) <= room else []
        return EventsLostError(self.payloads + more, self.why, self.count + other.count)


class LeftOutError(WhenceError):
    """Members left out events that were waited for as settled: they came too late there, or not at all. Nobody waits
    for them any more, and the applications of those members were told of a gap. Others may have them."""

    def __init__(self, members: Sequence[object]) -> None:
        self.members = tuple(members)
        """Who left them out."""
        super().__init__(
            f"{', '.join(map(str, self.members))} left out events that came too late there; publish them again, or do "
            "without"
        )


class RemoteProtocolError(WhenceError):
    """A peer sent bytes that are not a valid item. The driver counts it and drops the bytes."""


class TraceError(WhenceError):
    """A trace cannot be read: names the file or directory and what is wrong with it."""


class InternalError(WhenceError):
    """We have a bug. Carries the seed of the run that shows it."""
