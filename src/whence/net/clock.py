"""The two clocks of a live process, and its boot number.

The steady one counts suspended time too (CLOCK_BOOTTIME), because a lease that slept through its end must not wake up
valid; where a system has no such clock, the monotonic one must do. The other is the clock on the wall, which may jump.
"""

import os
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from whence.core.members.tickets.records import EPOCH_MAX
from whence.errors import StorageError
from whence.limits import BOOT_MAX
from whence.store.log import sync_directory

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


steady_ns: Callable[[], int] = partial(time.clock_gettime_ns, _STEADY)
"""Returns nanoseconds on the clock that never jumps. No function of Python's: every message asks for the time."""

wall_ns: Callable[[], int] = time.time_ns
"""Returns nanoseconds on the wall clock."""


EPOCHS_FROM_NS = 1_767_225_600_000_000_000
"""The beginning of 2026: quarters of a second since then fit the 31 bits of an epoch until 2043."""


def epoch_floor() -> int:
    """Return an epoch above those of groups that were begun before without a data directory: the time in quarters.

    That holds while the clock on the wall is right and a group gave fewer than four epochs a second.
    """
    return min(max(0, (wall_ns() - EPOCHS_FROM_NS) // 250_000_000), EPOCH_MAX // 2)


def next_boot(data: Path | None) -> int:
    """Return a boot number no earlier start had: counted where there is a data directory, else drawn.

    A drawn number grows with time (seconds in its upper bits), so that peers take the later start for the newer one.
    Raises StorageError if the counter cannot be written.
    """
    if data is None:
        quarters = (time.time_ns() // 250_000_000) % (BOOT_MAX >> 3)
        return max(1, (quarters << 3) | secrets.randbelow(8))
    file, fresh = data / "boot", data / ".boot.unfinished"
    try:
        data.mkdir(parents=True, exist_ok=True)
        boot = int(file.read_text()) + 1 if file.exists() else 1
        with fresh.open("w") as out:
            out.write(str(boot))
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(file)
        sync_directory(data)
    except (OSError, ValueError) as error:
        raise StorageError(f"the boot counter {file} cannot be kept: {error}") from error
    if boot > BOOT_MAX:
        raise StorageError(f"{file} has counted to {boot}, and boots end at {BOOT_MAX}")
    return boot
