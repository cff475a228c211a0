"""Random computations of the merge paper's system ds(ε, δ): processes with clocks, events, messages and mergers.

One world runs both kinds of stamps over the same events, and true happened-before beside them. Everything the paper
has wrong can be switched on: clocks that differ by ε, releases by `=`, guards that run only at events, and so on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from whence.core.clocks.hlc import Hlc
from whence.core.clocks.kn import Kn, KnStamp
from whence.core.clocks.stamp import Timing, low_key
from whence.core.levels.total.merge_buffer import ARRIVED, BUNDLE, Fate, MergeBuffer, entry_of
from whence.limits import MergeLimits
from whence.types import Process, packed

LIMITS = MergeLimits()


@dataclass(frozen=True)
class Event:
    """What happened: where, when on its process's clock, with which stamps, after what."""

    process: int
    rt: int
    own_ticks: int
    """Ticks of its process since faults ended; negative for what happened before, or never."""
    kn: KnStamp
    hlc: int
    past: int
    """Bits of the events that happened before."""


@dataclass
class Message:
    """On its way from a process to another, or to a merger (numbered from n on)."""

    event: int
    target: int
    source: int
    r: int
    """When it was put on its way: δ counts from here."""
    kn: KnStamp
    hlc: int
    known: int
    """Bits of the events its receiver learns of."""


