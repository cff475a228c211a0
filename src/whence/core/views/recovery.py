"""A later incarnation of a member: it replays its journal and goes on under the same name.

Law: what was told to anybody is in the journal. What the application had not taken is fetched again, except what is in
custody here. What was frozen stays frozen.
"""

from collections.abc import Sequence

from whence.core.ready import NEVER, Ready, Returned
from whence.core.views import journal
from whence.core.views.changes import Changes
from whence.core.views.items import Message, ViewMark, ViewMessage
from whence.core.views.journal import (
    Adopted,
    Base,
    Custody,
    Ended,
    Entered,
    Frozen,
    Lost,
    LostTold,
    MarkCustody,
    Marked,
    MarkSeen,
    Opened,
    OwnAt,
    Published,
    RemovedAt,
    Reserve,
    Skipped,
    StreamAt,
    TakenCounts,
    Voted,
    message_in,
    streams_in,
)
from whence.core.views.newcomer import Newcomer
from whence.core.views.stability import Stability
from whence.core.views.streams import Stream
from whence.core.views.view import MemberId, View
from whence.epochs import is_founding
from whence.types import Instant


class Recovery:
    """Replays a journal into the parts of a member, and rewrites it."""

    def __init__(self, changes: Changes, newcomer: Newcomer, stability: Stability) -> None:
        self.changes = changes
        self.newcomer = newcomer
        self.stability = stability
        self.state = changes.state
        self.bundles = 0
        """Own messages with events, in all incarnations."""
        self._reported = 0
        self._taken_in_part: list[int] = []
        self._custody: list[Custody | MarkCustody] = []
        self._ended: Ended | None = None
        """An earlier membership of this process ended: nothing of it is replayed."""

    def resume(self, taken: Sequence[int], reported: int, taken_in_part: Sequence[int]) -> None:
        """Set what the application has; see Resuming in core/member.py."""
        self._reported = reported
        self._taken_in_part = list(taken_in_part)
        self._raise(taken)

    def _raise(self, counts: Sequence[int]) -> None:
        taken = self.state.taken_counts
        for slot, count in enumerate(counts):
            taken[slot] = max(taken[slot], count)

    def restore(self, records: Sequence[bytes], now: Instant, ready: Ready) -> bool:
        """Replay; return whether there is a member to go on with."""
        state, changes = self.state, self.changes
        own: dict[int, Published | Marked] = {}
        removed: View | None = None
        bundles_of: dict[int, int] = {}
        stable = 0
        for entry in self._of_last_membership(records):
            match entry:
                case Adopted():
                    self._adopted(entry)
                case Entered(epoch):
                    state.entered = epoch
                    changes.participant.entered()
                case Published() | Marked():
                    number = entry.past[entry.origin] + 1
                    own[number] = entry
                    if isinstance(entry, Marked):
                        state.mark_epoch = max(state.mark_epoch, entry.epoch)
                    else:
                        self.bundles += 1
                        bundles_of[number] = self.bundles
                case Voted():
                    changes.participant.acceptor.restore(entry)
                    changes.leader.seen(entry.promised)
                case Frozen(_, ballot, pids):
                    state.frozen, state.report_ballot = dict.fromkeys(pids), ballot
                    state.stored_at_report = {}
                case Base(pid, joined, base, marks):
                    stream = streams_in(state, MemberId(pid, joined))
                    stream.begin_at(base)
                    stream.marks = marks.copy()
                case Opened(start):
                    state.opened = True
                    changes.inbox.stage.begin_at(start)
                case MarkSeen(pid, joined, mark):
                    marked = state.streams.get(MemberId(pid, joined))
                    if marked is not None:
                        marked.seen(mark)
                        marked.silent.append(mark.number)
                        marked.last_epoch = mark.epoch
                case Skipped(pid, joined, number):
                    skipped = state.streams.get(MemberId(pid, joined))
                    if skipped is not None:
                        skipped.skip(number)
                case Custody() | MarkCustody():
                    self._custody.append(entry)
                case StreamAt():
                    self._stream_at(entry)
                case OwnAt():
                    state.me = MemberId(entry.pid, entry.joined)
                    self.bundles, state.mark_epoch = entry.bundles, entry.mark_epoch
                    state.opened, stable = entry.opened, entry.published
                    self.stability.settled_last = entry.settled
                case Reserve(limit):
                    changes.inbox.stage.restore(limit)
                case RemovedAt(epoch, view):
                    removed = view or state.views.get(epoch)
        if state.me is None:
            return False
        if state.entered in state.views:
            state.look_at_entered()
        self._streams(own, bundles_of, stable, now, ready)
        if state.entered in state.views:
            state.look_at_entered()
        changes.participant.acceptor.look_at(state.adopted)
        if state.opened:
            changes.removal.former = None
        changes.removal.by = removed
        return True

    def _of_last_membership(self, records: Sequence[bytes]) -> list[journal.Entry]:
        """Return the entries of the last membership; of earlier ones only what the application has taken counts."""
        entries: list[journal.Entry] = []
        for record in records:
            entry = journal.decode(record)
            if isinstance(entry, Ended):
                self.bundles, self._ended, entries = entry.bundles, entry, []
                self.changes.removal.former = entry.former
                self.changes.removal.is_told = False
            elif isinstance(entry, Lost):
                self.changes.removal.lost_before.append(entry.bundle)
            elif isinstance(entry, LostTold):
                self.changes.removal.lost_before = []
                self.changes.removal.is_told = any(isinstance(each, RemovedAt) for each in entries)
            elif isinstance(entry, TakenCounts):
                self._raise(entry.counts)
            else:
                entries.append(entry)
        return entries

    def _adopted(self, entry: Adopted) -> None:
        state, view = self.state, entry.view
        if state.me is None:
            state.me = view.member_of(state.pid)
            if state.me is not None:
                founds = is_founding(state.me.joined)
                state.opened |= founds
                state.mark_epoch = state.me.joined if founds else state.me.joined - 1
                state.entered = view.epoch if founds else view.epoch - 1
        nonces = dict(zip(view.members, view.nonces, strict=True))
        for pid, joined, slot, start in entry.slots:
            member = MemberId(pid, joined)
            assert state.me is not None
            base = 1 if joined >= state.me.joined else None
            state.streams[member] = Stream(member, nonces.get(member, 0), slot, start, base)
        state.remember(view)
        if state.me is not None and state.me in view.members:
            state.adopted = max(state.adopted, view.epoch)

    def _stream_at(self, entry: StreamAt) -> None:
        member = MemberId(entry.pid, entry.joined)
        stream = Stream(member, entry.nonce, entry.slot, entry.start, entry.base or None)
        stream.counted, stream.taken = entry.counted, max(stream.taken, entry.taken)
        stream.got = stream.handed = stream.taken
        stream.silent.extend(entry.silent)
        stream.marks = list(entry.marks)
        self.state.streams[member] = stream
        for mark in entry.marks[-1:]:
            stream.last_epoch = mark.epoch

    def _streams(
        self, own: dict[int, Published | Marked], bundles_of: dict[int, int], stable: int, now: Instant, ready: Ready
    ) -> None:
        """Bring every stream to what the application has taken, then to what is in custody and what is own."""
        state, order = self.state, self.changes.inbox.stage
        for stream in state.streams.values():
            if stream.member == state.me:
                continue
            stream.take(state.taken_counts[stream.slot], NEVER)
            stream.got = stream.handed = max(stream.taken, stream.got)
            partly = self._taken_in_part[stream.slot] if stream.slot < len(self._taken_in_part) else 0
            if partly > stream.counted:
                stream.in_part = stream.taken + 1
                state.has_begun = True
        mine = state.own
        for number, entry in own.items():
            message = message_in(entry)
            if number > stable:
                mine.get(message, number)
                if isinstance(message, ViewMessage):
                    self.stability.retained_bytes += len(message.bundle.body)
                    if bundles_of[number] > self._reported:
                        ready.deliver.append(Returned(message.bundle, mark=order.mark_of(message)))
            mine.last_epoch = message.epoch
        mine.take(state.taken_counts[mine.slot], NEVER)
        mine.handed = mine.taken
        self._note_acted_on(mine)
        for mark in mine.marks:
            order.marked(mark)
        for number, message in mine.retained.items():
            if number > mine.taken:
                order.got(mine, message, 0, now, ready)
        self._restore_cuts()
        self._replay_custody([message_in(entry) for entry in self._custody], now, ready)
        self._custody = []

    def _note_acted_on(self, mine: Stream) -> None:
        """Note what own messages follow: the application had it in hand when it published them."""
        for message in mine.retained.values():
            view = self.state.views.get(message.epoch)
            for member, number in zip(view.members, message.past, strict=True) if view is not None else ():
                stream = self.state.streams.get(member)
                if stream is not None and stream is not mine and number > stream.got:
                    stream.in_part = max(stream.in_part, number)
                    self.state.has_begun = True

    def _replay_custody(self, messages: list[Message], now: Instant, ready: Ready) -> None:
        """Count the messages in custody as got again, each after what it follows. What they follow and was got without
        being taken has to come again: until then they wait, since nobody else may have them (T49)."""
        state, progress = self.state, True
        while progress:
            progress = False
            for message in messages:
                member = state.origin_of(message)
                stream = state.streams.get(member) if member is not None else None
                if stream is None or stream.base is None:
                    continue
                if message.number <= stream.got:
                    self._retain_taken(stream, message)
                if message.number != stream.got + 1:
                    continue
                if state.has_past(message) and not state.waits_for_cut(message):
                    stream.get(message, message.number)
                    stream.stored = message.number
                    self.changes.inbox.stage.got(stream, message, 0, now, ready)
                    self.changes.close_cuts()
                    progress = True
        self.hold_rest(messages, now)

    def hold_rest(self, messages: list[Message], now: Instant) -> None:
        """Hold the messages in custody that could not be counted yet."""
        for message in messages:
            member = self.state.origin_of(message)
            stream = self.state.streams.get(member) if member is not None else None
            if stream is not None and stream.base is not None and message.number > stream.got:
                self.changes.inbox.hold_kept(stream, message, now)

    def _retain_taken(self, stream: Stream, message: Message) -> None:
        """Retain a message in custody that was taken here: somebody may lack it."""
        stream.retained.setdefault(message.number, message)
        stream.stored = max(stream.stored, message.number)

    def _restore_cuts(self) -> None:
        state = self.state
        for epoch in sorted(state.views):
            for cut in state.views[epoch].cuts:
                stream = state.streams.get(cut.member)
                if stream is not None and stream.base is not None and cut.number > stream.got:
                    state.open_cuts[cut.member] = cut.number
                    state.removed_in[cut.member] = epoch

    # --- rewriting ---

    def checkpoint(self) -> list[bytes]:
        """Return records that are equivalent to all persisted so far."""
        state = self.state
        removal = self.changes.removal
        lost = [journal.encode(Lost(bundle)) for bundle in removal.lost_before]
        if removal.ended:
            return [journal.encode(Ended(self.bundles, removal.former)), *lost]
        if state.me is None:
            return [] if self._ended is None else [journal.encode(self._ended), *lost]
        state.count_taken()
        mine, joined, opened = state.own, state.me.joined, state.opened
        first = next(iter(mine.retained), mine.got + 1)
        unstable = sum(isinstance(message, ViewMessage) for message in mine.retained.values())
        entries: list[journal.Entry] = [
            *([self._ended] if self._ended is not None and not opened else []),
            OwnAt(
                state.me.pid, state.me.joined, first - 1, self.bundles - unstable,
                _mark_epoch_before(mine, state.mark_epoch), state.opened,
                self.stability.settled_last,
            ),
            *[Adopted(state.views[epoch], []) for epoch in sorted(state.views)],
            *[self._as_it_is(stream) for stream in state.streams.values()],
            Entered(state.entered),
            *([Opened(self.changes.inbox.stage.start or 0)] if opened and not is_founding(joined) else []),
        ]  # fmt: skip
        if state.frozen:
            entries.append(Frozen(state.entered, state.report_ballot, list(state.frozen)))
        acceptor = self.changes.participant.acceptor
        if acceptor.instance >= 0:
            entries.append(acceptor.record())
        if removal.by is not None:
            entries.append(RemovedAt(removal.by.epoch, removal.by))
            entries += [LostTold()] if removal.is_told else []
        entries += self.changes.inbox.stage.records()
        records = [journal.encode(entry) for entry in entries] + lost
        records += [journal.record_of_own(message) for message in mine.retained.values()]
        for stream in state.streams.values():
            if stream is not mine:
                records += [
                    journal.record_of_custody(message)
                    for number, message in stream.retained.items()
                    if number <= stream.stored
                ]
                records += [journal.record_of_custody(held.message) for held in stream.held.values() if held.is_kept]
        counts = state.taken_counts
        records.append(journal.encode(TakenCounts(counts.copy())))
        return records

    def _as_it_is(self, stream: Stream) -> StreamAt:
        member = stream.member
        silent = [number for number in stream.silent if number <= stream.got]
        return StreamAt(
            member.pid, member.joined, stream.nonce, stream.slot, stream.start, stream.counted, stream.base or 0,
            stream.taken, silent, stream.marks, member in self.state.latest.members,
        )  # fmt: skip


def _mark_epoch_before(stream: Stream, epoch: int) -> int:
    """Return the epoch of the last own mark that is not among the retained messages."""
    for message in stream.retained.values():
        if isinstance(message, ViewMark):
            return message.prev
    return epoch
