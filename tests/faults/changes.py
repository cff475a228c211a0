"""Living groups of real processes whose members change while everything goes wrong.

Five machines publish 500 events a second. Members are removed dead and alive, by any other; they come back with their
disks, without, or under new numbers; they leave. Meanwhile, and most of all while a change is under way, processes are
killed at any moment or at a named persist point, stopped, and parted. What the protocol cannot survive is not done: of
what never comes back (a wiped disk, a process without one) a quorum of the voters stays.

At the end of an episode everything heals. Then those who stay must have what any publisher was told is safe
(tests/faults/books.py), and the oracles judge what the processes traced.
"""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.faults.books import Books, had
from tests.faults.machines import Event, Machine, Membership
from tests.faults.member import GROUP, Task
from tests.faults.points import INCARNATION, POINTS
from tests.faults.wires import Wires
from whence.check.judge import judge
from whence.check.living.members import view_of
from whence.check.verdict import Outcome
from whence.core.views.view import VOTERS_MAX
from whence.trace.gathering import gather
from whence.trace.schema import Kind

MACHINES, MACHINES_MAX = 5, VOTERS_MAX
"""Everybody may vote, so that it is known who may be lost."""
RATE = 500.0
NEEDED_S = 90.0
AGAIN_S = 5.0
"""Who was asked to remove somebody may be dead: after this time somebody else is asked."""
REACHED_S = 3.0
HEALED_S = 0.5

KINDS: dict[str, dict[str, Any]] = {
    "causal": {"level": "causal", "membership": "living"}, "total": {"level": "total", "order": "strict"},
}  # fmt: skip
SETTINGS = {"majority": True}
CHANGES = ("remove dead", "remove live", "wipe", "grow", "leave")
"""What changes the members on purpose."""
HELD = ("integrity", "no_duplicates", "fifo", "one_chain", "causal", "agreement", "receipts")
"""What the trace must show to hold; of everything else it must not show the contrary."""


class Setting(NamedTuple):
    """What a group is, and what lies between its machines."""

    level: str
    durable: bool
    laid: Wires
    directory: Path
    rate: float = RATE


