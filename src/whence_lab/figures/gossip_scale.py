"""J, sections 3 and 6.2: the reach of PrCast against fan-out and rounds, and what an event costs, up to a million members.

Run on arrays (whence_lab/arrays), which are proved equal to the event loop in distribution where both can run
(tests/lab/arrays). With high probability means here: a member is missed with a probability of at most 1/n, so that on
average at most one member of the group misses an event.
"""

from math import log

from whence_lab.arrays.prcast import NEVER, Broadcast, Engine
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import falls, listed

MEMBERS_A_RUN = 100_000
"""Small groups are run many at once, so that a run has this many members."""
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FANOUTS = (2, 3, 4, 6)
FANOUT = 4
"""J's own."""
PAPER_SIZE = 250
MISSED_MAX = 1.0
EARLY_ROUNDS = 2
FULL, PARTIAL = "full", "partial"
PARTIAL_ROUNDS_MORE = 2


def measure(config: Config, seed: int) -> dict[str, float]:
    """Broadcast once in each group; return means over the groups."""
    nodes = config["members"]
    broadcast = Broadcast(
        nodes=nodes, groups=max(1, MEMBERS_A_RUN // nodes), fanout=config["fanout"], rounds=config["rounds"],
        view=config["view"],
    )  # fmt: skip
    spread = Engine(broadcast, seed).finish()
    arrived = spread.delays_ns != NEVER
    rounds = spread.delays_ns / broadcast.round_ns
    reached = spread.reached()
    return {
        "missed": float(nodes - reached.mean()),
        "missed_part": float(1 - reached.mean() / nodes),
        "delay_rounds": float(rounds[arrived].mean()),
        "last_rounds": float(rounds.max(axis=1, where=arrived, initial=0).mean()),
        "copies": float(spread.copies.mean() / nodes),
        "early_percent": float(100 * spread.reached_within(EARLY_ROUNDS * broadcast.round_ns).mean() / nodes),
    }


def needed(data: Data, members: int, view: str, fanout: int = FANOUT) -> int:
    """Return the fewest rounds tried with which an event reaches everybody with high probability. Raises LookupError."""
    missed = data.means("rounds", "missed", members=members, view=view, fanout=fanout)
    enough = [int(rounds) for rounds, mean in missed if mean <= MISSED_MAX]
    if not enough or not missed[0][1] > MISSED_MAX:
        raise LookupError(f"the rounds that {members:,} members need are not among those tried: {listed(missed)}")
    return min(enough)


def _sizes(data: Data, view: str) -> list[int]:
    return [size for size in data.values("members", view=view, fanout=FANOUT) if size != PAPER_SIZE]


def _most_rounds(data: Data) -> int:
    """Return the most rounds with which every size was run with full views."""
    tried = [set(data.values("rounds", members=size, view=FULL, fanout=FANOUT)) for size in _sizes(data, FULL)]
    return int(max(set.intersection(*tried)))


def _rounds_seen(data: Data, view: str) -> list[tuple[float, float]]:
    return [(size, needed(data, size, view)) for size in _sizes(data, view)]


def _reaches_all(data: Data) -> Finding:
    return Finding(True, f"rounds that suffice, by members: {listed(_rounds_seen(data, FULL))}")


def _paper_setting(rounds: int) -> Check:
    def judge(data: Data) -> Finding:
        band = data.band("missed", members=PAPER_SIZE, rounds=rounds, view=FULL, fanout=FANOUT)
        return Finding(band.mean <= MISSED_MAX, f"{band.mean:.3g} of {PAPER_SIZE} members missed on average")

    if rounds == 5:
        return Check(
            "With fan-out 4 and 5 hops each event reaches 250 processes with high probability",
            "6.2",
            "on average at most one of 250 members misses an event",
            judge,
            known="Rounds are not synchronised, so a hop takes 0.6 rounds, and five hops are over too soon (gossip 2.1).",
        )
    return Check(
        "One round more makes up for rounds that are not synchronised",
        "6.2, gossip 2.1",
        "with 6 rounds, on average at most one of 250 members misses an event",
        judge,
    )


def _rounds_grow(data: Data) -> Finding:
    seen = _rounds_seen(data, FULL)
    (first, few), (last, many) = seen[0], seen[-1]
    return Finding(many <= few * log(last) / log(first), f"rounds that suffice, by members: {listed(seen)}")


def _delay_grows(data: Data) -> Finding:
    curve = data.curve("members", "delay_rounds", view=FULL, fanout=FANOUT, rounds=_most_rounds(data))
    (first, begins), *_ = curve
    holds = all(band.low <= begins.high * log(at) / log(first) for at, band in curve)
    return Finding(holds, f"rounds by members: {listed([(at, band.mean) for at, band in curve])}")


def _few_work_early(data: Data) -> Finding:
    curve = data.means("members", "early_percent", view=FULL, fanout=FANOUT, rounds=_most_rounds(data))
    return Finding(falls(curve), f"% of the members that have it after {EARLY_ROUNDS} rounds: {listed(curve)}")


def _copies_grow(data: Data) -> Finding:
    seen = [
        (size, data.mean("copies", members=size, view=FULL, fanout=FANOUT, rounds=needed(data, size, FULL)))
        for size in _sizes(data, FULL)
    ]
    (first, few), (last, many) = seen[0], seen[-1]
    return Finding(many <= few * log(last) / log(first), f"copies a member sends, by members: {listed(seen)}")


def _fanout_reaches(data: Data) -> Finding:
    size = SIZES[1]
    curves = {fanout: dict(data.curve("rounds", "missed", members=size, view=FULL, fanout=fanout)) for fanout in FANOUTS}
    worse = [
        f"fan-out {more} with {at:g} rounds"
        for fewer, more in zip(FANOUTS, FANOUTS[1:], strict=False)
        for at, band in curves[more].items()
        if at in curves[fewer] and band.low > curves[fewer][at].high
    ]
    rows = [f"fan-out {fanout}: {listed([(x, b.mean) for x, b in curve.items()])}" for fanout, curve in curves.items()]
    return Finding(not worse, f"missed by rounds: {'; '.join(rows)}{'; worse: ' * bool(worse)}{', '.join(worse)}")


def _partial_suffices(data: Data) -> Finding:
    pairs = [(size, needed(data, size, FULL), needed(data, size, PARTIAL)) for size in _sizes(data, PARTIAL)]
    seen = ", ".join(f"{size:,} members: {full} and {partial}" for size, full, partial in pairs)
    return Finding(
        all(partial <= full + PARTIAL_ROUNDS_MORE for _, full, partial in pairs),
        f"rounds that suffice with full and with partial views: {seen}",
    )


def _one_in_n(data: Data) -> list[Line]:
    xs = data.values("rounds", view=FULL, fanout=FANOUT)
    return [Line("one member", [(xs[0], MISSED_MAX), (xs[-1], MISSED_MAX)])]


def _log_law(data: Data) -> list[Line]:
    curve = data.means("members", "delay_rounds", view=FULL, fanout=FANOUT, rounds=_most_rounds(data))
    first, begins = curve[0]
    return [Line("∝ log n", [(at, begins * log(at) / log(first)) for at, _ in curve])]


def _members(size: int) -> str:
    return f"{size:,} members"


def _configs(rounds: dict[str, dict[int, list[int]]], fanouts: list[int], fanout_rounds: list[int]) -> list[Config]:
    """Return the configurations of a plan: rounds by view and size, and fan-outs at one size."""
    by_size = [
        config
        for view, sizes in rounds.items()
        for size, tried in sizes.items()
        for config in grid(view=[view], members=[size], rounds=tried, fanout=[FANOUT])
    ]
    other = [fanout for fanout in fanouts if fanout != FANOUT]
    return by_size + grid(view=[FULL], members=[SIZES[1]], rounds=fanout_rounds, fanout=other)
