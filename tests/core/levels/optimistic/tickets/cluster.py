"""A cluster of ticket managers without a simulator: messages in a bag, time in our hands; a test can lose just one."""

from collections.abc import Callable
from random import Random

from msgspec import structs

from whence.core.levels.optimistic.tickets.manager import TicketManager
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.ready import Item, Note, Ready
from whence.types import ANY_INCARNATION, Process

ROUND_NS = 1_000_000
TICKETS = 6
SETTINGS = TicketSettings(
    tickets=TICKETS, k=1, seeds="0,1,2,3", ticket_round_ns=ROUND_NS, answer_ns=ROUND_NS // 10, exclude_chance=1.0
)


class TicketCluster:
    """Managers 0 … count - 1, all in their first incarnation."""

    def __init__(
        self, count: int = 6, settings: TicketSettings = SETTINGS, kind: type[TicketManager] = TicketManager
    ) -> None:
        self.now = 0
        self.settings = settings
        self.notes: list[tuple[int, Note]] = []
        self.managers = {
            pid: kind(Process(pid, 1), settings, Random(pid).random, lambda _: 0, 0) for pid in range(count)
        }
        self.lost: Callable[[int, int, Item], bool] = lambda source, target, item: False
        self.bag: list[tuple[Process, int, int, Item]] = []
        self.said: list[Item] = []
        self.journals = {pid: manager.begin() for pid, manager in self.managers.items()}

    def take(self, pid: int, ready: Ready) -> None:
        self.journals[pid] += ready.persist
        self.notes += [(pid, note) for note in ready.notes]
        for send in ready.send:
            for target in send.to:
                self.said.append(send.item)
                if not self.lost(pid, target, send.item):
                    self.bag.append((self.managers[pid].me, target, send.incarnation, send.item))

    def acquire(self, pid: int) -> None:
        self.managers[pid].acquire(self.now)

    def release(self, pid: int) -> None:
        ready = Ready()
        self.managers[pid].release(self.now, ready)
        self.take(pid, ready)

    def crash(self, pid: int) -> None:
        del self.managers[pid]

    def settle(self) -> None:
        """Deliver everything in the bag, and what that causes."""
        while self.bag:
            sender, target, incarnation, item = self.bag.pop(0)
            manager = self.managers.get(target)
            if manager is not None and incarnation in (ANY_INCARNATION, manager.me.incarnation):
                ready = Ready()
                manager.receive(sender, item, self.now, ready)
                self.take(target, ready)

    def step(self, by_ns: int = ROUND_NS // 20) -> None:
        """Let a little time pass for everybody."""
        self.now += by_ns
        for pid in sorted(self.managers):
            manager = self.managers[pid]
            due = manager.wake_at(self.now)
            if due is not None and due <= self.now:
                ready = Ready()
                manager.tick(self.now, ready)
                self.take(pid, ready)
        self.settle()

    def rounds(self, count: float) -> None:
        end = self.now + int(count * ROUND_NS)
        while self.now < end:
            self.step()

    def acting(self) -> dict[int, tuple[int, int, int]]:
        """Return who may act now: ticket, epoch, and for how many tickets."""
        return {
            pid: (*manager.coordinator.session.ticket_epoch, manager.coordinator.session.authority.coordinates())
            for pid, manager in self.managers.items()
            if manager.coordinator.session is not None and manager.coordinator.session.authority.may_act(self.now)
        }

    def covered(self) -> list[int]:
        """Return every ticket once for each process that acts for it."""
        acting = self.acting().values()
        return sorted((ticket - at) % self.settings.tickets for ticket, _, count in acting for at in range(count))

    def reasons(self) -> list[str]:
        return [note.reason for _, note in self.notes if note.kind == "note" and note.reason is not None]


def cluster_of(coordinators: int, count: int = 6, **settings: object) -> TicketCluster:
    """Make a cluster in which the first `coordinators` processes hold tickets."""
    cluster = TicketCluster(count, structs.replace(SETTINGS, **settings))
    for pid in range(coordinators):
        cluster.acquire(pid)
        while len(cluster.acting()) <= pid:
            cluster.rounds(1)
            assert cluster.now < 40 * ROUND_NS * (pid + 1)
    cluster.rounds(3)
    return cluster