class Machines:
    """The machines of one group, and what is done to them."""

    def __init__(self, setting: Setting, seed: int, machines: int = MACHINES) -> None:
        self.setting = setting
        self._founders = list(range(machines))
        self.random = Random(f"{setting.level} {setting.durable} {seed}")
        self.done: Counter[str] = Counter()
        self.machines: dict[int, Machine] = {}
        self._mended_at: float | None = None
        for pid in self._founders:
            self._add(pid)

    def _add(self, pid: int) -> Machine:
        setting = self.setting
        laid = setting.laid
        founders = self._founders
        contacts = [laid.contact(other) for other in founders if other != pid]
        task = Task(
            pid, laid.listen(pid), laid.advertise(pid), contacts, str(setting.directory),
            {**KINDS[setting.level], "settings": SETTINGS}, founders if pid in founders else [],
            setting.rate / len(founders), setting.durable,
        )  # fmt: skip
        machine = self.machines[pid] = Machine(task, laid.command(pid))
        return machine

    # --- who is there ---

    @property
    def wanted(self) -> list[Machine]:
        """Return the machines that shall be members in the end."""
        return [machine for machine in self.machines.values() if machine.wanted]

    def up(self, *without: Machine) -> list[Machine]:
        """Return the machines that are members and run, except some."""
        return [each for each in self.wanted if each.is_up and not each.stopped_until and each not in without]

    def may_lose(self) -> bool:
        """Tell whether the group survives that one more member never comes back: all members vote, as everybody up
        sees it, and more than half of them would be left, whoever it is."""
        views = [machine.view for machine in self.up()]
        voters = [len(view.voters) if view is not None and view.voters == list(view.members) else 0 for view in views]
        return all(voters) and len(views) - 1 > max(voters, default=0) // 2

    def knows_none(self, member: Membership) -> bool:
        """Tell whether everybody that is up is in a view without a member."""
        views = [machine.view for machine in self.up()]
        return bool(views) and all(view and view.members.get(member.pid) != member.joined for view in views)

    def is_whole(self) -> bool:
        """Tell whether everybody wanted is up and in one view of exactly these."""
        pids = {machine.pid for machine in self.wanted}
        views = [machine.view for machine in self.up()]
        return (
            len(views) == len(pids)
            and all(view is not None and view.members.keys() == pids for view in views)
            and len({view.epoch for view in views if view}) == 1
        )

    # --- waiting ---

    def pause(self, least: float, most: float) -> None:
        """Let some time pass."""
        until = time.monotonic() + self.random.uniform(least, most)
        while time.monotonic() < until:
            self.tend()
            time.sleep(0.02)

    def until(self, reached: Callable[[], bool], what: str, again: Callable[[], None] | None = None) -> None:
        """Wait until something is so, undoing faults that are due; ask `again` now and then. Raises TimeoutError."""
        deadline, again_at = time.monotonic() + NEEDED_S, time.monotonic() + AGAIN_S
        while not reached():
            self.tend()
            if again is not None and time.monotonic() > again_at:
                again_at = time.monotonic() + AGAIN_S
                again()
            if time.monotonic() > deadline:
                for machine in self.machines.values():
                    machine.tell("how")
                time.sleep(1.0)
                raise TimeoutError(f"waited {NEEDED_S:.0f} s: {what}; {self._told()}")
            time.sleep(0.02)

    def _told(self) -> str:
        """Return how every machine is, for a message."""
        told = []
        for machine in self.wanted:
            view = machine.view
            seen = f"in view {view.epoch} of {list(view.members)}, knows {view.latest}" if view else "in no view"
            how = "up" if machine.is_up else "not joined" if machine.process.poll() is None else "down"
            told.append(f"{machine.pid} is {how}, {seen}")
        return "; ".join(told)

    def tend(self) -> None:
        """Undo what is due: cuts, stops, and processes that are down; start those again that were removed. Raises
        TimeoutError if a process ended by itself."""
        now = time.monotonic()
        if self._mended_at is not None and now > self._mended_at:
            self.setting.laid.mend()
            self._mended_at = None
        for machine in self.machines.values():
            if machine.stopped_until is not None and now > machine.stopped_until:
                machine.process.send_signal(signal.SIGCONT)
                machine.stopped_until = None
            if machine.restart_at is not None and now > machine.restart_at:
                machine.start()
            elif machine.was_removed and machine.wanted:
                machine.reap()
                self.done["came again after removal"] += 1
                machine.start()
            elif not machine.down and machine.wanted and machine.process.poll() is not None:
                raise TimeoutError(f"process {machine.pid} ended by itself with {machine.process.returncode}")

    # --- what goes wrong ---

    def end(self, victim: Machine, how: int = signal.SIGKILL, *, lost: bool = False) -> None:
        """End a process and, if it is lost, take its disk away; a process without one is always lost."""
        victim.end(how)
        if lost and self.setting.durable:
            victim.wipe()

    def kill(self, *but: Machine) -> bool:
        """Kill a process, which comes back in a while."""
        if not self.setting.durable and not self.may_lose():
            return False
        if len(self.up()) < MACHINES - 1 or not (chosen := self.up(*but)):
            return False
        victim = self.random.choice(chosen)
        self.end(victim)
        victim.restart_at = time.monotonic() + self.random.choice((0.0, self.random.uniform(0.1, 2.0)))
        return True

    def stop(self, *but: Machine) -> bool:
        """Stop a process for a while, sometimes for so long that others suspect it."""
        if not (chosen := self.up(*but)):
            return False
        victim = self.random.choice(chosen)
        victim.process.send_signal(signal.SIGSTOP)
        victim.stopped_until = time.monotonic() + self.random.choice(
            (self.random.uniform(0.1, 1.5), self.random.uniform(3.0, 5.0))
        )
        return True

    def cut(self, *but: Machine) -> bool:
        """Part some processes for a while."""
        if self._mended_at is not None:
            return False
        self.setting.laid.cut(self.random, [machine.pid for machine in self.wanted])
        self._mended_at = time.monotonic() + self.random.uniform(0.2, 2.5)
        return True

    def point(self, *but: Machine) -> bool:
        """Let a process die at a named point, the next time it comes by; one that does not is killed."""
        if not self.setting.durable or len(self.up()) < MACHINES - 1 or not (chosen := self.up(*but)):
            return False
        victim = self.random.choice(chosen)
        point = self.random.choice([point for point in POINTS if point != INCARNATION])
        victim.down = True
        victim.tell(f"die {point}")
        try:
            victim.process.wait(REACHED_S)
            self.done[f"point {point}"] += 1
        except subprocess.TimeoutExpired:
            self.done["points not reached"] += 1
        self.end(victim)
        victim.restart_at = time.monotonic() + self.random.uniform(0.0, 1.0)
        return True

    def disturb(self, *but: Machine) -> None:
        """Let something go wrong while a change is under way, more often than not; some machines are left alone."""
        for _ in range(self.random.choice((0, 1, 1, 2))):
            self.pause(0.0, 0.3)
            kind = self.random.choice(("kill", "stop", "cut", "point"))
            if getattr(self, kind)(*but):
                self.done[f"{kind} during a change"] += 1


