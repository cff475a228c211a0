"""Bugs in how messages of a living group are received, retained, acknowledged and written down (views 5.1 to 5.5)."""

from operator import gt

from msgspec import structs

from whence.core.ready import Ready
from whence.core.views.inbox import Inbox
from whence.core.views.items import Message, Report, ViewAck, ViewMessage
from whence.core.views.journal import Entry, Frozen, Journal, Voted
from whence.core.views.links import Links
from whence.core.views.newcomer import Newcomer
from whence.core.views.participant import Participant
from whence.core.views.peers import Peer
from whence.core.views.recovery import Recovery
from whence.core.views.stability import Stability
from whence.core.views.state import ViewState
from whence.core.views.streams import Stream
from whence.core.views.view import Ballot, MemberId, View
from whence.types import Instant

# --- what counts as got ---


class GoesOnAfterTheReport(ViewState):
    """Counts messages of those to be removed after it has reported how far it is (T1)."""

    def _may_pass(self, stream: Stream, number: int) -> bool:
        return True


class TakesMessagesOfLaterViews(ViewState):
    """Counts messages of a view before it has entered it (T10)."""

    def _is_too_new(self, message: Message) -> bool:
        return False


class DoesNotWaitForCuts(ViewState):
    """Counts messages of a view that is without a removed member, whatever is missing of that one (T22)."""

    def waits_for_cut(self, message: Message) -> bool:
        return False


class WaitsForWhatIsLost(ViewState):
    """Waits, in the view that an operator replaced, for what nobody has any more (T54)."""

    def is_ready(self, message: Message, stream: Stream, number: int) -> bool:
        if message.epoch == self.entered and any(map(gt, message.past, self.got)):
            return False
        return super().is_ready(message, stream, number)


class FollowsWhatIsNotForIt(ViewState):
    """Names what came before it began a stream among what its messages follow (T14)."""

    def note_handed(self, place: int) -> None:
        stream = self.here[place]
        self.handed[place] = max(stream.handed, stream.in_part)


class ReadsWhatIsOlder(ViewState):
    """Counts messages that are older than this member, without asking what they follow (T11)."""

    def origin_of(self, message: Message) -> MemberId | None:
        found = super().origin_of(message)
        if found is not None or self.me is None or message.epoch >= self.me.joined:
            return found
        view = self.views.get(self.me.joined)  # members are added at the end
        return view.members[message.origin] if view is not None and message.origin < len(view.members) else None

    def is_ready(self, message: Message, stream: Stream, number: int) -> bool:
        if self.me is not None and message.epoch < self.me.joined:
            return self.opened
        return super().is_ready(message, stream, number)


class BeginsWithWhatComes(Inbox):
    """Begins a stream with the first message that comes, not with the mark (T11)."""

    def _is_too_old(self, message: Message) -> bool:
        return False

    def _find_base(self, stream: Stream, message: Message, ready: Ready) -> None:
        stream.begin_at(message.number)
        self.on_base(stream, ready)


class SendsBeforeItsMark(Links):
    """Sends to a newcomer what it publishes before it has entered the newcomer's view (T11)."""

    def adopt(self, view: View, now: Instant) -> None:
        super().adopt(view, now)
        for peer in self.peers.values():
            if peer.first is None and self.state.me in self.state.streams:
                peer.sent = self.state.own.got
                peer.first = peer.sent + 1


class TakesMessagesOfTheRemoved(Inbox):
    """Counts what comes of a removed member, beyond its cut too (T12)."""

    def _is_cut_off(self, member: MemberId, number: int) -> bool:
        return False


# --- what is retained ---


class ForgetsWhatOthersMayLack(Inbox):
    """Retains only the last message of each other member, and believes that others need no more (T6)."""

    def _get(self, stream: Stream, message: Message, number: int, hold_ns: int, now: Instant, ready: Ready) -> None:
        super()._get(stream, message, number, hold_ns, now, ready)
        for old in [old for old in stream.retained if old < number and old <= stream.handed]:
            del stream.retained[old]


class SaysThatItHasAll(Participant):
    """Reports that it can supply everything it ever got (T6)."""

    def report(self, ballot: Ballot) -> Report:
        report = super().report(ballot)
        return structs.replace(report, held_from=[1] * len(report.got))


