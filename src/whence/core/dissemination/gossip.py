"""PrCast: balls-and-bins gossip. Each holder of a bundle passes it to a few random peers in each of its rounds.

Promises: every member that stays gets every bundle with high probability, in about `rounds` rounds; a bundle is handed
up at least once and leaves every buffer after `rounds` rounds.
Assumes: nothing about order, loss or duplication; rounds of different members are not synchronised.
The sentence that decides: a bundle first seen with age a is passed on in the next rounds - a rounds.
Source: gossip 2.1; J section 6 (fan-out 4, 5 hops, 20 events a message, history 40).
Costs per round: fan-out copies of one message with at most `gossip_bundles` bundles, one byte of age for each.
"""

from typing import Annotated

from msgspec import Meta, Struct

from whence import limits
from whence.core.membership.items import News, whole
from whence.core.membership.partial_view import PartialView
from whence.core.ready import Gauge, Item, Note, RandomSource, Ready, Send
from whence.errors import SettingError
from whence.types import Bundle, Instant, Process, are_valid

BUNDLE_FRAME_BYTES = 32
"""The most bytes that a bundle takes on the wire beyond its own: its array, name and three lengths."""

_INCARNATION_BITS, _SEQ_BITS = limits.INCARNATION_MAX.bit_length(), limits.SEQ_MAX.bit_length()


class Gossip(Item, frozen=True, tag=1):
    """What a member passes on in a round: bundles with their ages, and news of the membership."""

    ages: Annotated[bytes, Meta(max_length=limits.GOSSIP_BUNDLES_MAX)]
    bundles: Annotated[list[Bundle], Meta(max_length=limits.GOSSIP_BUNDLES_MAX)]
    subs: News
    unsubs: News

    def is_valid(self) -> bool:
        """Tell whether every bundle has an age and every payload its bytes, and the news are whole."""
        if len(self.ages) != len(self.bundles) or not are_valid(self.bundles):
            return False
        return not (self.subs or self.unsubs) or (whole(self.subs) and whole(self.unsubs))  # most gossip has no news

    def bundle_count(self) -> int:
        """Return the number of bundles it carries."""
        return len(self.bundles)

    def payload_bytes(self) -> int:
        """Return the bytes that are the application's."""
        return sum([len(bundle.body) for bundle in self.bundles])


