"""Every machine of a living group in its turn, under load: restarted with its disk, then replaced by a new one.

Law: before the next machine's turn comes, all that stay were handed everything that any publisher was told a majority
has, once. So nothing is lost or repeated at those who stay, though in the end nobody is left of those who began.
"""

import signal
import time
from collections.abc import Sequence

from tests.faults.changes import Changing
from tests.faults.machines import Machine, Membership

BETWEEN_S = 0.5
"""Between two turns everybody publishes in a whole group."""


class Rolling(Changing):
    """A group whose machines are restarted and replaced in turn."""

    def run(self, signals: Sequence[int], *, replace: bool) -> list[str]:
        """Restart all machines once by each of the signals, then replace them all; return what is wrong."""
        wrong: list[str] = []
        try:
            self.until(self.is_whole, "for the founders to begin")
            for how in signals:
                for machine in list(self.wanted):
                    self.pause(BETWEEN_S, BETWEEN_S)
                    self.restart(machine, how)
                    wrong += self.stayed(machine)
            for machine in list(self.wanted) if replace else ():
                self.pause(BETWEEN_S, BETWEEN_S)
                self.replace(machine)
                wrong += self.stayed(machine)
            self.heal()
            return wrong + self.judge()
        except TimeoutError as late:
            return [*wrong, str(late)]
        finally:
            self.close()

    def restart(self, machine: Machine, how: int) -> None:
        """End a process by a signal, and start it again with its disk: it is the same member."""
        member = machine.member
        began = time.monotonic()
        self.end(machine, how)
        machine.start()
        self.until(lambda: machine.is_up, f"for process {machine.pid} to come back")
        self._took("restart", began)
        if machine.member is not member:
            raise TimeoutError(f"process {machine.pid} came back as another member")
        self.done[f"restarted by {signal.Signals(how).name}"] += 1

    def replace(self, machine: Machine) -> None:
        """Kill a process, take its disk away, remove it, and start a new one under its number."""
        member = machine.member
        assert member is not None
        self.end(machine, lost=True)
        began = time.monotonic()
        self._ask(machine)
        self.until(lambda: self.knows_none(member), f"for {member} to be removed", again=lambda: self._ask(machine))
        self._took("removal", began)
        began = time.monotonic()
        machine.start()
        self.until(lambda: machine.is_up, f"for process {machine.pid} to join")
        self._took("join", began)
        self.until(self.may_lose, "for everybody to vote")
        self.done["replaced"] += 1

    def _took(self, what: str, began: float) -> None:
        """Remember the longest time that something took."""
        ms = round((time.monotonic() - began) * 1000)
        self.done[f"longest {what}, ms"] = max(self.done[f"longest {what}, ms"], ms)

    def stayed(self, machine: Machine) -> list[str]:
        """Return what those who stayed through a machine's turn lack, after as long as it may take, or have twice."""
        staying: list[Membership] = [
            other.member for other in self.wanted if other is not machine and other.member is not None
        ]
        return [
            f"{member} lacks {len(lost)} events after the turn of {machine.pid}, such as {min(lost)}"
            for member, lost in self.settle(staying).items()
        ]
