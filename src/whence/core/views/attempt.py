"""One attempt at a change of the view: what it wants, how far it is, and who has answered."""

from collections.abc import Container
from enum import Enum

from msgspec import Struct

from whence.core.views.items import Promise, Report
from whence.core.views.view import Ballot, View
from whence.types import Instant


class Phase(Enum):
    """How far an attempt is."""

    PREPARE = "prepare"
    REPORT = "report"
    FLUSH = "flush"
    ACCEPT = "accept"


class Plan(Struct, eq=False):
    """What an attempt wants to change."""

    remove: dict[int, None]
    leavers: dict[int, None]
    joins: dict[int, int]
    """Newcomers, and the incarnations that asked."""
    plain: bool
    """Nobody is removed and no voter is added: nothing need be flushed."""
    promote: bool = False


class Attempt:
    """One ballot of a change."""

    def __init__(self, view: View, ballot: Ballot, plan: Plan, now: Instant) -> None:
        self.view = view
        self.ballot = ballot
        self.plan = plan
        self.phase = Phase.PREPARE
        self.moved_at = now
        self.promises: dict[int, Promise] = {}
        self.reports: dict[int, Report] = {}
        self.flushed: dict[int, None] = {}
        self.votes: dict[int, None] = {}
        self.value: View | None = None
        self.targets: list[int] = []

    @property
    def dead(self) -> dict[int, None]:
        """Return those to be removed that do not report."""
        return {pid: None for pid in self.plan.remove if pid not in self.plan.leavers}

    @property
    def asked(self) -> tuple[int, ...]:
        """Return those that report and flush."""
        dead = self.dead
        return tuple(member.pid for member in self.view.members if member.pid not in dead)

    @property
    def missing(self) -> tuple[int, ...]:
        """Return those that were asked in this phase and have not answered."""
        voters = tuple(voter.pid for voter in self.view.voters)
        asked_and_answers: dict[Phase, tuple[tuple[int, ...], Container[int]]] = {
            Phase.PREPARE: (voters, self.promises),
            Phase.REPORT: (self.asked, self.reports),
            Phase.FLUSH: (self.asked, self.flushed),
            Phase.ACCEPT: (voters, self.votes),
        }
        asked, answers = asked_and_answers[self.phase]
        return tuple(pid for pid in asked if pid not in answers)
