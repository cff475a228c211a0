"""PrCast for a whole group at once: one bundle, published in one group or in many equal ones, and where it gets.

Promises: what it returns has the distribution of a run on the event loop (core/dissemination/gossip.py on sim/) with
the same settings: every round, latency and draw is an exact one, in nanoseconds. `whence_lab.experiments.broadcast`
compares the two, and planted wrong engines show that the comparison can fail.
Assumes: founders that stay, clocks that run alike, and one bundle in a group, so that no buffer overflows; latencies of
at least `low_ns` > 0, and a round longer than that.
The sentence that decides: in one slice of the shortest latency, first what reaches a member before its own round, then
the round, then what reaches it after.
Costs: arrays of some 40 bytes a member, 200 with partial views of 20; all work is in numpy.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from whence.core.levels.gossip.level import Settings, settings_from
from whence.errors import UsageError
from whence.sim.network import Latency
from whence_lab.arrays.calendar import Calendar, Column, Ints, Shorts
from whence_lab.arrays.views import FOUNDS, NO_NEWS, SUBSCRIBES, WELCOMES, FullViews, PartialViews

NO_BUNDLE = -1
"""The age of a message without the bundle, and of the bundle at a member that has not seen it."""
NEVER = int(np.iinfo(np.int64).max)
OWN = 9
"""In place of news: not a message, but the member's own publication."""


class Broadcast(Struct, frozen=True, kw_only=True):
    """One bundle in a group that has been up for a while; the same in several groups, each on its own."""

    nodes: int
    groups: int = 1
    fanout: int = 4
    rounds: int = 6
    view: str = "full"
    view_size: int = 20
    round_ns: int = 100_000_000
    latency: Latency = Latency()
    loss: float = 0.0
    warm_up: int = 10
    """Rounds before the publication, which falls into the one after them."""

    def settings(self) -> dict[str, int | str]:
        """Return the settings of the level, by name."""
        return {
            "fanout": self.fanout, "rounds": self.rounds, "view": self.view, "view_size": self.view_size,
            "round_ns": self.round_ns,
        }  # fmt: skip


class Spread(NamedTuple):
    """Where the bundle got."""

    delays_ns: Ints
    """From its publication to its first arrival, by group and member; NEVER where it did not arrive, 0 at its
    publisher."""
    copies: Ints
    """Copies of the bundle that were sent, by group."""
    messages: Ints
    """Messages of all kinds that were sent before the publication, by group; 0 with full views."""

    def reached(self) -> Ints:
        """Return how many members have it, by group."""
        return self.reached_within(NEVER - 1)

    def reached_within(self, time_ns: int) -> Ints:
        """Return how many members had it so long after its publication, by group."""
        return np.asarray((self.delays_ns <= time_ns).sum(axis=1), np.int64)


