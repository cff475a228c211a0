"""What the members of a living group were told, against what those who stay were handed: books of our own.

Nothing here knows of views, numbers of messages or traces: only what was published when, what its publisher was told of
it, when a member's `open` returned, and what its application was handed. A member is owed what is published after its
`open` returned.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.faults.machines import RECEIPTS, Event, Membership


class Books:
    """All memberships there were, and those that stay."""

    def __init__(self, everybody: Sequence[Membership], staying: Sequence[Membership]) -> None:
        self.everybody, self.staying = everybody, staying
        self.published: dict[Event, int] = {}
        self.told: dict[Event, str] = {}
        for each in everybody:  # whose processes may go on talking: what they said is copied in one step
            for level in RECEIPTS:
                self.told |= dict.fromkeys(each.told[level].copy(), level)
            self.published |= each.published.copy()

    def wrong(self, *, one_sequence: bool) -> list[str]:
        """Return everything that is wrong."""
        found = [*self._lost(), *self._repeated(), *self._verdicts()]
        return found + (list(self._sequences()) if one_sequence else [])

    def owed(self, member: Membership, events: Iterable[Event]) -> set[Event]:
        """Return those of some events that a member is owed."""
        return {event for event in events if self.published.get(event, -1) > member.since_ns}

    def lacks(self, member: Membership) -> set[Event]:
        """Return what is owed to a member, was acknowledged to its publisher, and was not handed out."""
        return self.owed(member, self.told) - had(member)

    def _lost(self) -> Iterable[str]:
        for member in self.staying:
            if lost := self.lacks(member):
                first = min(lost)
                told = f"such as {first}, acknowledged as {self.told[first]}"
                yield f"{member} was never handed {len(lost)} events, {told}"

    def _repeated(self) -> Iterable[str]:
        for member in self.everybody:
            times = Counter(event for event, again in member.handed.copy() if not again)
            twice = [event for event, count in times.items() if count > 1]
            if twice:
                yield f"{member} was handed {len(twice)} events twice without a word, such as {twice[0]}"

    def _verdicts(self) -> Iterable[str]:
        """Look whether the events of the removed count as far as they were told, and no further. What an earlier
        incarnation of it had only accepted may be lost with that one."""
        for gone in self.everybody:
            if gone.verdict is None or not gone.verdict[0]:
                continue
            cut = gone.verdict[1]
            within = {event for event in gone.published if event <= cut}
            survived = {event for event in within if event[1] == cut[1]}
            for member in self.staying:
                handed = had(member)
                if lost := self.owed(member, survived) - handed:
                    yield f"{member} lacks {min(lost)}, and {gone} was told that its events count up to {cut}"
                if extra := (set(gone.published) - within) & handed:
                    yield f"{member} was handed {min(extra)}, and {gone} was told that its events count up to {cut}"

    def _sequences(self) -> Iterable[str]:
        """Look whether those who stay were handed what they share in one order."""
        for one, other in zip(self.staying, self.staying[1:], strict=False):
            first, second = once(one), once(other)
            shared = first.keys() & second.keys()
            if [each for each in first if each in shared] != [each for each in second if each in shared]:
                yield f"{one} and {other} were handed the same events in another order"


def had(member: Membership) -> set[Event]:
    """Return what a member was handed so far."""
    return {event for event, _ in member.handed.copy()}


def once(member: Membership) -> dict[Event, None]:
    """Return what a member was handed, each event at its first place."""
    return dict.fromkeys(event for event, _ in member.handed.copy())
