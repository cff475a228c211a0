"""What a signature of its publisher on every bundle would cost: an option that SECURITY.md weighs, not a feature.

Ed25519 of the library that makes certificates, over bundles of several numbers of events of 32 bytes: signed
once by the publisher, verified by each receiver. The unit is what a bundle of the same size costs anyway, encoded as a
frame and read again. Time is CPU time of this process.

python bench/signing.py [--repeat 9]
"""

import time
from collections.abc import Callable
from functools import partial

from _common import arguments, finish, in_units
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from whence.core.dissemination.direct import Push
from whence.types import Bundle, Process, packed
from whence.wire.codec import decode, encode

BUNDLE_EVENTS = (1, 16, 1024)
"""Events of 32 bytes in a bundle."""

ME = Process(1, 1)


def timed(work: Callable[[], object], times: int) -> float:
    """Return the processor seconds that one call takes."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def carried(bundle: Bundle) -> None:
    """Encode a bundle as its publisher does, and read it as a receiver does."""
    decode(encode("alps", ME, [Push([bundle])]))


def main() -> None:
    """Print what a bundle costs as it is, and what a signature adds at both ends."""
    given = arguments(__doc__).parse_args()
    times = 20 if given.quick else 1000
    numbers: dict[str, dict[str, float]] = {"us": {}, "ratio": {}}
    key = Ed25519PrivateKey.generate()
    for each in BUNDLE_EVENTS:
        bundle = packed(ME, 1, [b"x" * 32] * each)
        ways = {
            "signed": partial(timed, partial(key.sign, bundle.body), times),
            "verified": partial(timed, partial(key.public_key().verify, key.sign(bundle.body), bundle.body), times),
        }
        costs, ratios = in_units(given.repeat or 9, partial(timed, partial(carried, bundle), times), ways)
        numbers["us"] |= {f"{name}/{each}": round(cost * 1e6, 2) for name, cost in costs.items()}
        numbers["ratio"] |= {f"{name}/{each}": round(ratio, 2) for name, ratio in ratios.items()}
    finish("signing", numbers, {}, quick=given.quick)


if __name__ == "__main__":
    main()
