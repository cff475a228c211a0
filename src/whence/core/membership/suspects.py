"""The peers that a member of an overlay believes to be down: an eventually perfect detector for the links in reach.

Promises: a peer that stays down and is sent something is suspected in the end; one that is heard from is no longer
suspected. Before that it may err in any way; order never depends on it, only the choice of links does.
The sentence that decides: suspect a peer that refused a copy, or owed an answer for too long, and was not heard since.
Costs: nothing is sent for it; retries, which are needed anyway, serve as probes.
Source: LoCaMu section 1, failure detector.
"""


class Suspects:
    """The peers believed to be down, in the order in which they were suspected."""

    def __init__(self) -> None:
        self.now: dict[int, None] = {}
        self._forced: dict[int, None] = {}
        """Peers that stay suspected whatever they send, until `release`: mistakes made on purpose."""

    def suspect(self, peer: int) -> bool:
        """Begin to suspect a peer; return whether that is new."""
        if peer in self.now:
            return False
        self.now[peer] = None
        return True

    def heard(self, peer: int) -> bool:
        """Record a sign of life; return whether the peer was suspected until now."""
        if peer not in self.now or peer in self._forced:
            return False
        del self.now[peer]
        return True

    def force(self, peer: int) -> bool:
        """Suspect a peer by mistake, whatever it sends; return whether it was not suspected before."""
        self._forced[peer] = None
        return self.suspect(peer)

    def release(self, peer: int) -> bool:
        """End a mistake; return whether the peer was suspected until now."""
        self._forced.pop(peer, None)
        return self.heard(peer)