class Engine:
    """All members of all groups, and what is under way between them."""

    def __init__(self, broadcast: Broadcast, seed: int) -> None:
        settings: Settings = settings_from(broadcast.settings())
        latency = broadcast.latency
        if latency.shape not in ("uniform", "constant") or not 0 < latency.low_ns < broadcast.round_ns // 2:
            raise UsageError("the array engine needs uniform or constant latencies, from above 0 to below half a round")
        self._broadcast, self._gossip = broadcast, settings.gossip
        self._rng = Generator(PCG64(seed))
        self._total = total = broadcast.nodes * broadcast.groups
        self._slice_ns, self._time_bits = latency.low_ns, latency.low_ns.bit_length()
        self._ticks, self._messages = Calendar(self._slice_ns), Calendar(self._slice_ns)
        self._welcomes = Calendar(self._slice_ns)
        self._welcomes_sent = 0
        self.partial = self._partial_views(settings) if broadcast.view == "partial" else None
        self._views = self.partial or FullViews(broadcast.nodes, self._rng)
        self._age = np.full(total, NO_BUNDLE, np.int16)
        self._seen_at = np.full(total, NEVER)
        self._copies, self._sent = np.zeros(total, np.int32), np.zeros(total, np.int32)
        self._carrying = 0
        """Members that pass the bundle on."""
        self._flying = 0
        """Copies of the bundle under way."""
        self._slice = 0
        self._next_round = self._first_rounds()
        self._published_at = self._plan_publications()
        if self.partial is None:
            self._skip_rounds(int(self._published_at.min()) // self._slice_ns)
        self._ticks.add(self._next_round, np.arange(total))

    def run_until(self, time_ns: int) -> None:
        """Run all slices that end up to a time."""
        while (self._slice + 1) * self._slice_ns <= time_ns:
            self._run_slice()

    def finish(self) -> Spread:
        """Run until nobody carries the bundle any more; return where it got."""
        self.run_until(self._broadcast.warm_up * self._broadcast.round_ns)
        before = self._by_group(self._sent)
        while self._carrying or self._flying:
            self._run_slice()
        seen_at = self._seen_at.reshape(self._broadcast.groups, -1)
        delays = np.where(seen_at == NEVER, NEVER, seen_at - self._published_at[:, None])
        return Spread(delays, self._by_group(self._copies), before)

    # --- the beginning ---

    def _partial_views(self, settings: Settings) -> PartialViews:
        broadcast = self._broadcast
        return PartialViews(broadcast.nodes, broadcast.groups, settings.gossip, settings.views, self._rng)

    def _first_rounds(self) -> Ints:
        """Draw when each member has its first round."""
        return (self._rng.random(self._total) * self._gossip.round_ns).astype(np.int64)

    def _plan_publications(self) -> Ints:
        """Plan one publication in each group, and return their times."""
        broadcast, rng = self._broadcast, self._rng
        times = ((broadcast.warm_up + rng.random(broadcast.groups)) * broadcast.round_ns).astype(np.int64)
        publishers = np.arange(broadcast.groups) * broadcast.nodes + rng.integers(0, broadcast.nodes, broadcast.groups)
        self._plan(times, publishers, np.zeros(times.size, np.int16), publishers, OWN)
        return times

    def _skip_rounds(self, to: int) -> None:
        """Go on to a slice before which there is nothing but rounds without a message."""
        self._slice = to
        while (early := np.flatnonzero(self._next_round < to * self._slice_ns)).size:
            self._next_round[early] += self._lengths(early.size)

    def _by_group(self, counts: NDArray[np.int32]) -> Ints:
        return np.asarray(counts.reshape(self._broadcast.groups, -1).sum(axis=1), np.int64)

    # --- a slice of time ---

    def _run_slice(self) -> None:
        at, self._slice = self._slice, self._slice + 1
        rows, welcomes = self._messages.take(at), self._welcomes.take(at)
        early = rows[0] < self._next_round[rows[1]] if rows else np.zeros(0, bool)
        if rows:
            self._receive(at, tuple(row[early] for row in rows), welcomes)
        ticks = self._ticks.take(at)
        if ticks:
            self._tick(ticks[1].astype(np.int64, copy=False))
        if rows and not early.all():
            self._receive(at, tuple(row[~early] for row in rows), welcomes)

    def _tick(self, pids: Ints) -> None:
        """Do a round of each of some members."""
        times = self._next_round[pids]
        self._next_round[pids] = later = times + self._lengths(pids.size)
        self._ticks.add(later, pids)
        age = self._age[pids]
        carries = (age != NO_BUNDLE) & (age < self._gossip.rounds)
        speaks = carries
        if self.partial is not None:
            questions = self.partial.next_round(pids)
            self._ask(times[questions.askers], pids[questions.askers], questions.asked)
            speaks = self.partial.speaking(pids, carries)
        senders = pids[speaks]
        if senders.size:
            targets = self._views.targets(senders, self._gossip.fanout)
            news = self.partial.news(senders) if self.partial is not None else np.zeros(senders.size, np.int16)
            ages = np.where(carries, age + 1, NO_BUNDLE).astype(np.int16)[speaks]
            self._send(times[speaks], senders, targets, ages, news)
        self._grow_older(pids[carries])

    def _lengths(self, count: int) -> Ints:
        """Draw lengths of rounds."""
        stretch = 1.0 + self._gossip.jitter * (2.0 * self._rng.random(count) - 1.0)
        return (self._gossip.round_ns * stretch).astype(np.int64)

    def _grow_older(self, pids: Ints) -> None:
        """Let the bundle grow older by a round where it was passed on."""
        self._age[pids] += 1
        self._carrying -= int((self._age[pids] >= self._gossip.rounds).sum())

    # --- what is sent ---

    def _send(self, times: Ints, senders: Ints, targets: Ints, ages: Shorts, news: Shorts) -> None:
        """Send the message of each sender to each of its targets."""
        count = targets.shape[1]
        self._sent[senders] += count
        self._copies[senders[ages != NO_BUNDLE]] += count
        self._plan(
            np.repeat(times, count) + self._latencies(targets.size), targets.ravel(), np.repeat(ages, count),
            np.repeat(senders, count), np.repeat(news, count),
        )  # fmt: skip

    def _ask(self, times: Ints, askers: Ints, asked: Ints) -> None:
        """Let members ask a peer each whether it is there."""
        if askers.size:
            kinds = np.full(askers.size, SUBSCRIBES, np.int16)
            self._send(times, askers, asked[:, None], np.full(askers.size, NO_BUNDLE, np.int16), kinds)

    def _welcome(self, times: Ints, asked: Ints, askers: Ints, told: Ints) -> None:
        """Answer members that ask: the text goes beside the message, which has its number in place of a sender."""
        arrive = times + self._latencies(times.size)
        numbers = self._welcomes_sent + np.arange(times.size)
        self._welcomes_sent += times.size
        self._sent[asked] += 1
        self._welcomes.add(arrive, numbers, told)
        self._plan(arrive, askers, np.full(askers.size, NO_BUNDLE, np.int16), numbers, WELCOMES)

    def _plan(self, arrive: Ints, targets: Ints, ages: Shorts, senders: Ints, news: Shorts | int) -> None:
        """Plan arrivals, but for what the network loses."""
        kinds = np.full(targets.size, news, np.int16) if isinstance(news, int) else news
        kept = (
            (kinds == OWN) | (self._rng.random(targets.size) >= self._broadcast.loss) if self._broadcast.loss else ...
        )
        self._flying += int((ages[kept] != NO_BUNDLE).sum())
        self._messages.add(arrive[kept], targets[kept], ages[kept], senders[kept], kinds[kept])

    def _latencies(self, count: int) -> Ints:
        latency = self._broadcast.latency
        if latency.shape == "constant":
            return np.full(count, latency.low_ns)
        return latency.low_ns + ((latency.high_ns - latency.low_ns) * self._rng.random(count)).astype(np.int64)

    # --- what arrives ---

    def _receive(self, at: int, rows: tuple[Column, ...], welcomes: tuple[Column, ...]) -> None:
        """Take what arrives in a slice, at each member in the order of arrival."""
        times, targets, ages, senders, news = rows
        places = (targets << self._time_bits) + (times - at * self._slice_ns)
        """Sorts by member, and at one member by time."""
        has = ages != NO_BUNDLE
        self._flying -= int(has.sum())
        self._take_bundle(times, targets, ages, places, np.flatnonzero(has))
        if self.partial is None:
            return
        self.partial.hear(targets[news != OWN])
        told = np.flatnonzero((news != OWN) & (news != NO_NEWS))
        order = told[np.argsort(places[told])]
        for chosen in _in_turns(order, targets[order]):
            self._take_news(times[chosen], targets[chosen], senders[chosen], news[chosen], welcomes)

    def _take_bundle(self, times: Ints, targets: Ints, ages: Shorts, places: Ints, having: Ints) -> None:
        """Keep the first copy at every member that has none."""
        new = having[self._age[targets[having]] == NO_BUNDLE]
        new = new[np.argsort(places[new])]
        pids = targets[new]
        first = new[np.r_[True, pids[1:] != pids[:-1]]] if new.size else new
        self._age[targets[first]] = ages[first]
        self._seen_at[targets[first]] = times[first]
        self._carrying += int((ages[first] < self._gossip.rounds).sum())

    def _take_news(self, times: Ints, targets: Ints, senders: Ints, news: Shorts, welcomes: tuple[Column, ...]) -> None:
        """Take one message at each of some different members."""
        partial = self.partial
        assert partial is not None
        asks = news == SUBSCRIBES
        if asks.any():
            self._welcome(times[asks], targets[asks], senders[asks], partial.welcome(targets[asks]))
        founds, welcomed = news == FOUNDS, news == WELCOMES
        if founds.any():
            partial.learn(targets[founds], partial.founding_news(senders[founds]))
        if welcomed.any():
            _, numbers, told = welcomes
            order = np.argsort(numbers)
            partial.learn(targets[welcomed], told[order[np.searchsorted(numbers[order], senders[welcomed])]])
        meets = ~founds & ~welcomed
        partial.meet(targets[meets], senders[meets])


def _in_turns(order: Ints, targets: Ints) -> Iterator[Ints]:
    """Yield rows that are sorted by target: all first ones of a target, then all second ones, and so on."""
    if not order.size:
        return
    numbers = np.arange(order.size)
    begins = np.r_[True, targets[1:] != targets[:-1]]
    turn = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
    for each in range(int(turn.max()) + 1):
        yield order[turn == each]