class GossipSettings(Struct, frozen=True, kw_only=True):
    """How gossip spreads. Reach grows with fanout × rounds; so does the traffic."""

    fanout: int = 4
    """Peers sent to in each round. The paper's 4 reaches 99.7 % of 125 members in 5 rounds."""
    rounds: int = 6
    """Rounds a bundle is passed on. Ages count hops, and a hop takes some 0.6 rounds: 6 for 250 members, 5 for 125."""
    round_ns: int = 100_000_000
    """Length of a round. Latency is about log(N) × 0.6 rounds."""
    jitter: float = 0.1
    """Each round is longer or shorter by up to this fraction, so that members do not synchronise."""
    gossip_bundles: int = 20
    """Bundles in one message, youngest first."""
    buffer_bundles: int = 20
    """Bundles being passed on. Full: the oldest is dropped, because most members know it."""
    history: int = 256
    """Bundles remembered as seen. At least 2 × bundles per round of the whole group × (rounds + 2)."""
    idle_rounds: int = 3
    """The most rounds between two messages. Then one without bundles is sent, so that membership spreads in a quiet
    group."""

    def __post_init__(self) -> None:
        if self.fanout < 1:
            raise SettingError(f"fanout must be at least 1, not {self.fanout}")
        if not 1 <= self.rounds <= limits.ROUNDS_MAX:
            raise SettingError(f"rounds must be from 1 to {limits.ROUNDS_MAX}, not {self.rounds}")
        if self.round_ns < 1000:
            raise SettingError(f"round_ns must be at least 1000, not {self.round_ns}")
        if not 0 <= self.jitter < 1:
            raise SettingError(f"jitter must be from 0 to below 1, not {self.jitter}")
        if not 1 <= self.gossip_bundles <= limits.GOSSIP_BUNDLES_MAX:
            raise SettingError(
                f"gossip_bundles must be from 1 to {limits.GOSSIP_BUNDLES_MAX}, not {self.gossip_bundles}"
            )
        for name in ("buffer_bundles", "history", "idle_rounds"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")


class Carried(Struct, gc=False):
    """A bundle being passed on, and its age in rounds."""

    bundle: Bundle
    age: int


class PrCast:
    """Gossip over a partial or full view."""

    __slots__ = ("_carried", "_members", "_next_round", "_rng", "_seen", "_settings", "_silent_rounds")

    def __init__(self, members: PartialView, settings: GossipSettings, rng: RandomSource, start: Instant) -> None:
        self._members = members
        self._settings = settings
        self._rng = rng
        self._next_round = start + int(rng() * settings.round_ns)
        self._carried: dict[int, Carried] = {}
        self._seen: dict[int, None] = {}
        self._silent_rounds = 0

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Carry the member's own bundle from age 0."""
        self._carry(bundle, 0, ready)

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> list[Bundle]:
        """Take news and bundles; return the new bundles. A bundle seen before keeps the age it has here."""
        if not isinstance(item, Gossip):
            ready.notes.append(Note("reject", "not_gossip", peer=sender.pid))
            return []
        self._members.hear(sender, item.subs, item.unsubs)
        fresh = []
        seen = self._seen
        for age, bundle in zip(item.ages, item.bundles, strict=True):
            name = (
                bundle.pid << _INCARNATION_BITS | bundle.incarnation
            ) << _SEQ_BITS | bundle.first  # name_of, without a call
            if name not in seen:
                self._carry(bundle, age, ready)
                fresh.append(bundle)
        return fresh

    def tick(self, now: Instant, ready: Ready) -> None:
        """Do a round if it is due. Rounds missed in a pause are not made up for."""
        if now < self._next_round:
            return
        settings = self._settings
        stretch = 1.0 + settings.jitter * (2.0 * self._rng() - 1.0)
        length_ns = int(settings.round_ns * stretch)
        due = self._next_round + length_ns
        self._next_round = due if due > now else now + length_ns
        self._members.next_round(ready)
        self._pass_on(ready)
        self._age()

    def wake_at(self) -> Instant | None:
        """Return when the next round is due."""
        return self._next_round

    def gauges(self) -> list[Gauge]:
        """Return the number of bundles being passed on and remembered."""
        return [
            Gauge("gossip_buffer", len(self._carried), self._settings.buffer_bundles, must_drain=True),
            Gauge("gossip_history", len(self._seen), self._settings.history),
        ]

    def settled(self) -> int | None:
        """Return None: gossip never learns who has what."""
        return None

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return None: as above."""
        return None

    def _pass_on(self, ready: Ready) -> None:
        self._silent_rounds += 1
        quiet = not self._carried and not self._members.changed
        if quiet and self._silent_rounds < self._settings.idle_rounds:
            return
        targets = self._members.targets(self._settings.fanout)
        if not targets:
            return
        self._silent_rounds = 0
        chosen = self._youngest()
        ages = bytes([carried.age + 1 for carried in chosen])
        subs, unsubs = self._members.news()
        ready.send.append(Send(targets, Gossip(ages, [carried.bundle for carried in chosen], subs, unsubs)))

    def _youngest(self) -> list[Carried]:
        """Return the youngest bundles that fit a message; of two equally old ones, the one that came later."""
        carried = list(self._carried.values())
        if len(carried) <= self._settings.gossip_bundles and _fitting(carried) == len(carried):
            return carried
        carried.reverse()
        carried.sort(key=_age_of)
        carried = carried[: self._settings.gossip_bundles]
        return carried[: _fitting(carried)]

    def _age(self) -> None:
        """Let every bundle grow older by a round, and drop those that have been passed on in all their rounds."""
        over = []
        for key, carried in self._carried.items():
            carried.age += 1
            if carried.age >= self._settings.rounds:
                over.append(key)
        for key in over:
            del self._carried[key]

    def _carry(self, bundle: Bundle, age: int, ready: Ready) -> None:
        """Remember a bundle and pass it on in the rounds it has left."""
        key = name_of(bundle)
        self._seen[key] = None
        if len(self._seen) > self._settings.history:
            del self._seen[next(iter(self._seen))]
        if age >= self._settings.rounds:
            return
        self._carried[key] = Carried(bundle, age)
        self._trim(ready)

    def _trim(self, ready: Ready) -> None:
        """Make room by dropping the oldest: it has the fewest rounds left, and most members know it."""
        if len(self._carried) > self._settings.buffer_bundles:
            oldest = max(self._carried.items(), key=_age_of_entry)[0]
            dropped = self._carried.pop(oldest)
            ready.notes.append(Note("drop", "gossip_buffer", dropped.bundle))


def name_of(bundle: Bundle) -> int:
    """Return a bundle's unique name as one number: it is looked up for every bundle of every item."""
    return (bundle.pid << _INCARNATION_BITS | bundle.incarnation) << _SEQ_BITS | bundle.first


def _fitting(carried: list[Carried]) -> int:
    """Return the number of bundles, from the first on, that fit the bytes of one message."""
    room = limits.GOSSIP_BYTES_MAX
    for at, each in enumerate(carried):
        bundle = each.bundle
        room -= len(bundle.body) + len(bundle.sizes) + len(bundle.stamp) + BUNDLE_FRAME_BYTES
        if room < 0:
            return at
    return len(carried)


def _age_of(carried: Carried) -> int:
    return carried.age


def _age_of_entry(entry: tuple[int, Carried]) -> int:
    return entry[1].age
