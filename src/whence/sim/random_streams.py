"""Randomness: one stream per concern, all from one seed, so that one concern's draws never shift another's."""

from hashlib import blake2b
from random import Random


class RandomStreams:
    """Named random streams of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, *concern: object) -> Random:
        """Return a new stream for a concern; the same name always gives the same stream.

        Recorded seeds depend on these names: another name draws another run.
        """
        name = ":".join(map(str, (self.seed, *concern)))
        return Random(int.from_bytes(blake2b(name.encode(), digest_size=8).digest()))
