"""J, sections 3 and 6.2: reach of PrCast against fan-out and rounds, and the cost of an event, up to a million members.

Run on arrays (whence_lab/arrays), which are equal to the event loop in distribution where both can run
(tests/lab/arrays). With high probability means here: a member is missed with a probability of at most 1/n, so that on
average at most one member of the group misses an event.
"""

from itertools import pairwise
from math import log

import numpy as np

from whence_lab.arrays.prcast import NEVER, Broadcast, Engine
from whence_lab.figures.bands import at_most, both, ends, ratio, weighed
from whence_lab.figures.data import Band, Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import falls, listed, logarithmic

FULL, PARTIAL = "full", "partial"
MEMBERS_A_RUN = {FULL: 100_000, PARTIAL: 40_000}
"""Small groups are run many at once, so that a run has this many members; partial views cost ten times as much."""
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FANOUTS = (2, 3, 4, 6)
FANOUT = 4
"""J's own."""
PAPER_SIZE, PAPER_ROUNDS = 250, 5
MISSED_MAX = 1.0
EARLY_ROUNDS = 2
LONG_ROUNDS = 15
"""Rounds in which every size was run, to compare delays; enough for a million."""
PARTIAL_ROUNDS_MORE = 2
"""What partial views may cost (gossip, what is promised)."""
SMALL_MAX = 10_000


