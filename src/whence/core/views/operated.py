"""What an operator may ask of a member of a living group, and what tests and the simulator may do to it."""

from collections.abc import Sequence

from whence.core.ready import NEVER, Ready
from whence.core.views.changes import Changes
from whence.core.views.links import Links
from whence.core.views.removal import Removal
from whence.core.views.state import ViewState
from whence.core.views.wishes import Wishes
from whence.errors import UsageError
from whence.types import Instant, Process


class Operated:
    """A member as an operator meets it."""

    me: Process
    state: ViewState
    links: Links
    changes: Changes
    wishes: Wishes
    removal: Removal

    def _finish(self, now: Instant, ready: Ready) -> Ready:
        raise NotImplementedError

    def force(self, survivors: Sequence[int], now: Instant) -> Ready:
        """Begin to replace the view by one of these members, without a vote: for a lost quorum. Raises UsageError."""
        ready = Ready()
        if self.state.me is None or self.removal.by is not None:
            raise UsageError("force: this process is no member")
        self.changes.begin_force(survivors, now, ready)
        return self._finish(now, ready)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Remove a member (`remove`), force a view of some (`force`; a bit for each number), suspect one by mistake
        (`suspect`), or end the mistake (`trust`). Raises UsageError.
        """
        ready = Ready()
        if self.state.me is None or self.removal.by is not None:
            raise UsageError(f"{name}: this process is no member")
        if name == "remove":
            if argument == self.me.pid or not self.wishes.remove(argument, now):
                raise UsageError(f"remove: process {self.state.named(argument)} is no other member that may be removed")
        elif name == "force":
            self.changes.begin_force([pid for pid in range(argument.bit_length()) if argument >> pid & 1], now, ready)
        elif name == "suspect":
            self.links.suspects.force(argument)
            if argument in self.links.peers:
                self.links.peers[argument].suspected_at = now
            self.wishes.look(now)
        elif name == "trust":
            self.links.suspects.release(argument)
            if argument in self.links.peers:
                self.links.peers[argument].suspected_at = NEVER
        else:
            raise UsageError(f"members of this level know no act {name!r}; there are remove, force, suspect and trust")
        return self._finish(now, ready)
