"""How members come to know who merges, and how mergers that are gone are replaced.

Law: role_table.py. A merger that has been silent for `patience_beats` is replaced by the first merger that has not. If
all are silent, the members in the line of succession, deputies first and then those that the group began with, take
over: each waits for one patience longer than the one before it, so that mostly one does. It needs another that hears no
merger either: one that hears nobody cannot tell that it is deaf from that all others are gone. Two that took over at
once, or in two parts of a group, end with the same table, because the newer one counts.
A process that did not run for a while has heard nobody: it judges nobody before it has listened again. So a merger that
comes back follows, and disturbs nobody.
A newcomer asks its contacts on every beat until one of them knows. A merger sends its table to the other mergers, its
followers, the deputies, former mergers that may not know that they were replaced, and in turn to those that the group
began with: two halves meet again, whatever either remembers.
Cost: one item per merger, follower and beat.
Source: docs/papers/merge.md: merge 11.
"""

from collections.abc import Sequence

from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.candidates import CANDIDATES_MAX, Candidate, by_merit
from whence.core.levels.total.clock import GuardedClock
from whence.core.levels.total.items import Mergers
from whence.core.levels.total.role_table import UNKNOWN, RoleTable, from_record
from whence.core.levels.total.settings import TotalSettings
from whence.core.ready import Ready, Send
from whence.limits import MERGERS_MAX
from whence.types import Instant, Process

FORMER_MAX = 64
"""Replaced mergers that are still sent the table. Full: the oldest is dropped."""

TERM_LEAD_MAX = 1024
"""Ticks by which changes in quick succession may put a term ahead of the clock, beyond what clocks may differ by."""

DOUBLINGS_MAX = 5
"""A merger that was never heard gets twice the patience, and twice as much each time that one had to be replaced in
vain: where links are slow because they are loaded, one change after another only makes them slower."""

ASKED_MAX = 4
"""Members that the group began with which one that hears no merger asks in one beat."""


