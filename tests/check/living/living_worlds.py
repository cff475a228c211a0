"""Random executions of an ideal group on views: whatever happens in them, every promise is kept.

There is no protocol. Members publish and are handed events one by one, late, in any order that keeps their causal past,
or in one order for all. A change is one instant: those who stay hand each other all that any of them has, what only the
removed one had is lost, and all enter the next view together.
"""

from random import Random

from tests.check.living.living_builder import LivingBuilder
from whence.types import EventId


class LivingWorld:
    """A group whose members come and go, and the rows it writes."""

    def __init__(self, seed: int, *, strict: bool, durable: bool) -> None:
        self._rng = Random(seed)
        founders = self._rng.randint(2, 4)
        self.builder = LivingBuilder(range(founders), durable=durable, strict=strict, uniform=strict)
        self._strict, self._durable = strict, durable
        self._live = list(range(founders))
        self._down: list[int] = []
        self._order: list[EventId] = []
        """All events that may still come to somebody, in the order of publication: it extends happened-before."""
        self._past: dict[EventId, set[EventId]] = {}
        self._has: dict[int, dict[EventId, None]] = {pid: {} for pid in self._live}
        self._since: dict[int, int] = dict.fromkeys(self._live, 0)
        self._epoch: dict[EventId, int] = {}
        self._next = founders

    def run(self, steps: int) -> LivingBuilder:
        """Take some steps, then let everything arrive and some more be published; return what was written."""
        for _ in range(steps):
            self._step()
        for pid in list(self._down):
            self._restart(pid)
        self._flush()
        self.builder.phases()
        for pid in self._live:
            self._publish(pid)
        self._flush()
        return self.builder

    def _step(self) -> None:
        rng = self._rng
        up = [pid for pid in self._live if pid not in self._down]
        kind = rng.choices(("publish", "deliver", "join", "remove", "crash", "restart"), (8, 14, 1, 1, 1, 1))[0]
        if kind == "publish":
            self._publish(rng.choice(up))
        elif kind == "deliver":
            self._deliver_one(rng.choice(up))
        elif kind == "join" and len(self._live) < 6 and not self._down:
            self._change(add=self._next)
            self._next += 1
        elif kind == "remove" and len(up) > 2 and not self._down:
            self._change(remove=rng.choice(up))
        elif kind == "crash" and self._durable and len(up) > 2:
            pid = rng.choice(up)
            self.builder.crash(pid)
            self._down.append(pid)
        elif kind == "restart" and self._down:
            self._restart(rng.choice(self._down))

    def _restart(self, pid: int) -> None:
        self._down.remove(pid)
        self.builder.restart(pid)
        self.builder.enter(pid, self.builder.epochs[pid])
        self.builder.live(pid)

    # --- events ---

    def _publish(self, pid: int) -> None:
        event = self.builder.tell(pid)
        self._order.append(event)
        self._epoch[event] = self.builder.epochs[pid]
        own = [each for each in self._order if each.pid == pid and each != event]
        known = [*self._has[pid], *own]
        self._past[event] = set(known).union(*(self._past[each] for each in known))
        if not self._strict:
            self._hand(pid, event)

    def _ready(self, pid: int) -> list[EventId]:
        """Return what may be handed to a member now."""
        missing = [e for e in self._order if e not in self._has[pid] and self._epoch[e] >= self._since[pid]]
        if self._strict:
            return missing[:1]
        lacking = set(missing)
        return [event for event in missing if not self._past[event] & lacking]

    def _deliver_one(self, pid: int) -> None:
        ready = self._ready(pid)
        if ready:
            self._hand(pid, self._rng.choice(ready))

    def _hand(self, pid: int, event: EventId) -> None:
        self._has[pid][event] = None
        self.builder.hand(event, pid, epoch=self._epoch[event])
        is_there = event.pid in self._live and event.pid not in self._down
        if is_there and all(self._is_with_all(each) for each in self._order if each[:2] == event[:2] and each <= event):
            self.builder.receipt("settled", event)

    def _is_with_all(self, event: EventId) -> bool:
        return all(event in self._has[pid] for pid in self._live if self._since[pid] <= self._epoch[event])

    def _flush(self) -> None:
        """Hand everything to everybody that is there."""
        for pid in self._live:
            while ready := self._ready(pid):
                self._hand(pid, ready[0])

    # --- changes ---

    def _change(self, add: int | None = None, remove: int | None = None) -> None:
        if remove is not None:
            self._live.remove(remove)
            self._lose_what_only_it_has(remove)
        self._flush()
        epoch = self.builder.change(add=[] if add is None else [add], remove=[] if remove is None else [remove])
        if add is not None:
            self._live.append(add)
            self._has[add], self._since[add] = {}, epoch
        if remove is not None and self._rng.random() < 0.7:
            kept = [event for event in self._order if event.pid == remove]
            self.builder.out(remove, epoch, kept[-1] if kept else None)
        elif remove is not None:
            self.builder.crash(remove)

    def _lose_what_only_it_has(self, gone: int) -> None:
        """Forget the events of the removed that none of those who stay was handed; strict groups are uniform too."""
        holders = [*self._live, gone] if self._strict else self._live
        held = {event for pid in holders for event in self._has[pid]}
        own = [event for event in self._order if event.pid == gone]
        kept = [place for place, event in enumerate(own, start=1) if event in held]
        for event in own[max(kept, default=0) :]:
            self._order.remove(event)


def living_world(seed: int, steps: int, *, strict: bool, durable: bool) -> LivingBuilder:
    """Return a correct execution."""
    return LivingWorld(seed, strict=strict, durable=durable).run(steps)
