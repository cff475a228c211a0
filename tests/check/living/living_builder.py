"""Writes traces of living groups by hand: views, joins and removals in short calls, and every row of the contract."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tests.check.trace_builder import GRP, TraceBuilder
from whence.check.judge import judge
from whence.check.living.members import MemberId
from whence.check.verdict import Outcome, Verdict
from whence.epochs import forced_epoch
from whence.trace.schema import CLOSED, COLUMNS_OF, T_TRUE, Kind
from whence.types import EventId

_WATCHED: "list[list[LivingBuilder]]" = []


@contextlib.contextmanager
def watched() -> "Iterator[list[LivingBuilder]]":
    """Collect the traces that are made meanwhile."""
    made: list[LivingBuilder] = []
    _WATCHED.append(made)
    try:
        yield made
    finally:
        _WATCHED.pop()


class LivingBuilder(TraceBuilder):
    """A trace of one group on views. Founders are live in view 0 from the start, and everything published is owed."""

    def __init__(
        self, founders: Sequence[int] = (0, 1, 2), *, durable: bool = False, forgetful: Sequence[int] = (),
        **parameters: Any,
    ) -> None:  # fmt: skip
        said = {"membership": "living", "agreement": "all"} | parameters
        forgetting = [(pid, inc) for pid in forgetful for inc in (1, 2, 3)]
        super().__init__(founders, durable=durable, forgetful=forgetting, level="causal", parameters=said)
        for made in _WATCHED:
            made.append(self)
        self.views: list[list[MemberId]] = [[MemberId(pid, 1, 0) for pid in founders]]
        self.epochs: dict[int, int] = {}
        for pid in founders:
            self.enter(pid, 0)
            self.live(pid)

    @property
    def members(self) -> list[int]:
        """The processes of the latest view."""
        return [member.pid for member in self.views[-1]]

    # --- views ---

    def decide(self, *, add: Sequence[int] = (), remove: Sequence[int] = ()) -> int:
        """Decide a view, which nobody has entered yet; return its epoch. Who is added again is another member."""
        epoch = len(self.views)
        stay = [member for member in self.views[-1] if member.pid not in (*remove, *add)]
        for pid in add:
            self.lives.setdefault(pid, 1)
        self.views.append([*stay, *(MemberId(pid, self.lives[pid], epoch) for pid in add)])
        return epoch

    def enter(
        self, pid: int, epoch: int | None = None, members: Sequence[MemberId] | None = None, **columns: Any
    ) -> None:
        """Write that a process enters a view: the next after its last, or the latest if it is new, unless told."""
        at = self.epochs.get(pid, len(self.views) - 2) + 1 if epoch is None else epoch
        shown = self.views[at] if members is None else members
        named = {"epoch": at, "dests": tuple(member.pid for member in shown), "ids": tuple(map(tuple, shown))}
        self.row(Kind.VIEW, pid, **named | {"reason": "entered"} | columns)
        self.epochs[pid] = at

    def live(self, pid: int, **columns: Any) -> None:
        """Write that `open()` returned at a process."""
        own = next(member for member in self.views[self.epochs[pid]] if member.pid == pid)
        self.row(Kind.JOIN, pid, **{"epoch": own.joined, "value": own.nonce} | columns)

    def change(self, *, add: Sequence[int] = (), remove: Sequence[int] = ()) -> int:
        """Decide a view that all its members enter at once, joiners last; these are then live."""
        epoch = self.decide(add=add, remove=remove)
        for member in self.views[epoch]:
            self.enter(member.pid, epoch)
        for pid in add:
            self.live(pid)
        return epoch

    def out(self, pid: int, epoch: int, last: EventId | None, reason: str = "removed", **columns: Any) -> None:
        """Write that a process learnt that it is out, and what of its own took effect."""
        named = {} if last is None else {"m_pid": last.pid, "m_inc": last.incarnation, "m_seq": last.seq}
        self.row(Kind.LEAVE, pid, **named | {"epoch": epoch, "reason": reason} | columns)

    def close(self, pid: int, **columns: Any) -> None:
        """Write that a process closes the group in order, and does not leave it."""
        self.row(Kind.NOTE, pid, **{"reason": CLOSED, "grp": GRP} | columns)

    def wipe(self, pid: int) -> None:
        """Write that a process crashes and its disk is gone."""
        self.row(Kind.CRASH, pid, grp=None, reason="wiped")

    # --- events ---

    def tell(self, pid: int, *receivers: int, **columns: Any) -> EventId:
        """Write that a member publishes in the view it is in, and that these processes deliver at once."""
        event = self.publish(pid, epoch=self.epochs[pid], **columns)
        self.hand(event, *receivers, epoch=self.epochs[pid])
        return event

    def tell_all(self, pid: int, **columns: Any) -> EventId:
        """Write that a member publishes, and that all members of its view deliver at once."""
        return self.tell(pid, *(member.pid for member in self.views[self.epochs[pid]]), **columns)

    def hand(self, event: EventId, *receivers: int, epoch: int | None = None) -> None:
        """Write that processes deliver an event, of the view it was published in."""
        if epoch is None:
            epoch = self.epoch_of(event)
        for receiver in receivers:
            self.deliver(receiver, event, epoch=epoch)

    def epoch_of(self, event: EventId) -> int:
        """Return the epoch an event was published in."""
        rows = self.trace.records(Kind.PUBLISH)
        return int(next(row["epoch"] for row in rows if (row["m_pid"], row["m_inc"], row["m_seq"]) == event))

    def receipt(self, level: str, event: EventId, pid: int | None = None) -> None:
        """Write that a publisher was told how far its events up to this one came."""
        named = {"m_pid": event.pid, "m_inc": event.incarnation, "m_seq": event.seq}
        self.row(Kind.NOTE, event.pid if pid is None else pid, reason=level, grp=GRP, **named)

    # --- verdicts ---

    def verdict(self, promise: str) -> Verdict:
        """Return the verdict on a promise."""
        (verdict,) = judge(self.trace, [promise])
        return verdict

    def outcome(self, promise: str) -> Outcome:
        """Return the outcome of judging a promise."""
        return self.verdict(promise).outcome

    def broken(self) -> list[str]:
        """Return the promises of the run that are broken."""
        return [verdict.promise for verdict in judge(self.trace) if verdict.outcome is Outcome.BROKEN]


def forced_out(*, gone: bool) -> LivingBuilder:
    """Three in a strict group with journals; the first was forced into a generation of its own, and may have ended it.
    The others go on, and what one of them publishes the other is not handed."""
    builder, epoch = LivingBuilder(durable=True, strict=True), forced_epoch(0, 7)
    builder.enter(0, epoch, [MemberId(0, 1, 0)])
    if gone:
        builder.out(0, epoch, None, "left")
    builder.tell(1, 1)
    return builder


def ahead(*, forced: bool, before: bool = False, at_once: bool = False) -> LivingBuilder:
    """Two in a strict, uniform group; the second is handed another event first, perhaps once an operator had gone on
    with it alone, or `before` one did, or in the very step in which one did (`at_once`)."""
    builder = LivingBuilder([0, 1], durable=True, strict=True, uniform=True)
    builder.tell(0, 0)
    event = builder.tell(1)
    builder.change(remove=[1])
    if before or at_once:
        builder.hand(event, 1)
    if forced:
        columns = {"t_clk": builder.now} if at_once else {}
        builder.enter(1, forced_epoch(0, 7), [MemberId(1, 1, 0)], **columns)
    if not (before or at_once):
        builder.hand(event, 1)
    return builder


def away(*, timed: bool = True) -> LivingBuilder:
    """Three with journals; one closes the group, and the others go on, and close it later."""
    builder = LivingBuilder(durable=True)
    builder.tell_all(0)
    builder.close(2)
    builder.receipt("majority", builder.tell(0, 0, 1))
    for pid in (0, 1):
        builder.close(pid)
    if not timed:
        untimed(builder)
    return builder


def untimed(builder: LivingBuilder) -> None:
    """Take true time from all rows."""
    for kind, rows in builder.trace.rows.items():
        at = COLUMNS_OF[kind].index(T_TRUE)
        builder.trace.rows[kind] = [(*row[:at], None, *row[at + 1 :]) for row in rows]


def closed_without(pid: int) -> LivingBuilder:
    """Two in a group; one is removed while it is down, the other closes the group, and the first one returns."""
    builder = LivingBuilder((0, 1))
    builder.crash(pid)
    builder.change(remove=[pid])
    builder.out(1 - pid, 1, None, "left")
    builder.restart(pid)
    builder.phases()
    return builder


def decided_alone(*, heard: bool) -> LivingBuilder:
    """Two in a group, the first of which may decide alone, and a third that does not vote yet. The first makes that
    one a voter and is lost; the second may have heard of it."""
    builder = LivingBuilder((0, 1))
    builder.decide(add=[2])
    for pid in (0, 1, 2):
        builder.enter(pid, 1, value=0b011)
    builder.live(2)
    builder.decide()
    for pid in (0, 1) if heard else (0,):
        builder.enter(pid, 2, value=0b111)
    builder.crash(0)
    builder.phases()
    return builder


def only_known_outside(*, told: bool) -> LivingBuilder:
    """The first of two leaves, which the other does not learn before it is lost; it comes back, and wants in again."""
    builder = LivingBuilder((0, 1))
    builder.crash(1)
    if told:
        builder.row(Kind.NOTE, 0, reason="outside", epoch=1, dests=(1,), ids=((1, 1, 0),))
    builder.restart(1)
    builder.phases()
    return builder


def ended_alone(*, speaks: bool) -> LivingBuilder:
    """The first of two removes the other, dies, and is restarted: it says that it is a member, or had left and died
    before the row that tells it. The other one wants to be a member."""
    builder = LivingBuilder((0, 1), durable=True)
    epoch = builder.decide(remove=[1])
    builder.enter(0, epoch)
    builder.crash(0)
    builder.restart(0)
    if speaks:
        builder.live(0)
    builder.phases()
    return builder


def named_and_gone(*, how: str) -> LivingBuilder:
    """An operator goes on with the second and third. The third is there; or had been removed, or entered the next view
    (`passed`), or takes itself for left out (`wrong`). The second publishes, and is handed nothing."""
    builder = LivingBuilder(durable=True, strict=True)
    forced = forced_epoch(0, 7)
    builder.enter(1, forced, [MemberId(1, 1, 0), MemberId(2, 1, 0)])
    builder.row(Kind.NOTE, 1, reason="forced", epoch=forced, value=0)
    if how == "removed":
        builder.enter(0, builder.decide(remove=[2]))
        builder.out(2, 1, None)
    elif how:
        if how == "passed":
            builder.enter(2, builder.decide())
        builder.out(2, forced, None, "removed_unknown")
    builder.out(0, forced, None, "removed_unknown")
    builder.phases()
    builder.publish(1, epoch=forced)
    return builder


def orphaned(*, forced: bool) -> LivingBuilder:
    """An event of the third follows one of the first, which the second is never handed; an operator may have gone on
    with the second and third alone."""
    builder = LivingBuilder(durable=True)
    builder.tell(0, 0, 2)
    effect = builder.tell(2, 2)
    if forced:
        for pid in (1, 2):
            builder.enter(pid, forced_epoch(0, 7), [MemberId(1, 1, 0), MemberId(2, 1, 0)])
    builder.hand(effect, 1)
    return builder
