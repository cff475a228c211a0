"""What the benchmarks of the pipeline work on: publishers' logs and traces of any size, made by Spark itself."""

from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence import __version__
from whence.pipeline.columns import KIND, RUN_ID, TRACE_DDL
from whence.pipeline.logs import INC_BITS, K_BITS, SEQ_BITS
from whence.trace.layout import RUN_FILE, run_directory
from whence.trace.memory import Phases, Run
from whence.trace.schema import COLUMNS

GROUP = "all"
PUBLISHERS, LISTENERS = 8, 2
SKEW_NS, DRIFT = 3_600_000_000_000, 100_000
"""By how much the clock of one process begins later than that of the one before, and one part in how many it is
faster. Messages take half a microsecond."""


def write_logs(spark: SparkSession, directory: Path, rows: int, files: int, *, in_order: bool) -> None:
    """Write logs as publishers do, keys and all: 64 publishers, 16 groups, some 110 bytes a row.

    100 rows share a tick, in 7 steps of the logical counter. Rows lie in any order, or `in_order` as they were
    published, file after file.
    """
    made = spark.range(rows).selectExpr(
        "concat('g', id % 16) as grp", "cast(pmod(hash(id), 64) as int) as pid", "1 as inc", "id + 1 as seq",
        "id div 100 as r", "id div 100 as l", "cast(id % 7 as int) as k",
        f"((id div 100) << {K_BITS}) | (id % 7) as k_hi", "0L as k_mid",
        f"(cast(pmod(hash(id), 64) as bigint) << {INC_BITS + SEQ_BITS}) | (1L << {SEQ_BITS}) | (id + 1) as k_lo",
        "cast(repeat(uuid(), 2) as binary) as payload",
    )  # fmt: skip
    parts = made.repartitionByRange(files, "seq").sortWithinPartitions("seq") if in_order else made.repartition(files)
    parts.write.parquet(str(directory))


