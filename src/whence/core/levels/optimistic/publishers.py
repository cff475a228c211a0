"""Who published under which ticket and epoch: whom to ask for an event, and how an event that was skipped is named.

A stamp counts events per epoch; the application knows them by process and number. The two are matched as soon as one
bundle of the epoch has come. What was skipped before that is reported then.
Source: docs/papers/optimistic.md 6.4, 6.5; traps C10, C12.
"""

from collections.abc import Callable

from msgspec import Struct

from whence.core.clocks.cct import Stamp, epoch_of, number_of
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.ready import Gap, Gauge, Note, Ready
from whence.types import Bundle, Process, Span

EPOCHS_MAX = 8
"""Epochs per ticket whose publishers are remembered. Full: the lowest epoch is forgotten."""

UNNAMED_MAX = 256
"""Skipped ranges whose publishers are not known yet. Full: the oldest is never reported."""

SUSPECTS_MAX = 256
"""Peers that did not answer. Full: the one noted first is asked again."""


class Publisher(Struct, frozen=True, gc=False):
    """Who published under a ticket and epoch; its own numbers are the clock's plus `shift`."""

    process: Process
    shift: int
    base: int


class Publishers:
    """The publishers of the latest epochs of every ticket."""

    def __init__(self) -> None:
        self.owner_of: Callable[[TicketEpoch], Process | None] = lambda _: None
        """Knows by hearsay who owns a ticket of which nothing has come yet; lent by the tickets."""
        self._known: dict[int, dict[int, Publisher]] = {}
        self._unnamed: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """Skipped numbers, by ticket and epoch."""
        self._suspects: dict[int, None] = {}

    def of(self, ticket: int, epoch: int) -> Publisher | None:
        """Return the publisher of an epoch if a bundle of it has come."""
        return self._known.get(ticket, {}).get(epoch)

    def base_of(self, ticket: int, epoch: int) -> int:
        """Return where an epoch began, or 0 if that is not known."""
        known = self.of(ticket, epoch)
        return known.base if known is not None else 0

    def learn(self, bundle: Bundle, stamp: Stamp, ready: Ready) -> None:
        """Remember who publishes under an epoch, and report what was skipped of it before that was known."""
        epochs = self._known.setdefault(stamp.ticket, {})
        if stamp.epoch in epochs:
            return
        shift = bundle.last - number_of(stamp.entry)
        epochs[stamp.epoch] = Publisher(bundle.process, shift, stamp.base)
        if len(epochs) > EPOCHS_MAX:
            del epochs[min(epochs)]
        ranges = self._unnamed.pop((stamp.ticket, stamp.epoch), [])
        spans = [
            Span(*bundle.process, max(1, first + shift), last + shift) for first, last in ranges if last + shift > 0
        ]
        if spans:
            ready.deliver.append(Gap(tuple(spans)))

    def report_skipped(self, stamp: Stamp, clock: list[int], ready: Ready) -> None:
        """Report what is given up for good by delivering a bundle now: all it follows that the clock lacks."""
        spans: list[Span] = []
        named = True
        for ticket, upto in enumerate(stamp.vector):
            since = clock[ticket]
            if ticket == stamp.ticket:
                upto = stamp.before
                if number_of(upto) == 0 and stamp.base > since:
                    named &= self._name(ticket, since, stamp.base, spans)
            if upto > since:
                named &= self._name(ticket, since, upto, spans)
        if spans:
            ready.deliver.append(Gap(tuple(spans)))
        if not named:  # it may never be: nothing else of that epoch need come
            ready.notes.append(Note("reset", "unnamed"))

    def _name(self, ticket: int, since: int, upto: int, spans: list[Span]) -> bool:
        """Add the span of a ticket's events above one entry up to another, or keep it until its publisher is known.

        Returns False in the latter case.
        """
        epoch = epoch_of(upto)
        first = number_of(since) + 1 if epoch_of(since) == epoch else 1
        last = number_of(upto)
        if last < first:
            return True
        known = self.of(ticket, epoch)
        if known is not None:
            spans.append(Span(*known.process, first + known.shift, last + known.shift))
            return True
        self._unnamed.setdefault((ticket, epoch), []).append((first, last))
        if len(self._unnamed) > UNNAMED_MAX:
            del self._unnamed[next(iter(self._unnamed))]
        return False

    # --- whom to ask ---

    def pid_of(self, ticket: int, epoch: int) -> int | None:
        """Return who published under a ticket and epoch, unless it stopped answering."""
        known = self.of(ticket, epoch)
        process = known.process if known is not None else self.owner_of(TicketEpoch(ticket, epoch))
        return None if process is None or process.pid in self._suspects else process.pid

    def suspect(self, pid: int) -> None:
        """Ask somebody else for what this peer published, until it is heard of again."""
        self._suspects[pid] = None
        if len(self._suspects) > SUSPECTS_MAX:
            del self._suspects[next(iter(self._suspects))]

    def trust(self, pid: int) -> None:
        """Ask a peer again that was heard of."""
        self._suspects.pop(pid, None)

    def gauges(self) -> list[Gauge]:
        """Return how much has been skipped and not reported yet."""
        return [Gauge("unnamed_gaps", len(self._unnamed), UNNAMED_MAX)]
