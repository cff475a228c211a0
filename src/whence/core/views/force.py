"""Force: where no quorum is left, an operator names the survivors, and they go on as another generation.

Law: nobody votes. The survivors stop counting what the others publish, report, and bring each other up to what one of
them can supply; then the view is there. Every survivor must answer: who does not is none. Nothing is promised across
it, and used while the others go on, it splits the group: whoever of them meets the later generation is out.
Source: docs/papers/views.md, force.
"""

from collections.abc import Iterable

from whence.core.ready import NEVER, Note, RandomSource, Ready, Send
from whence.core.views.attempt import Attempt, Phase, Plan
from whence.core.views.items import Flushed, Freeze, Report, Target
from whence.core.views.leader import Leader
from whence.core.views.proposal import forced_targets, forced_view
from whence.core.views.settings import ViewSettings
from whence.core.views.view import Ballot, View
from whence.epochs import FORKS
from whence.types import Instant

GIVEN_UP = 24
"""After so many attempts' time, survivors that do not answer are waited for no longer."""

PATIENCE = 4
"""After so many attempts' time without an answer the survivors are asked anew; or, if they have reported, those that
could not be brought up fetch the rest later."""


class Force:
    """Leads an operator's change, as one of the survivors."""

    def __init__(self, leader: Leader, settings: ViewSettings, rng: RandomSource) -> None:
        self.state, self.leader = leader.state, leader
        self.survivors: dict[int, None] = {}
        """Empty: nothing is forced here."""
        self.next_at: Instant = NEVER
        self._attempt: Attempt | None = None
        self._until: Instant = 0
        self._pace = settings.attempt_ns
        self._rng = rng

    @property
    def waits_for(self) -> list[int]:
        """Return the survivors that have not answered."""
        attempt = self._attempt
        if attempt is None:
            return [pid for pid in self.survivors if pid != self.state.pid]
        answers: Iterable[int] = attempt.reports if attempt.phase is Phase.REPORT else attempt.flushed
        return [pid for pid in attempt.asked if pid not in answers]

    def begin(self, survivors: Iterable[int], now: Instant, ready: Ready) -> None:
        """Begin to replace the view by one of these members only."""
        self.survivors = dict.fromkeys(survivors)
        self._until = now + GIVEN_UP * self._pace
        self._ask(now, ready)

    def end(self) -> None:
        """Forget it: a view was decided, or nobody answers."""
        self.survivors, self._attempt, self.next_at = {}, None, NEVER

    def is_for(self, item: object) -> bool:
        """Tell whether an answer belongs to this change."""
        attempt = self._attempt
        return isinstance(item, Report | Flushed) and attempt is not None and item.ballot == attempt.ballot

    def receive(self, sender: int, item: Report | Flushed, now: Instant, ready: Ready) -> View | None:
        """Take an answer; return the view if it was the last one."""
        attempt = self._attempt
        if attempt is None or sender not in attempt.asked or item.instance != attempt.view.epoch:
            return None
        if isinstance(item, Report) and attempt.phase is Phase.REPORT and len(item.got) == len(attempt.view.members):
            attempt.reports[sender], attempt.moved_at = item, now
            if not self.waits_for:
                self._reported(attempt, now, ready)
        elif isinstance(item, Flushed) and attempt.phase is Phase.FLUSH:
            attempt.flushed[sender], attempt.moved_at = None, now
            if not self.waits_for:
                return self._view(attempt)
        return None

    def tick(self, now: Instant, ready: Ready) -> View | None:
        """Ask again who has not answered; return the view if it need not wait any longer."""
        attempt = self._attempt
        if now >= self._until:
            self.end()
            ready.notes.append(Note("note", "force_given_up"))
            return None
        if attempt is None or attempt.view.epoch != self.state.adopted:
            self._ask(now, ready)
        elif now - attempt.moved_at >= PATIENCE * self._pace:
            if attempt.phase is Phase.FLUSH:
                return self._view(attempt)  # what is missing is held by a survivor, and is fetched like any other
            self._ask(now, ready)
        else:
            self._repeat(attempt, ready)
            self.next_at = now + self._pace
        return None

    def _ask(self, now: Instant, ready: Ready) -> None:
        """Ask every survivor to stop and report, with a higher ballot than any that was seen."""
        state = self.state
        self.leader.round += 1
        gone = {member.pid: None for member in state.latest.members if member.pid not in self.survivors}
        if not gone:
            self.end()  # a view was decided meanwhile that is without them
            return
        ballot = Ballot(self.leader.round, state.pid)
        attempt = self._attempt = Attempt(state.latest, ballot, Plan(gone, {}, {}, plain=False), now)
        attempt.phase = Phase.REPORT
        self.next_at = now + self._pace
        ready.send.append(Send(attempt.asked, Freeze(attempt.view.epoch, ballot, list(gone))))

    def _repeat(self, attempt: Attempt, ready: Ready) -> None:
        instance, ballot, missing = attempt.view.epoch, attempt.ballot, tuple(self.waits_for)
        item = (
            Freeze(instance, ballot, list(attempt.plan.remove))
            if attempt.phase is Phase.REPORT
            else Target(instance, ballot, attempt.targets)
        )
        if missing:
            ready.send.append(Send(missing, item))

    def _reported(self, attempt: Attempt, now: Instant, ready: Ready) -> None:
        """Bring the survivors up to what they have between them; newcomers that have nothing yet come again."""
        idle = [pid for pid, report in attempt.reports.items() if not report.opened]
        if idle:
            for pid in idle:
                self.survivors.pop(pid, None)
            self._ask(now, ready)
            return
        attempt.targets = forced_targets(attempt)
        attempt.phase = Phase.FLUSH
        ready.send.append(Send(attempt.asked, Target(attempt.view.epoch, attempt.ballot, attempt.targets)))

    def _view(self, attempt: Attempt) -> View:
        fork = int(self._rng() * FORKS) ^ self.state.pid  # two operators at two members do not make one generation
        return forced_view(attempt, fork)