def measure(config: Config, seed: int) -> dict[str, float]:
    """Broadcast once in each group; return means over the groups."""
    nodes = config["members"]
    broadcast = Broadcast(
        nodes=nodes, groups=max(1, MEMBERS_A_RUN[config["view"]] // nodes), fanout=config["fanout"],
        rounds=config["rounds"], view=config["view"],
    )  # fmt: skip
    engine = Engine(broadcast, seed)
    spread = engine.finish()
    arrived = spread.delays_ns != NEVER
    rounds = spread.delays_ns / broadcast.round_ns
    reached = spread.reached()
    known: dict[str, float] = {}
    if engine.partial is not None and not arrived.all():
        by = np.bincount(engine.partial.peers.ravel(), minlength=arrived.size)
        known["missed_known_by"] = float(by[~arrived.ravel()].mean())
    return known | {
        "missed": float(nodes - reached.mean()),
        "delay_rounds": float(rounds[arrived].mean()),
        "last_rounds": float(rounds.max(axis=1, where=arrived, initial=0).mean()),
        "copies": float(spread.copies.mean() / nodes),
        "early_percent": float(100 * spread.reached_within(EARLY_ROUNDS * broadcast.round_ns).mean() / nodes),
    }


def needed(data: Data, members: int, view: str, fanout: int = FANOUT) -> int:
    """Return the fewest rounds tried that reach everybody with high probability. Raises LookupError."""
    missed = data.means("rounds", "missed", members=members, view=view, fanout=fanout)
    enough = [int(rounds) for rounds, mean in missed if mean <= MISSED_MAX]
    if not enough or not missed[0][1] > MISSED_MAX:
        raise LookupError(f"the rounds that {members:,} members need are not among those tried: {listed(missed)}")
    return min(enough)


def _sizes(data: Data, view: str) -> list[int]:
    return [size for size in data.values("members", view=view, fanout=FANOUT) if size != PAPER_SIZE]


def _rounds_seen(data: Data, view: str) -> list[tuple[float, float]]:
    return [(size, needed(data, size, view)) for size in _sizes(data, view)]


def _reaches_all(data: Data) -> Finding:
    tried = [
        [ends(band) for _, band in data.curve("rounds", "missed", members=size, view=FULL, fanout=FANOUT)]
        for size in _sizes(data, FULL)
    ]
    told = both([True if any(high <= MISSED_MAX for _, high in each) else None for each in tried])
    return weighed(told, f"rounds that suffice, by members: {listed(_rounds_seen(data, FULL))}")


def _paper_setting(rounds: int) -> Check:
    def judge(data: Data) -> Finding:
        band = data.band("missed", members=PAPER_SIZE, rounds=rounds, view=FULL, fanout=FANOUT)
        return weighed(at_most([ends(band)], MISSED_MAX), f"{band.mean:.3g} of {PAPER_SIZE} members missed on average")

    if rounds == PAPER_ROUNDS:
        return Check(
            "With fan-out 4 and 5 hops each event reaches 250 processes with high probability",
            "6.2",
            "on average at most one of 250 members misses an event",
            judge,
            known="Rounds are not synchronised, so five hops are over in some three rounds (gossip 1, 2.1).",
        )
    return Check(
        "One round more makes up for rounds that are not synchronised",
        "6.2, gossip 2.1",
        "with 6 rounds, on average at most one of 250 members misses an event",
        judge,
    )


def _rounds_grow(data: Data) -> Finding:
    seen = _rounds_seen(data, FULL)
    fit = logarithmic(seen)
    return Finding(
        fit.slope > 0 and fit.r2 >= 0.95,
        f"rounds that suffice, by members: {listed(seen)}; R² of a logarithm {fit.r2:.3f}",
    )


def _delay_grows(data: Data) -> Finding:
    curve = data.curve("members", "delay_rounds", view=FULL, fanout=FANOUT, rounds=LONG_ROUNDS)
    (first, begins), *larger = curve
    told = both([at_most([ratio(band, begins)], log(at) / log(first)) for at, band in larger])
    return weighed(told, f"rounds by members: {listed([(at, band.mean) for at, band in curve])}")


def _few_work_early(data: Data) -> Finding:
    curve = data.means("members", "early_percent", view=FULL, fanout=FANOUT, rounds=LONG_ROUNDS)
    return Finding(falls(curve), f"% of the members that have it after {EARLY_ROUNDS} rounds: {listed(curve)}")


def _copies(data: Data) -> list[tuple[float, Band]]:
    """Return the copies that a member sends for one event, with as many rounds as suffice, by members."""
    return [
        (size, data.band("copies", members=size, view=FULL, fanout=FANOUT, rounds=needed(data, size, FULL)))
        for size in _sizes(data, FULL)
    ]


def _copies_grow(data: Data) -> Finding:
    seen = _copies(data)
    least = [(size, log(size)) for size, _ in seen]
    told = both([at_most([ends(band)], 2 * log(size)) for size, band in seen])
    means = listed([(size, band.mean) for size, band in seen])
    return weighed(told, f"copies a member sends, by members: {means}; ln n: {listed(least)}")


def _fanout_reaches(data: Data) -> Finding:
    size = SIZES[1]
    curves = {
        fanout: dict(data.curve("rounds", "missed", members=size, view=FULL, fanout=fanout)) for fanout in FANOUTS
    }
    worse = [
        f"fan-out {more} with {at:g} rounds"
        for fewer, more in pairwise(FANOUTS)
        for at, band in curves[more].items()
        if at in curves[fewer] and band.low > curves[fewer][at].high
    ]
    rows = [f"fan-out {fanout}: {listed([(x, b.mean) for x, b in curve.items()])}" for fanout, curve in curves.items()]
    return Finding(not worse, f"missed by rounds: {'; '.join(rows)}{'; worse: ' * bool(worse)}{', '.join(worse)}")


def _partial_missed(data: Data, sizes: list[int]) -> list[tuple[int, int, int, Band]]:
    """Return, by members, the rounds that full views need, those that partial ones were given, and what these missed.

    Partial views are given the fewest rounds tried that are at least two more.
    """
    rows = []
    for size in sizes:
        full = needed(data, size, FULL)
        tried = dict(data.curve("rounds", "missed", members=size, view=PARTIAL, fanout=FANOUT))
        given = min(rounds for rounds in tried if rounds >= full + PARTIAL_ROUNDS_MORE)
        rows.append((size, full, int(given), tried[given]))
    return rows


def _said(rows: list[tuple[int, int, int, Band]]) -> str:
    return "; ".join(
        f"{size:,} members: {missed.mean:.3g} missed with {given} rounds, where full views need {full}"
        for size, full, given, missed in rows
    )


def _partial_suffices(data: Data) -> Finding:
    rows = _partial_missed(data, [size for size in _sizes(data, PARTIAL) if size <= SMALL_MAX])
    return weighed(at_most([ends(missed) for *_, missed in rows], MISSED_MAX), _said(rows))


def _partial_at_scale(data: Data) -> Finding:
    rows = _partial_missed(data, [size for size in _sizes(data, PARTIAL) if size > SMALL_MAX])
    by = data.means("rounds", "missed_known_by", members=rows[-1][0], view=PARTIAL, fanout=FANOUT)
    return weighed(
        at_most([ends(missed) for *_, missed in rows], MISSED_MAX),
        f"{_said(rows)}; by rounds, those missed are in so many views, where the mean is 20: {listed(by)}",
    )


def _one_in_n(data: Data) -> list[Line]:
    xs = data.values("rounds", view=FULL, fanout=FANOUT)
    return [Line("one member", [(xs[0], MISSED_MAX), (xs[-1], MISSED_MAX)])]


def _least_copies(data: Data) -> list[Line]:
    seen = _copies(data)
    return [
        Line("with rounds that suffice", [(size, band.mean) for size, band in seen]),
        Line("ln n, the least", [(size, log(size)) for size, _ in seen]),
    ]


def _log_law(data: Data) -> list[Line]:
    curve = data.means("members", "delay_rounds", view=FULL, fanout=FANOUT, rounds=LONG_ROUNDS)
    first, begins = curve[0]
    return [Line("∝ log n", [(at, begins * log(at) / log(first)) for at, _ in curve])]


def _members(size: int) -> str:
    return f"{size:,} members"


def _view(name: str) -> str:
    return f"{name} views"


def _fanout(fanout: int) -> str:
    return f"fan-out {fanout}"


def _configs(full: dict[int, list[int]], partial: dict[int, list[int]], fanout_rounds: list[int]) -> list[Config]:
    """Return the configurations of a plan: rounds by size for either view, and rounds for other fan-outs."""
    by_size = [
        config
        for view, sizes in ((FULL, full), (PARTIAL, partial))
        for size, rounds in sizes.items()
        for config in grid(view=[view], members=[size], rounds=rounds, fanout=[FANOUT])
    ]
    other = [fanout for fanout in FANOUTS if fanout != FANOUT]
    return by_size + grid(view=[FULL], members=[SIZES[1]], rounds=fanout_rounds, fanout=other)


FIGURE = Figure(
    name="gossip-scale",
    title="PrCast up to a million members",
    source="J, sections 3 and 6.2",
    settings=(
        "Fan-out 4; rounds that are not synchronised, of 100 ms and a tenth more or less; links of 1 to 20 ms; the "
        "group has been up for ten rounds. With high probability: on average at most one member misses an event. J "
        "gives fan-out 4 and 5 hops for 250 members; everything larger is ours. Partial views have 20 peers. Run on "
        "arrays, which are equal to the event loop in distribution."
    ),
    measure=measure,
    quick=Plan(
        _configs(
            {
                250: [5, 6],
                1_000: [5, 6, 7, 8, 15],
                10_000: [6, 8, 9, 10, 12, 15],
                100_000: [9, 11, 12, 13, 15],
                1_000_000: [13, 14, 15],
            },
            {1_000: [7, 9, 10], 10_000: [10, 12, 13], 1_000_000: [17]},
            [6, 9, 12, 15],
        ),
        5,
    ),
    full=Plan(
        _configs(
            {
                250: [4, 5, 6, 7],
                1_000: [5, 6, 7, 8, 9, 10, 15],
                10_000: [6, 8, 9, 10, 11, 12, 15],
                100_000: [9, 10, 11, 12, 13, 14, 15],
                1_000_000: [10, 11, 12, 13, 14, 15, 16],
            },
            {
                1_000: [7, 8, 9, 10, 11],
                10_000: [8, 9, 10, 11, 12, 13, 14],
                100_000: [11, 12, 13, 14, 15, 16],
                1_000_000: [13, 14, 15, 16, 17, 18, 20],
            },
            [4, 6, 8, 9, 10, 12, 15],
        ),
        5,
    ),
    panels=(
        Panel(
            "a) reach against rounds, full views",
            "rounds",
            "missed",
            "rounds an event is passed on",
            "members that miss an event",
            "members",
            _members,
            only={"view": FULL, "fanout": FANOUT},
            log_y=True,
            stated=_one_in_n,
        ),
        Panel(
            "b) the same, partial views of 20",
            "rounds",
            "missed",
            "rounds an event is passed on",
            "members that miss an event",
            "members",
            _members,
            only={"view": PARTIAL},
            log_y=True,
            stated=_one_in_n,
        ),
        Panel(
            "c) fan-out, 10,000 members",
            "rounds",
            "missed",
            "rounds an event is passed on",
            "members that miss an event",
            "fanout",
            _fanout,
            only={"view": FULL, "members": SIZES[1]},
            log_y=True,
            stated=_one_in_n,
        ),
        Panel(
            f"d) delay, {LONG_ROUNDS} rounds",
            "members",
            "delay_rounds",
            "members",
            "mean delay, rounds",
            "view",
            _view,
            only={"fanout": FANOUT, "rounds": LONG_ROUNDS, "view": FULL},
            log_x=True,
            stated=_log_law,
        ),
        Panel(
            "e) cost of an event",
            "members",
            "copies",
            "members",
            "copies a member sends",
            "rounds",
            lambda rounds: f"{rounds} rounds",
            only={"fanout": FANOUT, "rounds": LONG_ROUNDS, "view": FULL},
            log_x=True,
            stated=_least_copies,
        ),
    ),
    checks=(
        Check(
            "PrCast delivers an event to all destinations with high probability",
            "3",
            "with full views, at every size some number of rounds leaves at most one member out on average",
            _reaches_all,
        ),
        _paper_setting(PAPER_ROUNDS),
        _paper_setting(PAPER_ROUNDS + 1),
        Check(
            "The rounds that an event must be passed on grow with the logarithm of the group",
            "6.2 (delay), gossip 6",
            "a logarithm with positive slope explains 95 % of the variance of the rounds that suffice, full views",
            _rounds_grow,
        ),
        Check(
            "With growing groups delay increases only logarithmically",
            "6.2",
            "the mean delay rises at most as log n does from 1,000 members on",
            _delay_grows,
        ),
        Check(
            "In a larger group a smaller part of the members works on an event in the first rounds",
            "6.2",
            "the part that has it two rounds after its publication is smaller at every larger size",
            _few_work_early,
        ),
        Check(
            "What a member sends for an event, ours to ask, grows no faster than it must",
            "gossip 6",
            "with the rounds that suffice a member sends at most 2 ln n copies; fewer than ln n leave some members out "
            "whatever random targets are drawn",
            _copies_grow,
        ),
        Check(
            "Reach grows with the fan-out",
            "6.2, gossip 2.1",
            "10,000 members: at no number of rounds does a larger fan-out miss more, beyond the bands",
            _fanout_reaches,
        ),
        Check(
            "Processes do not need to know all members of the group",
            "3",
            "up to 10,000 members, partial views of 20 and two rounds more leave at most one member out on average",
            _partial_suffices,
        ),
        Check(
            "Processes do not need to know all members of the group, however large it is",
            "3",
            "beyond 10,000 members, partial views of 20 and two rounds more leave at most one member out on average",
            _partial_at_scale,
            known="With views of a fixed size some of very many members are in few views, and are missed.",
        ),
    ),
)