class Changing(Machines):
    """Machines whose membership is changed."""

    def change(self, kind: str) -> bool:
        """Change the members in one way; return whether that was possible. Raises TimeoutError if it does not end."""
        done: bool = getattr(self, f"_{kind.replace(' ', '_')}")()
        if done:
            self.done[kind] += 1
        return done

    def _ask(self, victim: Machine) -> None:
        """Let somebody remove a machine."""
        if others := self.up(victim):
            self.random.choice(others).tell(f"remove {victim.pid}")

    def _out(self, victim: Machine, member: Membership) -> None:
        """Have a member removed, whatever happens meanwhile."""
        self._ask(victim)
        self.disturb(victim)
        self.until(
            lambda: self.knows_none(member), f"for {member} to be removed", again=lambda: self._ask(victim)
        )  # fmt: skip

    def _chosen(self) -> Machine | None:
        """Return a machine whose membership may end; None where too little would be left."""
        chosen = self.up()
        return self.random.choice(chosen) if len(chosen) >= MACHINES and self.may_lose() else None

    def _again(self, victim: Machine) -> None:
        """Start a machine again, and wait until it is a member."""
        victim.start()
        self.disturb(victim)
        self.until(lambda: victim.is_up, f"for process {victim.pid} to join")

    def _remove_dead(self) -> bool:
        """Kill a process, have it removed, and let it come back, with or without its disk."""
        if (victim := self._chosen()) is None or (member := victim.member) is None:
            return False
        self.end(victim)
        self._out(victim, member)
        if self.random.random() < 0.5:
            victim.wipe()
        self._again(victim)
        return True

    def _remove_live(self) -> bool:
        """Have a running process removed: it hears how far its events count, and joins again as another member."""
        if (victim := self._chosen()) is None or (member := victim.member) is None:
            return False
        self._out(victim, member)
        self.until(
            lambda: victim.is_up and victim.member is not member, f"for process {victim.pid} to hear it and join anew"
        )  # fmt: skip
        return True

    def _wipe(self) -> bool:
        """Kill a process, take its disk away, and start it under its number: it replaces what it was."""
        if (victim := self._chosen()) is None or (member := victim.member) is None:
            return False
        self.end(victim, lost=True)
        self.pause(0.0, 1.0)
        self._again(victim)
        self.until(lambda: self.knows_none(member), f"for {member} to be replaced")
        return True

    def _grow(self) -> bool:
        """Start a machine with a number that no member has."""
        free = [pid for pid in range(MACHINES_MAX) if pid not in self.machines or not self.machines[pid].wanted]
        if not free or len(self.up()) < MACHINES - 1:
            return False
        if (known := self.machines.get(free[0])) is None:
            machine = self._add(free[0])
        else:
            machine = known
            if self.random.random() < 0.5:
                machine.wipe()
            machine.wanted = True
            machine.start()
        self.disturb(machine)
        self.until(lambda: machine.is_up, f"for the new process {machine.pid} to join")
        return True

    def _leave(self) -> bool:
        """Let a machine leave for good."""
        chosen = [machine for machine in self.up() if machine.pid >= MACHINES]
        if not chosen or len(self.up()) <= MACHINES:
            return False
        machine = self.random.choice(chosen)
        member = machine.member
        assert member is not None
        machine.tell("leave")
        machine.wanted = False
        self.disturb(machine)
        self.until(lambda: machine.left.is_set() or machine.process.poll() is not None, f"for {member} to leave")
        machine.reap()
        self.until(lambda: self.knows_none(member), f"for {member} to be out")
        return True

    # --- healing and judging ---

    def heal(self) -> None:
        """Undo every fault; wait until all are members of one view, and everybody has published in it."""
        self.setting.laid.mend()
        self._mended_at = None
        for machine in self.machines.values():
            if machine.stopped_until is not None:
                machine.stopped_until = 0.0
            if machine.wanted and machine.down:
                machine.restart_at = 0.0
        self.until(self.is_whole, "for one view of all after healing")
        self.pause(HEALED_S, HEALED_S)
        for machine in self.wanted:
            machine.tell("quiet")
        for machine in self.wanted:
            self.until(machine.quiet.is_set, f"for the last receipts of process {machine.pid}")

    def judge(self) -> list[str]:
        """Wait until those who stay have what they are owed; return what is wrong then, by our books and by the
        oracles."""
        staying = [machine.member for machine in self.wanted if machine.member is not None]
        self.settle(staying)
        for machine in self.wanted:
            machine.tell("end")
            machine.down = True
            machine.reap()
        books = self.books(staying)
        self.done["acknowledged"] = len(books.told)
        self.done["published"] = len(books.published)
        self.done["members"] = len(books.everybody)
        self.done["told a verdict"] = sum(each.verdict is not None for each in books.everybody)
        self.done["handed again, and said so"] = sum(again for each in books.everybody for _, again in each.handed)
        wrong = books.wrong(one_sequence=self.setting.level == "total")
        if len(books.told) < MACHINES:
            wrong.append(f"only {len(books.told)} events were acknowledged")
        return wrong + self._verdicts()

    def books(self, staying: Sequence[Membership]) -> Books:
        """Return what everybody was told and handed so far."""
        return Books([each for machine in self.machines.values() for each in machine.memberships], staying)

    def settle(self, staying: Sequence[Membership]) -> dict[Membership, set[Event]]:
        """Wait, for as long as it may take, until members have everything that was acknowledged when this was called;
        return what they lack then."""
        books = self.books(staying)
        owed = {member: books.lacks(member) for member in staying}
        deadline = time.monotonic() + NEEDED_S
        while owed and time.monotonic() < deadline:
            self.tend()
            time.sleep(0.05)
            owed = {member: lacks - had(member) for member, lacks in owed.items()}
            owed = {member: lacks for member, lacks in owed.items() if lacks}
        return owed

    def _verdicts(self) -> list[str]:
        trace = gather([self.setting.directory / "trace"], GROUP, "faults", "test", one_clock=True)
        verdicts = {verdict.promise: verdict for verdict in judge(trace)}
        self.done["deliveries"] = len(trace.rows[Kind.DELIVER])
        self.done["views"] = len({view_of(row).epoch for row in trace.rows[Kind.VIEW]})
        wrong = [f"{each.promise}: {each.sentence}" for each in verdicts.values() if each.outcome is Outcome.BROKEN]
        held = [*HELD, *(["strict_total"] if self.setting.level == "total" else [])]
        return wrong + [
            f"{promise} cannot be told from the trace: {verdicts[promise].sentence}"
            for promise in held
            if promise not in verdicts or verdicts[promise].outcome is Outcome.UNKNOWN
        ]

    def close(self) -> None:
        """End every process."""
        for machine in self.machines.values():
            machine.end()


