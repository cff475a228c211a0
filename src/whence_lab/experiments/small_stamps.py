"""K's figure 4: messages that go round and let c of the stamps ⟨r, c⟩ grow, with and without quiet windows.

The first process's clock is ε ahead. In every cycle of two ticks a message goes from it through all others and back;
each of them receives it at one tick and passes it on at the next, to a process whose clock is a tick behind. With
windows no process creates an event while its clock is within 2ε after a multiple of the period.
"""

from whence_lab.reference.rc import Rc, RcStamp


class ForgetsOnReceipt(Rc):
    """⟨r, c⟩ whose own part is forgotten after 2ε without events, whatever the message that comes next."""

    def receive(self, rt: int, stamps: list[RcStamp]) -> RcStamp:
        """Create the event that consumes these messages."""
        past = rt - 2 * self._epsilon
        own = self._r + self._c - rt if self._r >= past else 0
        return self._set(rt, max(0, own, *(stamp.l - rt + 1 for stamp in stamps if stamp.r >= past)))


PROGRAMS: dict[str, type[Rc]] = {"as in figure 3": Rc, "forgets on receipt": ForgetsOnReceipt}


def longest_c(program: str, processes: int, epsilon: int, ticks: int, period: int = 0) -> int:
    """Return the largest c of any event in so many ticks; a period of 0 has no quiet windows."""
    clocks = [PROGRAMS[program](epsilon) for _ in range(processes)]
    for number, clock in enumerate(clocks):
        clock.start(0 if number else epsilon)
    most = 0
    for base in range(0, ticks, 2):
        moments = [base + epsilon, base + 1, base + 2, base + epsilon + 1]
        if period and any(_is_quiet(moment, epsilon, period) for moment in moments):
            continue
        message = clocks[0].local(base + epsilon)
        for clock in clocks[1:]:
            most = max(most, clock.receive(base + 1, [message]).c)
            message = clock.local(base + 2)
        most = max(most, clocks[0].receive(base + epsilon + 1, [message]).c)
    return most


def _is_quiet(moment: int, epsilon: int, period: int) -> bool:
    return moment % period <= 2 * epsilon
