"""What a member of a living group remembers: the views, and the messages of everybody in them.

Laws: a message of an epoch is for the members of that view, whoever knows a later one meanwhile. A view is *adopted*
when it is known, and *entered* when nothing of those it removes is missing here; publications are made in the view that
was entered. Whoever publishes in a view has entered it.
"""

from collections.abc import Callable, Iterable
from operator import gt

from whence.core.views.items import Message
from whence.core.views.streams import Stream
from whence.core.views.view import NO_BALLOT, Ballot, MemberId, View
from whence.limits import CLOCK_NODES_MAX

VIEWS_MAX = 256
"""Views that are remembered, to tell those who lack them. Whoever lacks an older one learns that it was removed, and
not how far its messages counted."""

NOWHERE = -1


class ViewState:
    """The views and streams of one member."""

    def __init__(self, pid: int, incarnation: int, *, remembers: bool) -> None:
        self.pid = pid
        self.incarnation = incarnation
        self.remembers = remembers
        """Whether a later incarnation resumes from here."""
        self.named: Callable[[int], object] = int
        """Returns a process as sentences call it. Only the driver knows names."""
        self.counts_taken = remembers
        """Whether what the application takes is counted; else it has taken what it was handed."""
        self.me: MemberId | None = None
        """None: not a member, or not known yet."""
        self.views: dict[int, View] = {}
        self.adopted = self.entered = NOWHERE
        self.streams: dict[MemberId, Stream] = {}
        """Of all members of views that are not finished here."""
        self.here: list[Stream] = []
        """The streams of the view that was entered, by place."""
        self.place = NOWHERE
        """This member's place in that view."""
        self.got: list[int] = []
        self.handed: list[int] = []
        """Per place in that view: what was got; and what was handed out, 0 where nothing was."""
        self.open_cuts: dict[MemberId, int] = {}
        """Removed members of which something up to their cut is missing here."""
        self.removed_in: dict[MemberId, int] = {}
        """The epochs of the views that removed them."""
        self.opened = self.live = False
        """Newcomers: nothing older than they are can be lost any more; `open` may return."""
        self.mark_epoch = NOWHERE
        """The epoch of this member's last mark."""
        self.taken_counts = [0] * CLOCK_NODES_MAX
        """Messages with events that the application has taken, by slot; core/offsets.py counts them."""
        self.frozen: dict[int, None] = {}
        """Members of the entered view whose messages are not taken until its change is decided, by peer."""
        self.report_ballot: Ballot = NO_BALLOT
        """The highest ballot that this member reported to, in the entered view."""
        self.targets: dict[int, int] = {}
        """Per peer of the entered view: how far its stream must be got, for that ballot."""
        self.has_begun = False
        """Whether some stream may have a message that was taken in part and has to come again."""
        self.ends: dict[MemberId, int] = {}
        """Members that an operator's view removed, and how far they count: what they published later is lost, and what
        follows it does not wait."""
        self.stored_at_report: dict[MemberId, int] | None = None
        """What counted for `majority` at the first report of this instance: it stands still until the next view."""

    # --- views ---

    @property
    def view(self) -> View:
        """Return the view that was entered."""
        return self.views[self.entered]

    @property
    def latest(self) -> View:
        """Return the latest view that is known."""
        return self.views[self.adopted]

    @property
    def own(self) -> Stream:
        """Return the stream of this member."""
        assert self.me is not None
        return self.streams[self.me]

    def remember(self, view: View) -> None:
        """Remember a view that is decided."""
        self.views[view.epoch] = view
        if view.forced_from is not None:
            self.ends.update({cut.member: cut.number for cut in view.cuts})
        if len(self.views) > VIEWS_MAX:
            for epoch in sorted(self.views)[: len(self.views) - VIEWS_MAX]:
                if epoch < self.entered and not self._in_use(epoch):
                    del self.views[epoch]

    def _in_use(self, epoch: int) -> bool:
        return any(
            message.epoch == epoch for stream in self.streams.values() for message in stream.retained.values()
        ) or any(held.message.epoch == epoch for stream in self.streams.values() for held in stream.held.values())

    def add_streams(self, view: View) -> list[Stream]:
        """Make streams for members that have none yet: those that came with this view, and all for a newcomer."""
        assert self.me is not None
        added: list[Stream] = []
        for member, nonce in zip(view.members, view.nonces, strict=True):
            if member not in self.streams:
                slot = self._free_slot()
                base = 1 if member.joined >= self.me.joined else None
                stream = Stream(member, nonce, slot, self.taken_counts[slot], base)
                self.streams[member] = stream
                added.append(stream)
        return added

    def removal_of(self, member: MemberId) -> int:
        """Return the epoch of the view that removed a member; the oldest that is known, if that one is forgotten."""
        return next(
            (epoch for epoch in sorted(self.views) if self.views[epoch].cut_of(member) is not None), min(self.views)
        )

    def has_room_for(self, view: View) -> bool:
        """Tell whether the members of a view can be counted here, besides those removed that are not finished."""
        fresh = sum(member not in self.streams for member in view.members)
        return len(self.streams) + fresh <= CLOCK_NODES_MAX

    def _free_slot(self) -> int:
        used = dict.fromkeys(stream.slot for stream in self.streams.values())
        return next(slot for slot in range(CLOCK_NODES_MAX) if slot not in used)

    def look_at_entered(self) -> None:
        """Arrange the numbers by the places of the view that was entered."""
        assert self.me is not None
        for stream in self.streams.values():
            stream.place = NOWHERE
        self.here = [self.streams[member] for member in self.view.members]
        for place, stream in enumerate(self.here):
            stream.place = place
        self.place = self.view.place_of(self.pid)
        self.got = [stream.got for stream in self.here]
        self.handed = [0] * len(self.here)
        for place in range(len(self.here)):
            self.note_handed(place)

    def note_handed(self, place: int) -> None:
        """Note what was handed out of a stream: nothing, while that is below its base."""
        stream = self.here[place]
        handed, base = stream.handed, stream.base
        if handed < stream.in_part:
            handed = stream.in_part
        self.handed[place] = handed if base is not None and handed >= base else 0

    def awaits_begun(self) -> bool:
        """Tell whether a message that the application had in part, in an earlier incarnation, is still to come again:
        what is published now follows it, and does not say that it came."""
        if self.has_begun:
            self.has_begun = any(stream.in_part > stream.got for stream in self.streams.values())
        return self.has_begun

    def stream_of(self, pid: int, incarnation: int) -> Stream | None:
        """Return the stream in which an incarnation of a peer publishes."""
        found: Stream | None = None
        for stream in self.streams.values():
            if (
                stream.member.pid == pid
                and stream.nonce <= incarnation
                and (found is None or stream.member.joined > found.member.joined)
            ):
                found = stream
        return found

    def others(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return peers without this one."""
        return tuple(pid for pid in pids if pid != self.pid)

    def count_taken(self) -> None:
        """Look up how far the application is. Where that is not counted, it has taken what it was handed."""
        if not self.counts_taken:
            for stream in self.streams.values():
                stream.taken = stream.handed
                if stream.silent:
                    stream.silent.clear()
            return
        for stream in self.streams.values():
            if stream.counted != self.taken_counts[stream.slot] or stream.silent:
                stream.take(self.taken_counts[stream.slot])

    # --- messages ---

    def origin_of(self, message: Message) -> MemberId | None:
        """Return the member that published a message, if its view is known."""
        view = self.views.get(message.epoch)
        if view is None or message.origin >= len(view.members) or len(message.past) != len(view.members):
            return None
        return view.members[message.origin]

    def is_ready(self, message: Message, stream: Stream, number: int) -> bool:
        """Tell whether the next message of a stream may count as got."""
        if not self.opened or self._is_too_new(message):
            return False
        if message.epoch == self.entered:
            if any(map(gt, message.past, self.got)) and not (self.ends and self.has_past(message)):
                return False
        elif not self.has_past(message):
            return False
        if self.open_cuts and self.waits_for_cut(message):
            return False
        return not self.frozen or self._may_pass(stream, number)

    def _is_too_new(self, message: Message) -> bool:
        """Tell whether a message was published in a view that was not entered here."""
        return message.epoch > self.entered

    def has_past(self, message: Message) -> bool:
        """Tell whether everything that a message of an earlier view follows was got, or is not for this member."""
        for member, needed in zip(self.views[message.epoch].members, message.past, strict=True):
            stream = self.streams.get(member)
            if stream is not None and (stream.base is None or stream.got < min(needed, self.ends.get(member, needed))):
                return False
        return True

    def waits_for_cut(self, message: Message) -> bool:
        """Tell whether something is missing of a member that was removed by the time of the message's view. One that
        came and went later is no reason to wait: its messages may follow this one."""
        return any(self.removed_in[member] <= message.epoch for member in self.open_cuts)

    def _may_pass(self, stream: Stream, number: int) -> bool:
        """Tell whether a message of a stream that may be frozen is within its target."""
        pid = stream.member.pid
        if pid not in self.frozen or stream.place == NOWHERE:
            return True
        if stream.member in self.open_cuts:
            return number <= self.open_cuts[stream.member]
        return number <= self.targets.get(pid, -1)

    def missing(self, message: Message) -> list[tuple[MemberId, int]]:
        """Return what must be got before a message: members, and up to which number."""
        missing: list[tuple[MemberId, int]] = []
        for member, needed in zip(self.views[message.epoch].members, message.past, strict=True):
            stream = self.streams.get(member)
            needed = min(needed, self.ends.get(member, needed))
            if stream is not None and stream.base is not None and stream.got < needed:
                missing.append((member, needed))
        return missing

    @property
    def closed(self) -> int:
        """Return the epoch up to which newcomers have everything that is unstable here; -1: not opened."""
        if not self.opened:
            return -1
        lowest = self.entered
        for stream in self.streams.values():
            for message in stream.retained.values():
                lowest = min(lowest, message.epoch)
                break  # in order, the first has the lowest epoch
        return min(lowest, *[stream.last_epoch for stream in self.here])