class Episode(Changing):
    """A group, some changes and faults, and the judgement."""

    def run(self, faults: Sequence[str]) -> list[str]:
        """Throw all faults, heal, judge; return what is wrong."""
        try:
            self.until(self.is_whole, "for the founders to begin")
            for fault in faults:
                self.pause(0.05, 0.5)
                self._throw(fault)
            self.heal()
            return self.judge()
        except TimeoutError as late:
            return [str(late)]
        finally:
            self.close()

    def _throw(self, fault: str) -> None:
        """Do one thing. A change waits until the group is whole again if too little would be left."""
        if fault not in CHANGES:
            if getattr(self, fault)():
                self.done[fault] += 1
        elif not self.change(fault):
            self.until(lambda: self.is_whole() and (fault == "leave" or self.may_lose()), f"for what {fault} needs")
            if not self.change(fault):
                self.change("grow")  # whoever leaves must have come first


def planned(changes: int, kills: int, cuts: int, stops: int, points: int, *, seed: int) -> list[str]:
    """Return so many changes, of all kinds, and faults, mixed."""
    kinds = [CHANGES[number % len(CHANGES)] for number in range(changes)]
    faults = [*kinds, *["kill"] * kills, *["cut"] * cuts, *["stop"] * stops, *["point"] * points]
    Random(seed).shuffle(faults)
    return faults