class StableWhenReceived(Links):
    """Calls a message stable when everybody has received it (T7)."""

    def take_ack(self, pid: int, incarnation: int, ack: ViewAck, now: Instant, ready: Ready) -> bool:
        return super().take_ack(pid, incarnation, structs.replace(ack, taken=ack.got), now, ready)


# --- what is acknowledged ---


class TakesMessagesForAcknowledgements(Links):
    """Concludes from a message that its publisher has all of those whom the view is without (T50)."""

    def take_message(self, peer: Peer, incarnation: int, message: ViewMessage) -> None:
        super().take_message(peer, incarnation, message)
        peer.spoke_in = max(peer.spoke_in, peer.entered)


class StoresAfterTheReport(Links):
    """Goes on acknowledging what it stores after it has reported (T23)."""

    def stored_numbers(self) -> dict[MemberId, int]:
        state = self.state
        at_report, state.stored_at_report = state.stored_at_report, None
        try:
            return super().stored_numbers()
        finally:
            state.stored_at_report = at_report


class CountsEveryView(Stability):
    """Counts what members in other views have stored (T24)."""

    def _counts(self, peer: Peer) -> bool:
        return True


# --- what is written down ---


class ForgetsItsVotes(Journal):
    """Does not write down what it promised and voted for (T17)."""

    def write(self, entry: Entry, ready: Ready) -> None:
        if not isinstance(entry, Voted):
            super().write(entry, ready)


class ForgetsWhatIsFrozen(Journal):
    """Does not write down what it has frozen (T19)."""

    def write(self, entry: Entry, ready: Ready) -> None:
        if not isinstance(entry, Frozen):
            super().write(entry, ready)


class NoCustodyOfTheRemoved(Journal):
    """Does not write down messages of those that are removed (T27)."""

    def store(self, stream: Stream, upto: int, ready: Ready) -> None:
        state, member = self.state, stream.member
        if member.pid not in state.frozen and state.latest.member_of(member.pid) == member:
            super().store(stream, upto, ready)


# --- newcomers ---


class OpensWithTheFirstMark(Newcomer):
    """Opens as soon as one older member's mark is known (T8)."""

    def _is_complete(self, me: MemberId) -> bool:
        older = [member for member in self.state.latest.members if member.joined < me.joined]
        return not older or any(self.state.streams[member].base is not None for member in older)


class OpensWithTheMarks(Newcomer):
    """Opens as soon as it knows the marks, whatever older members have (T9)."""

    def _has_all(self, pid: int, me: MemberId) -> bool:
        peer, streams = self.links.peers[pid], self.state.streams
        return peer.member.joined >= me.joined or streams[peer.member].base is not None


class AnswersToItsNumber(Newcomer):
    """Acts as the member that has its number, whichever process was added under it (T36)."""

    def added(self, view: View, now: Instant, ready: Ready) -> None:
        place = view.place_of(self.state.pid)
        if place >= 0:
            nonces = [*view.nonces]
            nonces[place] = self.state.incarnation
            view = structs.replace(view, nonces=nonces)
        super().added(view, now, ready)


# --- what is waited for, reported and retained ---


class WaitsForEveryCut(ViewState):
    """Waits for what is missing of any removed member, also of one that came after the message (T38)."""

    def waits_for_cut(self, message: Message) -> bool:
        return bool(self.open_cuts)


class SaysThatItCame(ViewState):
    """Says by its messages what it has, though what they follow in part has to come again after a crash (T47)."""

    def awaits_begun(self) -> bool:
        return False


class ReportsWhatIsThere(Participant):
    """Does not report what it acted on and has no more (T39)."""

    def report(self, ballot: Ballot) -> Report:
        report = super().report(ballot)
        return structs.replace(report, acted_on=report.got)


class ForgetsWhatWasTaken(Recovery):
    """Retains after a restart only what its application has not taken, whoever lacks the rest (T43)."""

    def _retain_taken(self, stream: Stream, message: Message) -> None:
        pass


class ForgetsWhatWaits(Recovery):
    """Forgets after a restart the messages in custody that follow something which has to come again (T49)."""

    def hold_rest(self, messages: list[Message], now: Instant) -> None:
        pass
