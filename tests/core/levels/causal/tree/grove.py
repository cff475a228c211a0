"""Members of a localized overlay in one hand: the test decides what arrives, in which order, and who crashes."""

from collections import Counter
from random import Random
from typing import Any

from whence.core.level import BuildContext
from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.causal.tree.member import TreeMember
from whence.core.member import Resuming
from whence.core.membership.full_view import Directory
from whence.core.ready import Delivery, Item, Ready, Returned
from whence.sim.lab import spec_of
from whence.types import Bundle, EventId, Process
from whence.wire.codec import decoder_with, encode
from whence_lab.rivals.level import RIVAL_ITEMS

MS = 1_000_000

DECODE = decoder_with(RIVAL_ITEMS)


class Grove:
    """All members of a tree; copies wait until the test lets them through."""

    around = BuildContext(Random(1).random, 0, Directory())

    def __init__(self, spec: CausalLevel | None = None, **settings: Any) -> None:
        self.spec: Any = spec or spec_of("causal")
        self.settings = self.spec.settings_from({"coding": "whole", **settings})
        self.now = 0
        self.incarnations: dict[int, int] = {}
        self.members: dict[int, Any] = {}
        self.journals: dict[int, list[bytes]] = {}
        self.flying: list[tuple[Process, int, Item]] = []
        self.delivered: dict[int, list[EventId]] = {}
        self.returned: dict[int, list[EventId]] = {}
        self.steps: Counter[int] = Counter()
        """Steps that each application has: publications that returned, and deliveries."""
        self.rewritten: Counter[int] = Counter()
        """How many it had when its journal was rewritten."""
        self.taken: dict[int, Counter[int]] = {}
        self.untaken: dict[int, list[Bundle]] = {}
        self.asleep: set[int] = set()
        """Nodes whose applications take nothing: what they were handed dies with the process."""
        self.notes: list[str] = []

    def start(self, *nodes: int) -> "Grove":
        for node in nodes:
            self.incarnations[node] = 1
            self.members[node] = self._build(node)
            self.journals[node] = []
            self.apply(node, self.members[node].found([], self.now))
        return self

    def _build(self, node: int) -> TreeMember:
        member: TreeMember = self.spec.build(Process(node, self.incarnations[node]), self.settings, self.around)
        assert member.view() is None
        return member

    def publish(self, node: int, group: int = 0, payload: bytes = b"x") -> EventId:
        bundle, ready = self.members[node].publish_to(group, [payload], self.now)
        self.apply(node, ready)
        return EventId(bundle.pid, bundle.incarnation, bundle.first)

    def apply(self, node: int, ready: Ready) -> None:
        self.journals.setdefault(node, []).extend(ready.persist)
        sender = Process(node, self.incarnations[node])
        for send in ready.send:
            for target in send.to:
                item = DECODE(encode("g", sender, [send.item])).items[0]
                self.flying.append((sender, target, item))
        published = [] if ready.published is None else [ready.published]
        for step in [*published, *ready.deliver]:
            self.steps[node] += 1
            assert isinstance(step, Delivery | Returned)
            name = EventId(step.bundle.pid, step.bundle.incarnation, step.bundle.first)
            if isinstance(step, Returned):
                self.returned.setdefault(node, []).append(name)
            else:
                self.untaken.setdefault(node, []).append(step.bundle)
        if node not in self.asleep:
            self.take(node)
        self.notes += [str(note.reason) for note in ready.notes]

    def take(self, node: int) -> None:
        """Let an application take all it was handed."""
        self.asleep.discard(node)
        for bundle in self.untaken.pop(node, []):
            self.delivered.setdefault(node, []).append(EventId(bundle.pid, bundle.incarnation, bundle.first))
            member = self.members.get(node)
            if isinstance(member, Resuming):
                self.taken.setdefault(node, Counter())[member.place_of(bundle.pid, bundle.incarnation)] += 1
                if self.around.remembers:
                    member.taken[member.place_of(bundle.pid, bundle.incarnation)] += 1

    def crash(self, node: int) -> None:
        del self.members[node]
        self.untaken.pop(node, None)
        self.flying = [copy for copy in self.flying if copy[1] != node]

    def restart(self, node: int) -> None:
        self.incarnations[node] += 1
        member = self.members[node] = self._build(node)
        if isinstance(member, Resuming):
            taken = self.taken.get(node, Counter())
            member.resume([taken[place] for place in range(len(member.taken))], len(self.returned.get(node, [])))
        ready = member.restore(self.journals[node], self.now)
        if not isinstance(member, Resuming):
            del ready.deliver[: self.steps[node] - self.rewritten[node]]  # the application has these
        self.apply(node, ready)

    def rewrite(self, node: int) -> None:
        """Put a checkpoint in the place of a journal."""
        self.journals[node], self.rewritten[node] = self.members[node].checkpoint(), self.steps[node]

    def pass_on(self, source: int | None = None, target: int | None = None, kind: type[Item] = Item) -> int:
        """Let waiting items through, in order; those that they cause wait."""
        chosen = [
            copy
            for copy in self.flying
            if (source is None or copy[0].pid == source)
            and (target is None or copy[1] == target)
            and isinstance(copy[2], kind)
        ]
        for copy in chosen:
            self.flying.remove(copy)
            self.arrive(copy)
        return len(chosen)

    def arrive(self, copy: tuple[Process, int, Item]) -> None:
        sender, target, item = copy
        if target in self.members:
            self.apply(target, self.members[target].receive(sender, item, self.now))
        elif sender.pid in self.members:
            self.apply(sender.pid, self.members[sender.pid].unreachable(target, self.now))

    def drop(self, source: int | None = None, target: int | None = None) -> None:
        self.flying = [
            copy
            for copy in self.flying
            if not ((source is None or copy[0].pid == source) and (target is None or copy[1] == target))
        ]

    def tick(self, by_ns: int) -> None:
        self.now += by_ns
        for node in list(self.members):
            self.apply(node, self.members[node].tick(self.now))

    def settle(self, rounds: int = 60) -> None:
        """Let everything through and time pass until nothing moves."""
        for _ in range(rounds):
            for _ in range(50):
                if not self.pass_on():
                    break
            self.tick(200 * MS)

    def at_rest(self) -> list[tuple[int, str, int]]:
        return [
            (node, gauge.name, gauge.value)
            for node, member in self.members.items()
            for gauge in member.gauges()
            if gauge.must_drain and gauge.value
        ]
