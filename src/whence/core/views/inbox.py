"""Messages of others: those that count as received, those that wait for what they follow, and what is fetched.

The sentence that decides: a message counts as got when everything it follows that is for this member was got, when this
member has entered the view it was published in, and when nothing of those whom that view is without is missing.
Law: a message that is held back is not acknowledged, so dropping one is safe. It comes again.
"""

from collections.abc import Callable

from whence.core.ready import NEVER, Note, Ready, Send
from whence.core.stale_journal import TAKEN_LOST
from whence.core.views.items import Fetch, Message, Taken, ViewMark, ViewMessage
from whence.core.views.journal import Journal
from whence.core.views.links import AGAIN_MAX, Links
from whence.core.views.order import Order
from whence.core.views.settings import ViewSettings
from whence.core.views.streams import Held, Stream
from whence.core.views.view import MemberId
from whence.types import Instant


class Inbox:
    """Messages that arrive, in the order in which they count."""

    def __init__(self, links: Links, journal: Journal, settings: ViewSettings, stage: Order) -> None:
        self.state = links.state
        self.links = links
        self.journal = journal
        self.settings = settings
        self._keeps_all = settings.keep == "all"
        self.stage = stage
        self.held_count = 0
        self.kept_count = 0
        """Messages that were held after a restart, beside those that may come."""
        self.ask_at: Instant = NEVER
        self.on_base: Callable[[Stream, Ready], None] = lambda stream, ready: None
        """Called when a newcomer learns where a stream begins."""

    def receive(self, sender: int, message: Message, now: Instant, ready: Ready) -> None:
        """Take a message from its publisher or from a member that passes it on."""
        state = self.state
        place, past, here = message.origin, message.past, state.here
        if message.epoch == state.entered == state.adopted and len(past) == len(here) and place != state.place:
            stream, number = here[place], past[place] + 1
            if number == stream.got + 1 and stream.base is not None and state.is_ready(message, stream, number):
                self._get(stream, message, number, 0, now, ready)
                if self.held_count:
                    self.release(now, ready)
                return
        self._receive(sender, message, now, ready)

    def _receive(self, sender: int, message: Message, now: Instant, ready: Ready) -> None:
        """Take a message that is of another view than the latest, or not the next of its stream, or must wait."""
        state = self.state
        assert state.me is not None
        member = state.origin_of(message)
        stream = state.streams.get(member) if member is not None else None
        if member is None or self._is_too_old(message) or member == state.me:
            ready.notes.append(Note("drop", "not_for_me", peer=sender))
            return
        number = message.number
        if self._is_cut_off(member, number):
            if stream is None or number > stream.got:
                ready.notes.append(Note("drop", "removed", peer=sender))
                if sender == member.pid:
                    self.links.tell_views(sender, message.epoch, ready)
            return
        if stream is None:
            ready.notes.append(Note("drop", "finished", peer=sender))
            return
        if stream.base is None:
            self._find_base(stream, message, ready)
        if stream.base is not None and number < stream.base:
            ready.notes.append(Note("drop", "not_for_me", peer=sender))
        elif number <= stream.got:
            ready.notes.append(Note("drop", "duplicate", peer=sender))
            self.links.owe(now)
        elif stream.base is not None and number == stream.got + 1 and state.is_ready(message, stream, number):
            self._get(stream, message, number, 0, now, ready)
            if self.held_count:
                self.release(now, ready)
        else:
            self._hold(stream, message, number, now, ready)

    def _is_too_old(self, message: Message) -> bool:
        """Tell whether a message was published before this member was added."""
        assert self.state.me is not None
        return message.epoch < self.state.me.joined

    def _is_cut_off(self, member: MemberId, number: int) -> bool:
        """Tell whether a message is of a removed member, and not one of those that count and are missing here."""
        state = self.state
        return state.latest.member_of(member.pid) != member and number > state.open_cuts.get(member, 0)

    def _find_base(self, stream: Stream, message: Message, ready: Ready) -> None:
        assert self.state.me is not None
        if isinstance(message, ViewMark) and message.at().is_base_for(self.state.me.joined):
            stream.seen(message.at())
            stream.begin_at(message.number)
            self.on_base(stream, ready)

    def _get(self, stream: Stream, message: Message, number: int, hold_ns: int, now: Instant, ready: Ready) -> None:
        """Count a message as got."""
        state = self.state
        if stream.held and (held := stream.held.pop(number, None)) is not None:
            self.held_count -= 1
            if held.is_kept:
                stream.stored = max(stream.stored, number)  # the next rewriting of the journal keeps it too
        stream.get(message, number)
        if stream.place >= 0:
            state.got[stream.place] = number
        if type(message) is ViewMark:
            self.journal.mark_seen(stream, message, ready)
            self.links.owe(now, at_once=True)  # newcomers wait until everybody says that it has all marks
        if self._keeps_all:
            self.journal.store(stream, number, ready)
        elif type(message) is ViewMessage and message.wants_majority:
            self.journal.barrier(ready)
        self.stage.got(stream, message, hold_ns, now, ready)
        self.links.got_one(now)
        if not self.links.all_armed:
            self.links.arm(now)

    # --- messages that wait ---

    def _hold(self, stream: Stream, message: Message, number: int, now: Instant, ready: Ready) -> None:
        if number in stream.held:
            return
        if self.held_count >= self.settings.held_max + self.kept_count:
            ready.notes.append(Note("drop", "held_full", peer=stream.member.pid))
            return
        self._put_aside(stream, Held(message, now), now)

    def hold_kept(self, stream: Stream, message: Message, now: Instant) -> None:
        """Hold a message of the journal until what it follows has come again, whatever room there is."""
        if message.number not in stream.held:
            self.kept_count += 1
            self._put_aside(stream, Held(message, now, is_kept=True), now)

    def _put_aside(self, stream: Stream, held: Held, now: Instant) -> None:
        stream.held[held.message.number] = held
        self.stage.arrived(held.message.clock, now)
        self.held_count += 1
        self.ask_at = min(self.ask_at, now + self.settings.ask_ns)

    def release(self, now: Instant, ready: Ready) -> None:
        """Count every held message that may count by now."""
        progress = True
        while progress:
            progress = False
            for stream in list(self.state.streams.values()):
                while stream.base is not None and (held := stream.held.get(stream.got + 1)) is not None:
                    number = stream.got + 1
                    if not self.state.is_ready(held.message, stream, number):
                        break
                    self._get(stream, held.message, number, now - held.since, now, ready)
                    progress = True

    def drop_held(self, stream: Stream, above: int) -> None:
        """Drop what is held of a stream above a number, and what is below what was got."""
        for number in [number for number in stream.held if number > above or number <= stream.got]:
            del stream.held[number]
            self.held_count -= 1

    # --- fetching ---

    def ask(self, now: Instant, ready: Ready, *, of_absent: bool = False) -> None:
        """Ask for what held messages wait for, and for what a change or a cut needs. `of_absent`: only what nobody
        sends unasked, because its publisher is not in reach."""
        self.ask_at = NEVER
        wanted: dict[MemberId, int] = {}
        state = self.state
        waits = False
        for stream in state.streams.values():
            if not stream.held or not state.opened:
                continue
            waits = True
            first = stream.held[min(stream.held)]
            if now - first.since >= self.settings.ask_ns and first.message.epoch in state.views:
                for member, number in state.missing(first.message):
                    wanted[member] = max(wanted.get(member, 0), number)
        everybody = dict(state.open_cuts) if state.opened else {}
        for stream in state.here if state.targets and state.opened else ():
            number = state.targets.get(stream.member.pid, 0)
            if stream.got < number:
                everybody[stream.member] = max(number, everybody.get(stream.member, 0))
        for member, number in {**wanted, **everybody}.items():
            source = state.streams[member]
            pid = member.pid
            alone = self.links.is_in_reach(pid) and member not in state.open_cuts and pid not in state.frozen
            to = (pid,) if alone else self.links.all
            if to and source.base is not None and not (alone and of_absent):
                ready.send.append(Send(to, Fetch(pid, member.joined, source.got, number)))
        if waits or everybody:
            self.ask_at = now + self.settings.ask_ns

    def answer(self, sender: int, asked: Fetch, ready: Ready) -> None:
        """Send the messages that somebody asked for, as far as they are here; or tell it that it had them."""
        stream = self.state.streams.get(MemberId(asked.pid, asked.joined))
        if stream is None:
            return
        if asked.above + 1 not in stream.retained:
            had = self.links.had_taken(sender, stream, asked.above + 1)
            if had > asked.above:
                ready.send.append(Send((sender,), Taken(asked.pid, asked.joined, had)))
                return
        for number in range(asked.above + 1, min(asked.upto, asked.above + AGAIN_MAX) + 1):
            message = stream.retained.get(number)
            if message is not None:
                ready.send.append(Send((sender,), message))

    def told_taken(self, sender: int, told: Taken, ready: Ready) -> None:
        """Stop if this process once acknowledged more than it knows of: its journal is not the newest, and nobody
        retains what it would wait for."""
        stream = self.state.streams.get(MemberId(told.pid, told.joined))
        if stream is not None and stream.base is not None and told.number > stream.got:
            ready.notes.append(Note("reject", TAKEN_LOST, peer=sender))