def write_big_trace(
    spark: SparkSession, directory: Path, deliveries: int, *, swaps: int = 0, crash: bool = False,
    listeners: int = LISTENERS, on_views: bool = False,
    publishers: int = PUBLISHERS,
) -> Path:  # fmt: skip
    """Write the trace of a group in rounds: everybody publishes, then delivers what all published in that round.

    An event follows all events of the rounds before it. The order is the same everywhere, and the keys agree with it.
    `swaps`: so many times, the first listener delivers the first event of a round before the last of the round before.
    `crash`: the last listener crashes when it has delivered everything. `listeners`: who delivers and does not publish.
    `publishers`: who publishes, and delivers too.
    `on_views`: a group on views as it is gathered from machines: no true time, clocks that begin hours apart and drift,
    and the last listener joins half-way.
    """
    members = publishers + listeners
    rounds = -(-deliveries // (publishers * members))
    period = max(2, (rounds - 1) // swaps) if swaps else rounds + 1
    run = Run(
        run_id="big", version=__version__, level="total", seed=0, nodes=list(range(members)),
        groups={GROUP: list(range(members))}, phases=Phases(0, 0, rounds * 1000, 10**9),
    )  # fmt: skip
    joiner, half = (members - 1, rounds // 2) if on_views else (-1, 0)
    half -= half % period == 1  # no swap across the new view
    if on_views:
        run.level, run.phases, run.parameters = "causal", None, {"membership": "living"}
        run.groups = {GROUP: list(range(joiner))}
    begun = f"if({{0}} = {joiner}, 2 - {half * publishers}, 2 + int(round >= {half}))" if on_views else "0"
    epoch = f"bigint(round >= {half}) as epoch" if on_views else "bigint(null) as epoch"

    def times(node: str, at: str) -> list[str]:
        skewed = f"{at} + {node} * {SKEW_NS} + ({at}) * {node} div {DRIFT}"
        return [f"{skewed if on_views else at} as t_clk", f"{'bigint(null)' if on_views else at} as t_true"]

    where = run_directory(directory, run.run_id)
    seq = "bigint(round + 1)"
    event = f"1 as inc, '{GROUP}' as grp, int(q) as m_pid, 1 as m_inc, {seq} as m_seq"
    key = (
        f"round as l, round << {K_BITS} as k_hi, 0L as k_mid, "
        f"(q << {INC_BITS + SEQ_BITS}) | (1L << {SEQ_BITS}) | (round + 1) as k_lo"
    )
    about = "16 as payload_bytes, bigint(pmod(hash(q, round), 1000000)) as payload_crc"
    ids = spark.range(rounds * members * publishers, numPartitions=8)
    steps = ids.selectExpr(
        f"id div {members * publishers} as round", f"(id div {publishers}) % {members} as s", f"id % {publishers} as q"
    )
    per_round = f"if(s < {publishers}, {publishers + 1}, {publishers})"
    late = f"s = {publishers} and round % {period} = 0 and round < {swaps * period} and q = {publishers - 1}"
    early = f"s = {publishers} and round % {period} = 1 and round < {swaps * period} and q = 0"
    swapped = f"case when {late} then 1 when {early} then -1 else 0 end"
    ev = f"round * {per_round} + q + if(s < {publishers}, 1, 0) + {swapped}"
    delivered = steps.filter(f"s <> {joiner} or round >= {half}").selectExpr(
        "int(s) as node", f"{ev} + {begun.format('s')} as ev", *times("s", "round * 1000 + 500 + q"), epoch,
        *_split(event), f"round * {publishers} + q as pos", *_split(key), *_split(about), "0L as hold_ns",
    )  # fmt: skip
    published = spark.range(rounds * publishers, numPartitions=2).selectExpr(
        f"id div {publishers} as round", f"id % {publishers} as q"
    )
    published = published.selectExpr(
        "int(q) as node", f"round * {publishers + 1} + {begun.format('q')} as ev", *times("q", "round * 1000"), epoch,
        *_split(event), *_split(key), *_split(about), "8 as stamp_bytes",
    )  # fmt: skip
    _whole(delivered).write.parquet(f"{where}/kind=deliver")
    _whole(published).write.parquet(f"{where}/kind=publish")
    if on_views:
        _write_views(spark, where, members, half)
    if crash:
        end = f"{rounds} * 1000"
        row = f"{members - 1} as node, 1 as inc, {rounds * publishers}L as ev, {end} as t_clk, {end} as t_true"
        _whole(spark.range(1).selectExpr(*_split(row))).write.parquet(f"{where}/kind=crash")
    (where / RUN_FILE).write_bytes(msgspec.json.encode(run))
    return directory


def _write_views(spark: SparkSession, where: Path, members: int, half: int) -> None:
    """Write how all but the last member found a group, and how that one joins before a round."""
    founders = ", ".join(f"({node}, 0, 0)" for node in range(members - 1))
    views = {0: f"array({founders})", 1: f"array({founders}, ({members - 1}, 1, 1))"}
    nodes = spark.range(members).selectExpr("int(id) as node", "1 as inc", "id", f"id = {members - 1} as is_joiner")
    entered, joined = [], []
    for epoch, view in views.items():
        first = f"if(node < {PUBLISHERS}, {PUBLISHERS + 1}, {PUBLISHERS}) * {half} + 2 as ev"
        told = nodes.filter("not is_joiner") if epoch == 0 else nodes
        ev = "0L as ev" if epoch == 0 else f"if(is_joiner, 0, {first.removesuffix(' as ev')}) as ev"
        shape = "array<struct<pid:int,inc:int,seq:bigint>>"
        entered.append(
            told.selectExpr(
                "node", "inc", ev, f"id * {SKEW_NS} as t_clk", f"'{GROUP}' as grp", f"{epoch}L as epoch",
                f"cast({view} as {shape}) as ids", "'entered' as reason",
            ).selectExpr("*", "ids.pid as dests")
        )  # fmt: skip
        here = nodes.filter("is_joiner" if epoch else "not is_joiner")
        joined.append(
            here.selectExpr(
                "node", "inc", "1L as ev", f"id * {SKEW_NS} as t_clk", f"'{GROUP}' as grp", f"{epoch}L as epoch",
                f"{epoch}L as value",
            )
        )  # fmt: skip
    _whole(entered[0].unionByName(entered[1])).write.parquet(f"{where}/kind=view")
    _whole(joined[0].unionByName(joined[1])).write.parquet(f"{where}/kind=join")


def _split(columns: str) -> list[str]:
    """Split a list of SQL columns at commas outside of brackets."""
    found, depth = [""], 0
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def _whole(rows: DataFrame) -> DataFrame:
    """Return rows with all columns of a trace, null where they have none."""
    kinds = dict(each.strip().split(" ", 1) for each in _split(TRACE_DDL.replace("<", "(").replace(">", ")")))
    types = {name: kind.replace("(", "<").replace(")", ">") for name, kind in kinds.items()}
    assert RUN_ID not in types
    assert KIND not in types
    have = set(rows.columns)
    return rows.select(
        *((F.col(name) if name in have else F.lit(None)).cast(types[name]).alias(name) for name in COLUMNS)
    )