class RoleExchange:
    """The newest known table, what follows from it for this member, and when to send it to others."""

    def __init__(self, me: Process, settings: TotalSettings, clock: GuardedClock) -> None:
        self._me = me
        self._settings = settings
        self._merge = settings.merge
        self._clock = clock
        self._patience_ns = settings.patience_ns
        self._pause_ns = max(settings.patience_ns // 2, 2 * settings.merge.beat_ns)
        """A member that has not ticked for longer did not run: it cannot say who was silent."""
        self._lead_max = settings.timing.lead_max + settings.timing.stall_max + TERM_LEAD_MAX
        self._heard: dict[int, Instant] = {}
        """When each merger and deputy was last heard from."""
        self._answered: set[int] = set()
        """The mergers that were heard since they merge; others may not know of it yet."""
        self._doublings = 1
        """How often the patience with a merger that was never heard is doubled."""
        self._reported: dict[int, list[Candidate]] = {}
        """The members that follow the other mergers."""
        self._steady: dict[int, int] = {}
        """How long each follower had been heard steadily when the deputies were last reviewed."""
        self._reviewed_at: Instant = 0
        self._former: dict[int, None] = {}
        """Former mergers that may not know that they were replaced: two that replaced each other must meet again."""
        self._contacts: tuple[int, ...] = ()
        """The peers a newcomer asks; none once it knows who merges."""
        self._origins: tuple[int, ...] = (me.pid,)
        """The members that the group, or this member, began with."""
        self._turn = 0
        self._ticked_at: Instant = 0
        self._judges_from: Instant = 0
        """When it has listened for long enough to change the table."""
        self._alone_since: Instant | None = None
        """Since when this member has heard no merger."""
        self._seconded_at: Instant | None = None
        """When another member last said that it hears none either."""
        self._beat_at: Instant = 0
        self._set(UNKNOWN)

    def _set(self, table: RoleTable) -> None:
        pid, mergers = self._me.pid, table.mergers
        self.table = table
        self.merges = pid in mergers
        """Whether this member is a merger."""
        self.relays = pid in table.relays
        """Whether it is a relay."""
        self.others = tuple([other for other in mergers if other != pid])
        """The mergers except the member itself."""
        self.targets = tuple([to for to in table.sends_to(pid, self._merge.relay_fanout) if to != pid])
        """Where its publications go, except to itself."""

    @property
    def home(self) -> int:
        """Return the merger that this member prefers to follow."""
        return self.others[self._me.pid % len(self.others)]

    # --- what is known ---

    def began_with(self, pids: Sequence[int]) -> None:
        """Learn the founders, or a newcomer's contacts: whom to ask when nobody else answers."""
        self._origins = tuple(sorted(dict.fromkeys(pids))) or (self._me.pid,)

    def restore(self, records: Sequence[bytes]) -> None:
        """Restore the newest table that an earlier incarnation persisted."""
        stored = [table for table in map(from_record, records) if table is not None and self._is_possible(table)]
        self._set(max([self.table, *stored]))

    def adopt(self, table: RoleTable, now: Instant) -> None:
        """Act by a table from now on; its mergers and deputies count as just heard from."""
        self._former |= dict.fromkeys(self.table.mergers)
        self._former = {pid: None for pid in self._former if pid not in table.mergers and pid != self._me.pid}
        while len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]
        self._set(table)
        self._listen_again(now)
        self._ticked_at = now
        self._reported = {pid: report for pid, report in self._reported.items() if pid in table.mergers}
        self._answered.intersection_update(table.mergers)
        self._contacts = ()

    def guard(self, *, thoroughly: bool) -> RoleTable | None:
        """Return the table to act by if the one here is impossible; None if it is possible.

        Before every input, one comparison finds a term from the future; `thoroughly`, once a beat, the rest.
        """
        table = self.table
        if table.term <= self._clock.rt + self._lead_max and not thoroughly:
            return None
        named = self._merge.named()
        if self._is_possible(table) and (not named or not table.term or table.mergers == named):
            self._set(table)
            return None
        return self._settings.first_roles(self._origins)

    def _is_possible(self, table: RoleTable) -> bool:
        return 0 <= table.term <= self._clock.rt + self._lead_max and table.is_consistent()

    # --- what others say ---

    def ask(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Send the table known here to some members, who answer if theirs is newer; repeat while none is known here."""
        self._contacts = tuple(contacts) if not self.table.term else ()
        self._beat_at = now + self._merge.beat_ns
        if contacts:
            ready.send.append(Send(tuple(contacts), self._item()))

    def hear(self, sender: Process, item: Mergers, now: Instant, ready: Ready) -> RoleTable | None:
        """Return the table that a member sent if it is newer; if the one here is newer, send it back."""
        if sender.pid in self.table.mergers:
            self._heard[sender.pid] = now
            self._answered.add(sender.pid)
            self._reported[sender.pid] = [Candidate(pid, steady_ns) for pid, steady_ns in item.candidates]
        if item.alone:
            self._seconded_at = now
        received = RoleTable(item.term, tuple(item.mergers), tuple(item.relays), tuple(item.deputies))
        if received < self.table:
            self.tell(sender, ready)
        return received if received > self.table and self._is_possible(received) else None

    def tell(self, member: Process, ready: Ready) -> None:
        """Send a member the table."""
        ready.send.append(Send((member.pid,), self._item(), member.incarnation))

    # --- time ---

    def tick(
        self, now: Instant, followers: Sequence[int], candidates: Sequence[Candidate] | None,
        answered_at: Instant | None, ready: Ready,
    ) -> RoleTable | None:  # fmt: skip
        """Ask again, or as a merger send the table; return a newer table if this member is the one to make it.

        `candidates` are the followers of a merger that may change the table, None of any other member; `answered_at` is
        when a merger last answered one that follows.
        """
        if not 0 <= now - self._ticked_at <= self._pause_ns:
            self._listen_again(now)
            self._judges_from = now + self._patience_ns
        self._ticked_at = now
        self._judges_from = min(self._judges_from, now + self._patience_ns)
        if self._beat_at > now + self._merge.beat_ns:
            self._beat_at = now
        if now < self._beat_at or not (self.table.term or self._contacts):
            return None
        self._beat_at = now + self._merge.beat_ns
        if self._contacts:
            ready.send.append(Send(self._contacts, self._item()))
            return None
        if not self.merges:
            return None if self._merge.named() else self._watch(now, answered_at, ready)
        if self.others:
            ready.send.append(Send(self.others, self._item(candidates or ())))
        to = dict.fromkeys((*followers, *self.table.deputies, *self._former, self._next_origin()))
        if told := tuple([pid for pid in to if pid not in self.table.mergers]):
            ready.send.append(Send(told, self._item()))
        return None if candidates is None else self._mended(now, candidates)

    def wake_at(self) -> Instant:
        """Return when the next beat is due; NEVER if there is nothing to send: a follower's own beats wake it."""
        return self._beat_at if self._contacts or self.merges else NEVER

    def _listen_again(self, now: Instant) -> None:
        self._heard = dict.fromkeys((*self.table.mergers, *self.table.deputies), now)
        self._alone_since = None

    def _next_origin(self) -> int:
        self._turn += 1
        return self._origins[self._turn % len(self._origins)]

    # --- changes ---

    def _mended(self, now: Instant, candidates: Sequence[Candidate]) -> RoleTable | None:
        """Return the table with what is silent replaced, if this merger is the first that is not silent."""
        silent = [pid for pid in self.others if self._is_silent(pid, now)]
        first = next(pid for pid in self.table.mergers if pid not in silent)
        if first != self._me.pid or self._merge.named() or now < self._judges_from:
            return None
        reports = [report for pid, report in self._reported.items() if pid not in silent]
        free = by_merit((candidates, *reports))
        self._heard |= dict.fromkeys([pid for pid in self.table.deputies if pid in free], now)
        silent += [pid for pid in self.table.deputies if self._is_silent(pid, now)]
        demoted = self._interrupted(free, now)
        wanted = (self._merge.mergers, self._merge.relays)
        mended = self.table.mended(self._clock.rt, silent, list(free), *wanted, demoted)
        if mended.mergers != self.table.mergers:
            again = [pid for pid in self.others if pid not in mended.mergers and pid not in self._answered]
            self._doublings = min(self._doublings + 1, DOUBLINGS_MAX) if again else 1
        return mended if mended > self.table else None

    def _interrupted(self, steady: dict[int, int], now: Instant) -> list[int]:
        """Return the deputies that did not hear their merger steadily; at most once a patience, or a lossy network
        would change the table all the time."""
        if 0 <= now - self._reviewed_at < self._patience_ns:
            return []
        before, self._steady, self._reviewed_at = self._steady, steady, now
        return [pid for pid in self.table.deputies if steady.get(pid, 0) < before.get(pid, 0)]

    def joined_by_successor(self, candidates: Sequence[Candidate]) -> RoleTable | None:
        """Return the table with one merger more, in whose favour this one may leave; None if there is nobody."""
        table, room = self.table, len(self.table.mergers) < MERGERS_MAX
        if self._merge.named() or not room:
            return None
        free = by_merit((candidates, *self._reported.values()))
        joined = table.mended(self._clock.rt, [], list(free), len(table.mergers) + 1, len(table.relays))
        return joined if len(joined.mergers) > len(table.mergers) else None

    def tell_all(self, followers: Sequence[int], ready: Ready) -> None:
        """Send the table to everybody who must know of it soon."""
        if to := tuple(dict.fromkeys((*self.others, *followers, *self.table.deputies))):
            ready.send.append(Send(to, self._item()))

    def say_farewell(self, followers: Sequence[int], ready: Ready) -> None:
        """Send everybody the table without this merger, which leaves."""
        if self._merge.named() or not self.others:
            return
        left = self.table.without(self._clock.rt, self._me.pid)
        to = dict.fromkeys((*self.others, *followers, *left.deputies))
        ready.send.append(Send(tuple(to), _item_of(left, ())))

    def _watch(self, now: Instant, answered_at: Instant | None, ready: Ready) -> RoleTable | None:
        """While no merger is heard, ask who else knows one; return a table of its own when it is this member's turn."""
        unanswered = answered_at is None or not 0 <= now - answered_at <= self._patience_ns
        if not unanswered or not all(self._is_silent(pid, now) for pid in self.table.mergers):
            self._alone_since = None
            return None
        if self._alone_since is None or self._alone_since > now:
            self._alone_since = now
        asked = [*self.table.deputies, *[self._next_origin() for _ in range(ASKED_MAX)], *self.table.mergers]
        if to := tuple([pid for pid in dict.fromkeys(asked) if pid != self._me.pid]):
            ready.send.append(Send(to, _item_of(self.table, (), alone=True)))
        line = [pid for pid in dict.fromkeys((*self.table.deputies, *self._origins)) if pid not in self.table.mergers]
        if self._me.pid not in line or not (self._is_seconded(now) or line == [self._me.pid]):
            return None
        turn = line.index(self._me.pid) + 1
        if now - self._alone_since <= turn * self._patience_ns or now < self._judges_from:
            return None
        return self.table.taken_over(self._clock.rt, self._me.pid)

    def _is_seconded(self, now: Instant) -> bool:
        return self._seconded_at is not None and 0 <= now - self._seconded_at <= self._patience_ns

    def _is_silent(self, pid: int, now: Instant) -> bool:
        heard = self._heard.setdefault(pid, now)
        if heard > now:
            self._heard[pid] = now  # the wall clock was set back
        new = pid in self.table.mergers and pid not in self._answered and self.merges
        return now - heard > self._patience_ns << (self._doublings if new else 0)

    def _item(self, candidates: Sequence[Candidate] = ()) -> Mergers:
        return _item_of(self.table, candidates)


def _item_of(table: RoleTable, candidates: Sequence[Candidate], *, alone: bool = False) -> Mergers:
    best = sorted(candidates, key=lambda candidate: (-candidate.steady_ns, candidate.pid))[:CANDIDATES_MAX]
    return Mergers(table.term, list(table.mergers), list(table.relays), table.deputies, tuple(best), alone)
