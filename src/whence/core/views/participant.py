"""The part of every member in a change that somebody else leads: vote, freeze, report, flush.

Laws (docs/papers/views.md, change): what is frozen stays frozen, across crashes, until the instance is decided. Targets
of lower ballots do not count. A vote and a promise are durable before they are told. A removal is voted on only when
everybody that stays has what counts of the removed.
"""

from whence.core.ready import Ready, Send
from whence.core.views.inbox import Inbox
from whence.core.views.items import (
    Accept,
    Accepted,
    Flushed,
    Freeze,
    Nak,
    Prepare,
    Promise,
    Report,
    Target,
)
from whence.core.views.journal import Frozen, Journal, Voted
from whence.core.views.links import Links
from whence.core.views.view import NO_BALLOT, Ballot, View
from whence.types import Instant


class Acceptor:
    """The votes of one member, in the instance that decides what follows the latest view."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.instance = -1
        self.promised: Ballot = NO_BALLOT
        self.accepted: Ballot = NO_BALLOT
        self.value: View | None = None

    def look_at(self, instance: int) -> None:
        """Begin with another instance, if it is one."""
        if instance != self.instance:
            self.instance = instance
            self.promised = self.accepted = NO_BALLOT
            self.value = None

    def restore(self, voted: Voted) -> None:
        """Resume from what an earlier incarnation wrote."""
        self.instance, self.promised, self.accepted = voted.instance, voted.promised, voted.accepted
        self.value = voted.value

    def record(self) -> Voted:
        """Return the record of the votes."""
        return Voted(self.instance, self.promised, self.accepted, self.value)

    def prepare(self, asked: Prepare, ready: Ready) -> Promise | Nak:
        """Promise, unless a higher ballot was seen."""
        if asked.ballot < self.promised:
            return Nak(asked.instance, self.promised)
        if asked.ballot > self.promised:
            self.promised = asked.ballot
            self._journal.write(self.record(), ready)
        return Promise(asked.instance, asked.ballot, self.accepted, self.value)

    def accept(self, asked: Accept, ready: Ready) -> Accepted | Nak:
        """Vote, unless a higher ballot was seen."""
        if asked.ballot < self.promised:
            return Nak(asked.instance, self.promised)
        if asked.ballot != self.accepted:
            self.promised = self.accepted = asked.ballot
            self.value = asked.value
            self._journal.write(self.record(), ready)
        return Accepted(asked.instance, asked.ballot)


class Participant:
    """Answers whoever leads a change of the view that was entered."""

    def __init__(self, inbox: Inbox, links: Links, journal: Journal) -> None:
        self.state = links.state
        self.links = links
        self.inbox = inbox
        self.journal = journal
        self.acceptor = Acceptor(journal)
        self._leader = -1
        """Whom the report went to."""
        self._flushed: Ballot = NO_BALLOT
        """The ballot whose leader was told that the targets are reached."""

    def receive(self, sender: int, item: Prepare | Freeze | Target | Accept, now: Instant, ready: Ready) -> None:
        """Take an item of a leader; it may be this member itself."""
        state = self.state
        if item.instance != state.adopted:
            return  # the views that are missing here come first
        self.acceptor.look_at(state.adopted)
        match item:
            case Prepare():
                self._answer(sender, self.acceptor.prepare(item, ready), now, ready)
            case Accept():
                self._answer(sender, self.acceptor.accept(item, ready), now, ready)
            case Freeze() if state.entered == state.adopted:
                self._freeze(sender, item, now, ready)
            case Target() if state.entered == state.adopted:
                self._target(sender, item, now, ready)

    def _answer(
        self, sender: int, item: Promise | Nak | Accepted | Report | Flushed, now: Instant, ready: Ready
    ) -> None:
        ready.send.append(Send((sender,), item))

    def _freeze(self, sender: int, asked: Freeze, now: Instant, ready: Ready) -> None:
        state = self.state
        if asked.ballot < state.report_ballot:
            self._answer(sender, Nak(asked.instance, state.report_ballot), now, ready)
            return
        fresh = [pid for pid in asked.remove if pid not in state.frozen]
        if asked.ballot > state.report_ballot or fresh:
            state.report_ballot = asked.ballot
            state.targets = {}
            state.frozen.update(dict.fromkeys(asked.remove))
            self.journal.write(Frozen(asked.instance, asked.ballot, list(state.frozen)), ready)
        if state.stored_at_report is None:
            state.stored_at_report = self.links.stored_numbers()
        self._leader = sender
        self._answer(sender, self.report(asked.ballot), now, ready)

    def report(self, ballot: Ballot) -> Report:
        """Return how far this member is."""
        state = self.state
        here = state.here
        if not state.opened:
            size = len(here)
            mine = state.own
            got = [mine.got if stream is mine else 0 for stream in here]
            return Report(
                state.entered, ballot, got, got, [0] * size,
                [1] * size, [stream.marks for stream in here], list(state.frozen), -1, False,
                [stream.base or 0 for stream in here],
            )  # fmt: skip
        return Report(
            state.entered, ballot, [stream.got for stream in here], [stream.acted_on for stream in here],
            [stream.clock for stream in here], [stream.held_from for stream in here],
            [stream.marks for stream in here], list(state.frozen), state.closed, True,
            [stream.base or 0 for stream in here],
        )  # fmt: skip

    def _target(self, sender: int, asked: Target, now: Instant, ready: Ready) -> None:
        state = self.state
        if asked.ballot != state.report_ballot or len(asked.numbers) != len(state.here):
            return
        state.targets = {stream.member.pid: number for stream, number in zip(state.here, asked.numbers, strict=True)}
        self._leader = sender
        self._flushed = NO_BALLOT  # the answer may have been lost
        for pid, peer in self.links.peers.items():
            if self.links.is_in_reach(pid):
                self.links.push(peer, ready)
        self.inbox.release(now, ready)
        if not self.flush(now, ready):
            self.inbox.ask(now, ready, of_absent=True)

    def flush(self, now: Instant, ready: Ready) -> bool:
        """Tell the leader that the targets are reached, once they are; return whether they are."""
        state = self.state
        if not state.targets or self._flushed == state.report_ballot:
            return True
        if state.opened and any(stream.got < state.targets.get(stream.member.pid, 0) for stream in state.here):
            return False
        if state.opened:
            for stream in state.here:
                if stream.member.pid in state.frozen:
                    self.journal.store(stream, stream.got, ready)
        self._flushed = state.report_ballot
        self._answer(self._leader, Flushed(state.entered, state.report_ballot), now, ready)
        return True

    def entered(self) -> None:
        """Forget what was frozen: a view was entered."""
        state = self.state
        state.frozen, state.targets, state.report_ballot = {}, {}, NO_BALLOT
        state.stored_at_report = None
