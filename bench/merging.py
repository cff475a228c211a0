"""Merging: the merger against a bare heap of the same keys, a stamp against a bare counter, bytes per message.

Goals, in one run: the merger with duplicate detection, guards and limits at least 0.3 of a bare heapq merge; an hlc
stamp at most 3 times an integer increment and comparison in a method call; at most 20 bytes per message beyond its
payload for hlc with 64 publishers: its own header (kind, pid, life, number, stamp, lengths), and, packet and frame
included, when sixteen travel together. A message alone in its frame is printed too.
"""

from heapq import heappop, heappush
from random import Random
from time import perf_counter

from _common import arguments, finish, interleaved
from msgspec import msgpack

from whence.core.clocks.hlc import Hlc
from whence.core.clocks.kn import Kn
from whence.core.clocks.stamp import Timing
from whence.core.levels.total.items import Offer
from whence.core.levels.total.merge_buffer import Entry, MergeBuffer, entry_of
from whence.limits import MergeLimits
from whence.types import Process, packed
from whence.wire.codec import encode

PUBLISHERS = 64
PER_TICK = 200
TIMING = Timing(epsilon=5, delta=100, publishers_max=PUBLISHERS)
NOW_TICKS = 1_790_000_000_000
"""Milliseconds since 1970 on some day of 2026, so that stamps have their real length."""

PACKET_MESSAGES = 16
PAYLOAD = b"x" * 100
SENDER = Process(PUBLISHERS - 1, 3)


def arrivals(count: int) -> list[tuple[int, Entry]]:
    """Return entries by the tick of their arrival: 64 publishers, delays of up to half of δ, one copy in ten twice."""
    random, numbers, out = Random(1), [0] * PUBLISHERS, []
    for at in range(count):
        tick, pid = NOW_TICKS + at // PER_TICK, random.randrange(PUBLISHERS)
        numbers[pid] += 1
        bundle = packed(Process(pid, 1), numbers[pid], [b"x" * 64])
        key = tick << 20 | random.randrange(4), 0, pid << 48 | 1 << 40 | numbers[pid]
        copies = 2 if random.random() < 0.1 else 1
        out += [(tick + random.randrange(50), entry_of(key, tick, 0, bundle)) for _ in range(copies)]
    return sorted(out, key=lambda each: each[0])


def merged(entries: list[tuple[int, Entry]]) -> float:
    """Return the seconds the merger takes, everything included."""
    merger, last, released = MergeBuffer(TIMING, MergeLimits()), 0, 0
    began = perf_counter()
    for tick, entry in entries:
        if tick != last:
            merger.guard(tick)
            released += len(merger.release(tick))
            last = tick
        merger.arrive(tick, entry)
    released += len(merger.flush(last))
    seconds = perf_counter() - began
    assert released == merger.position
    return seconds


def heaped(entries: list[tuple[int, Entry]]) -> float:
    """Return the seconds a bare heap takes for the same keys and the same releases."""
    heap: list[Entry] = []
    last, wait = 0, TIMING.delta + TIMING.epsilon
    began = perf_counter()
    for tick, entry in entries:
        if tick != last:
            due, last = (tick - wait + 1) << 20, tick
            while heap and heap[0][0] < due:
                heappop(heap)
        heappush(heap, entry)
    while heap:
        heappop(heap)
    return perf_counter() - began


class Counter:
    """The rival of a stamp: an increment and a comparison in a method call."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def local(self, rt: int) -> int:
        """Return the next number, or the clock if it is larger."""
        number = self._last + 1
        if number < rt:
            number = rt
        self._last = number
        return number


def stamped(clock: Counter | Hlc | Kn, count: int) -> float:
    """Return the seconds that `count` stamps take."""
    local, rt = clock.local, NOW_TICKS
    began = perf_counter()
    for at in range(count):
        local(rt + (at >> 4))
    return perf_counter() - began


def offers(messages: int) -> list[Offer]:
    """Return messages as they are sent, late in a publisher's incarnation."""
    clock = Hlc(TIMING)
    return [Offer(1_000_000 + at, clock.write(clock.local(NOW_TICKS)), PAYLOAD) for at in range(messages)]


def header_bytes() -> int:
    """Return the bytes of one message that are its own and not its payload, its publisher's name among them."""
    return len(msgpack.encode(offers(1)[0])) + len(msgpack.encode(SENDER)) - 1 - len(PAYLOAD)


def wire_bytes(messages: int) -> float:
    """Return the bytes per message beyond its payload, in a frame with this many messages."""
    return len(encode("group", SENDER, list(offers(messages)))) / messages - len(PAYLOAD)


def main() -> None:
    """Measure side by side, and print the line."""
    options = arguments(__doc__).parse_args()
    count = 20_000 if options.quick else 200_000
    entries = arrivals(count)
    first_copies = {entry[2]: (tick, entry) for tick, entry in reversed(entries)}
    unique = sorted(first_copies.values(), key=lambda each: each[0])
    hlc, kn = Hlc(TIMING), Kn(Timing(epsilon=8, publishers_max=PUBLISHERS, events_per_tick_max=4))
    hlc.start(NOW_TICKS)
    kn.start(NOW_TICKS)
    seconds = interleaved(
        options.repeat or (3 if options.quick else 7),
        {
            "merger": lambda: merged(entries),
            "heap": lambda: heaped(unique),
            "counter": lambda: stamped(Counter(), count),
            "hlc": lambda: stamped(hlc, count),
            "kn": lambda: stamped(kn, count // 10),
        },
    )
    merge_ratio = seconds["heap"] / seconds["merger"]
    stamp_ratio = seconds["hlc"] / seconds["counter"]
    header, bytes_alone, bytes_packed = header_bytes(), wire_bytes(1), wire_bytes(PACKET_MESSAGES)
    finish(
        "merging",
        {
            "merger_per_second": round(len(unique) / seconds["merger"]),
            "heap_per_second": round(len(unique) / seconds["heap"]),
            "merger_to_heap": round(merge_ratio, 3),
            "hlc_per_second": round(count / seconds["hlc"]),
            "kn_per_second": round(count / 10 / seconds["kn"]),
            "hlc_to_counter": round(stamp_ratio, 3),
            "header_bytes": header,
            "wire_bytes_alone": round(bytes_alone, 2),
            "wire_bytes_of_sixteen": round(bytes_packed, 2),
        },
        {"merger": merge_ratio >= 0.3, "stamp": stamp_ratio <= 3.0, "wire": max(header, bytes_packed) <= 20.0},
        quick=options.quick,
    )


if __name__ == "__main__":
    main()
