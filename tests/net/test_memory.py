"""A node with one dead and one slow peer stays small: the slope of its memory is what is judged, not a moment of it."""

import asyncio
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.net.live import QUICK, fast, nodes
from whence.net.run import run

SECONDS, SECONDS_LONG = 4.0, 3600.0
RATE = 5_000
PAYLOAD = b"x" * 200
BYTES_MAX = 256 << 20


def test_memory_stays_flat_with_one_dead_and_one_slow_peer(long_mode: bool) -> None:
    # In a process of its own: this one has grown with every test that ran in it before.
    length = SECONDS_LONG if long_mode else SECONDS
    command = [sys.executable, "-m", "tests.net.test_memory", str(length)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60 + 2 * length, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    used: list[int] = seen["used"]
    later = used[len(used) // 2 :]
    assert max(later) - min(later) < 24 << 20, [value >> 20 for value in used]
    assert max(used) < BYTES_MAX
    assert seen["published"] > 0.9 * RATE * length, "nobody waits for the dead or the slow for long"


async def memory_over_time(length: float) -> dict[str, object]:
    """Publish at the stated rate for so many seconds; return how much, and the resident bytes seen on the way."""
    settings = fast(outbox_high_bytes=1 << 20, outbox_bytes_max=2 << 20, stall_ns=500_000_000)
    async with nodes(3, settings=settings) as started:
        groups = [await node.open("alps", settings=QUICK, receive=False) for node in started]
        for group in groups:
            await group.gathered(3)
        await started[2].close()  # dead without a farewell
        started[1].live.connections.pause_reading(pause=True)  # slow: takes nothing for now
        begin, count = time.monotonic(), 0
        used: list[int] = []
        while (spent := time.monotonic() - begin) < length:
            due = int(spent * RATE) - count
            if due > 0:
                await groups[0].publish_many([PAYLOAD] * min(due, 500))
                count += min(due, 500)
            await asyncio.sleep(0.01)
            if len(used) < 8 * spent / length:
                used.append(used_bytes())
        return {"published": count, "used": used}


def used_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(memory_over_time(float(sys.argv[1])))))