@dataclass
class Output:
    """What one merger released: event, or None for garbage, with the tick."""

    released: list[tuple[int | None, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """How the world behaves."""

    epsilon: int
    delta: int
    n: int
    k: int = 1
    mergers: int = 2
    literal_bound: bool = False
    """Clocks may differ by ε, as the paper has it, instead of less."""
    reading: str = "receiver"
    """Whose clock δ is measured on."""
    jumps: bool = False
    """Clocks may advance by several ticks at once, within the bound."""
    synchronous: bool = True
    """False: clocks and delays keep no bound at all."""
    release: str = "paper"
    order: str = "hlc"
    loss: float = 0.1
    steps: int = 120
    bounded: int = 0


class World:
    """One computation."""

    def __init__(
        self,
        random: Random,
        rules: Rules,
        kn_kind: Callable[[Timing], Kn] = Kn,
        buffer_type: type[MergeBuffer] = MergeBuffer,
        guarded: bool = True,
    ) -> None:
        self.random, self.rules, self.guarded = random, rules, guarded
        self.timing = Timing(
            epsilon=rules.epsilon, delta=rules.delta, publishers_max=rules.n, events_per_tick_max=rules.k,
            stall_max=0 if rules.synchronous else 1 << 40, bounded=rules.bounded,
        )  # fmt: skip
        self.all = rules.n + rules.mergers
        base = random.randint(50, 60)
        self.rt = [base + random.randint(0, rules.epsilon - 1) for _ in range(self.all)]
        self.start_rt = list(self.rt)
        self.kn = [kn_kind(self.timing) for _ in range(rules.n)]
        self.hlc = [Hlc(self.timing) for _ in range(rules.n)]
        self.mergers = [buffer_type(self.timing, LIMITS, rules.release) for _ in range(rules.mergers)]  # type: ignore[arg-type]
        self.output = [Output() for _ in range(rules.mergers)]
        self.events: list[Event] = []
        self.known = [0] * rules.n
        self.left = [rules.k - 1] * rules.n  # its first event is its beginning
        self.transit: list[Message] = []
        self.resets = 0
        self.faults_ended = True
        for process in range(rules.n):
            self.kn[process].start(self.rt[process])
            self.hlc[process].start(self.rt[process])

    def run(self, steps: int | None = None) -> "World":
        """Take all the steps."""
        for _ in range(self.rules.steps if steps is None else steps):
            draw = self.random.random()
            if draw < 0.45:
                self.advance(self.random.randrange(self.all))
            elif draw < 0.75:
                self.send(self.random.randrange(self.rules.n))
            else:
                self.receive()
        return self

    # --- time ---

    def advance(self, process: int) -> None:
        """Let a clock tick, if the bound allows; deadlines of messages are kept before it does."""
        rules, by = self.rules, 1
        if rules.jumps and self.random.random() < 0.3:
            by = self.random.randint(1, 4)
        if rules.synchronous:
            slack = (rules.epsilon if rules.literal_bound else rules.epsilon - 1) + min(self.rt)
            by = min(by, slack - self.rt[process])
            if by <= 0:
                return
            self._keep_deadlines(process, self.rt[process] + by)
        elif self.random.random() < 0.2:
            by = self.random.randint(1, 30)
        self.rt[process] += by
        if process < rules.n:
            self.left[process] = rules.k
            if self.guarded:
                self.guard(process)
        else:
            self.drain(process)

    def _keep_deadlines(self, process: int, rt: int) -> None:
        """Receive or lose what the clock's advance would make too late."""
        for message in list(self.transit):
            clock = message.target if self.rules.reading == "receiver" else message.source
            if clock == process and rt > message.r + self.rules.delta:
                if self.random.random() < 0.8:
                    self.take(message)
                if message in self.transit:
                    self.transit.remove(message)

    def guard(self, process: int) -> None:
        """Look after a process's stamps."""
        rt = self.rt[process]
        self.resets += self.kn[process].guard(rt).value == "reset"
        self.hlc[process].guard(rt)

    # --- events ---

    def send(self, process: int) -> None:
        """Create an event that sends to some processes and to every merger."""
        if not self.left[process]:
            return
        if self.guarded:
            self.guard(process)
        event = self._event(process, [])
        made = self.events[event]
        others = [other for other in range(self.rules.n) if other != process and self.random.random() < 0.4]
        for target in [*others, *range(self.rules.n, self.all)]:
            too_late = self.rules.reading == "receiver" and self.rt[target] > made.rt + self.rules.delta
            if self.random.random() >= self.rules.loss and not (too_late and self.rules.synchronous):
                known = made.past | 1 << event
                self.transit.append(Message(event, target, process, made.rt, made.kn, made.hlc, known))

    def receive(self) -> None:
        """Let a message that is on its way arrive."""
        if self.transit:
            self.take(self.random.choice(self.transit))

    def take(self, message: Message) -> None:
        """Receive a message, and sometimes others of the same target in the same event."""
        if message not in self.transit:
            return
        target = message.target
        if target >= self.rules.n:
            self.transit.remove(message)
            self.arrive(target, message)
            return
        if not self.left[target] and self.rules.synchronous:
            return  # K events happened in this tick; it waits, or is lost at its deadline
        together = [message]
        together += [m for m in self.transit if m.target == target and m is not message and self.random.random() < 0.3]
        for each in together:
            self.transit.remove(each)
        rt = self.rt[target]
        if self.guarded:
            self.guard(target)
            together = [m for m in together if self.kn[target].wrong(self._seen_at(m, rt).kn, rt) is None]
            if self.rules.synchronous:
                together = [m for m in together if self.hlc[target].wrong(m.hlc, rt) is None]
        if together:
            self._event(target, [self._seen_at(m, rt) for m in together])

    def _seen_at(self, message: Message, rt: int) -> Message:
        """Return the message as its receiver reads it, where clocks are transmitted modulo B."""
        return message

    def _event(self, process: int, messages: list[Message]) -> int:
        rt = self.rt[process]
        self.left[process] -= 1
        past = self.known[process]
        for message in messages:
            past |= message.known
        kn = self.kn[process].receive(rt, [m.kn for m in messages])
        hlc = self.hlc[process].receive(rt, [m.hlc for m in messages]) if messages else self.hlc[process].local(rt)
        number = len(self.events)
        self.known[process] = past | 1 << number
        own = rt - self.start_rt[process] if self.faults_ended else -1
        self.events.append(Event(process, rt, own, kn, hlc, past))
        return number

    # --- mergers ---

    def key(self, message: Message) -> tuple[int, int, int]:
        """Return a message's place by the kind of stamps the mergers use."""
        clock, stamp = self._ordering(message)
        k_hi, k_mid = clock.packed(stamp)
        return k_hi, k_mid, low_key(message.source, 1, message.event + 1)

    def _ordering(self, message: Message) -> tuple[Any, Any]:
        """Return a clock of the kind the mergers use, and the message's stamp of that kind."""
        return (self.kn[0], message.kn) if self.rules.order == "kn" else (self.hlc[0], message.hlc)

    def arrive(self, target: int, message: Message) -> None:
        """Hand a message to a merger."""
        merger, output = self.mergers[target - self.rules.n], self.output[target - self.rules.n]
        rt = self.rt[target]
        clock, stamp = self._ordering(message)
        if self.rules.synchronous and clock.wrong(stamp, rt) is not None:
            return
        bundle = packed(Process(message.source, 1), message.event + 1, [b""])
        if merger.arrive(rt, entry_of(self.key(message), rt, 0, bundle)) is Fate.LATE:
            output.late.append(message.event)
        self.drain(target)

    def drain(self, target: int) -> None:
        """Let a merger release what is due."""
        merger, output, rt = self.mergers[target - self.rules.n], self.output[target - self.rules.n], self.rt[target]
        merger.guard(rt)
        for entry in merger.release(rt):
            event = entry[BUNDLE].first - 1
            real = entry[BUNDLE].body == b"" and event < len(self.events)
            output.released.append((event if real else None, rt))
            output.waited.append(rt - entry[ARRIVED])

    def finish(self) -> None:
        """Let everything that is held come out: no more events, clocks go on."""
        self.transit.clear()
        wait = self.rules.delta + 4 * self.rules.epsilon + 40
        for _ in range(wait):
            for target in range(self.rules.n, self.all):
                self.rt[target] += 1
                self.drain(target)


def inverted(world: World, sequence: list[int]) -> int:
    """Count the events released after one that they happened before."""
    overtaken, wrong = 0, 0
    for event in sequence:
        wrong += overtaken >> event & 1
        overtaken |= world.events[event].past
    return wrong


def disagree(one: list[int], other: list[int]) -> bool:
    """Tell whether two sequences order some common events differently."""
    place = {event: at for at, event in enumerate(other)}
    common = [place[event] for event in one if event in place]
    return common != sorted(common)


def bits(mask: int) -> list[int]:
    """Return the places of the bits that are set: a set of events as numbers."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
