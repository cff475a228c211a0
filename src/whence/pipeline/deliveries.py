"""Tables of publications, deliveries and memberships: what promises rest on.

Program order is a process's rows by (incarnation, number). A process is one incarnation of a node, or all of them where
it remembers across crashes and no rows are missing. Clocks play no part in it.
"""

from functools import cached_property
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Final

from whence.pipeline.columns import (
    AFTER_ALL,
    BEFORE_ALL,
    EVENT,
    FILE,
    KIND,
    LIFE,
    MESSAGE,
    NTH,
    PLACE,
    PROCESS,
    RANK,
    ROW,
    RUN_ID,
    place,
    union,
)
from whence.pipeline.events import Events, incomplete_runs
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.trace.schema import (
    BOUND,
    DESTS,
    EPOCH,
    EV,
    GRP,
    IDS,
    INC,
    K_HI,
    K_LO,
    K_MID,
    LATE_NS,
    M_INC,
    M_PID,
    M_SEQ,
    NODE,
    PAYLOAD_BYTES,
    PAYLOAD_CRC,
    REASON,
    T_CLK,
    T_TRUE,
    TICKET,
    VALUE,
    Kind,
)

_OF_PUBLISH = (DESTS, T_TRUE, PAYLOAD_BYTES, PAYLOAD_CRC, K_HI, K_MID, K_LO)
_IN_LINE = (
    Kind.PUBLISH, Kind.DELIVER, Kind.GAP, Kind.JOIN, Kind.LEAVE, Kind.CRASH, Kind.RESTART,
    Kind.TICKET_ACQUIRE, Kind.TICKET_RELEASE, Kind.TICKET_SUSPEND,
)  # fmt: skip

_TRAFFIC = (Kind.SEND, Kind.RECV, Kind.DROP, Kind.REJECT, Kind.LATE, Kind.RESET)
_READ = (
    RUN_ID, KIND, NODE, LIFE, INC, EV, T_CLK, T_TRUE, *MESSAGE, *_OF_PUBLISH[:1], PAYLOAD_BYTES, PAYLOAD_CRC,
    K_HI, K_MID, K_LO, TICKET, EPOCH, IDS, REASON, VALUE, BOUND, LATE_NS, FILE, ROW,
)  # fmt: skip
"""Columns that promises read, of all rows but the traffic."""


_ROW_BITS: Final = 40
"""Rows of a file, and files of a run, that an event's number has room for: 2^40 and 2^23."""
_NUMBERS: Final = count()


class RunTables:
    """The tables of some runs, each made when it is first asked for and kept where several promises read it."""

    of_publication: tuple[str, ...] = (*_OF_PUBLISH, NODE, LIFE, INC, EV)
    """What deliveries tell of the publication of their event, as columns `o_…`."""
    of_publisher: tuple[tuple[str, ...], tuple[str, ...]] = ((RUN_ID, GRP, M_PID, M_INC), (M_SEQ,))
    """Whose events are ranked together, and in which order."""

    def __init__(self, events: Events) -> None:
        self.events = events.events
        self._rows: DataFrame | None = None
        self.runs = events.runs
        self.founders = events.founders
        self.is_large, self._is_clean = not events.is_small, events.is_clean
        self._work = Path(events.work, f"tables-{next(_NUMBERS)}") if self.is_large and events.work else None
        self._made = count()
        self.lives = self.keep(events.lives)

    def keep(self, table: DataFrame) -> DataFrame:
        """Make a table that is read more than once, and return what was made.

        It forgets how it was made, so that everything that is built on it has a short plan: plans that repeat others
        cost more than the rows. Small tables stay in memory. Large ones are written as Parquet where there is a work
        directory, and whoever reads them reads only the columns that it needs.
        """
        if self._work is None:
            return table.localCheckpoint(eager=True)
        where = str(self._work / str(next(self._made)))
        table.write.parquet(where)
        return table.sparkSession.read.schema(table.schema).parquet(where)

    def close(self) -> None:
        """Remove the tables that were written."""
        if self._work is not None:
            rmtree(self._work, ignore_errors=True)

    def rows_of(self, *kinds: Kind) -> DataFrame:
        """Return the rows of some kinds."""
        if self._rows is None:
            read = [kind.value for kind in Kind if kind not in _TRAFFIC]
            rows = self.events.filter(F.col(KIND).isin(read)).select(*_READ)
            # Large clean input lies on disk already, by kind and column; there is nothing to gain from a copy.
            self._rows = rows if self.is_large and self._is_clean else self.keep(rows)
        return self._rows.filter(F.col(KIND).isin([kind.value for kind in kinds]))

    def steps_of(self, kind: Kind) -> DataFrame:
        """Return the publications or the deliveries, each with the process whose step it is."""
        return self.rows_of(kind)

    @cached_property
    def incomplete(self) -> DataFrame:
        """The runs in which rows are missing, and which."""
        return self.keep(incomplete_runs(self.lives, self.runs))

    @cached_property
    def node_lives(self) -> DataFrame:
        """The first and the last incarnation of every node that left a row."""
        return self.keep(
            self.lives.groupBy(RUN_ID, NODE).agg(F.min(INC).alias("first_life"), F.max(INC).alias("last_life"))
        )

    @cached_property
    def publish_rows(self) -> DataFrame:
        """Every publish row; NTH is 1 for the first of an identity, and more for those that reuse it. `first_node`,
        `first_inc` are whose the first one is."""
        again = Window.partitionBy(RUN_ID, *MESSAGE).orderBy(FILE, ROW)
        first = {f"first_{name}": F.first(name).over(again) for name in (NODE, INC)}
        return self.steps_of(Kind.PUBLISH).withColumns({NTH: F.row_number().over(again), **first})

    @cached_property
    def published(self) -> DataFrame:
        """Every event once: its number in the run and its place among its publisher's."""
        rows = self.publish_rows.filter(F.col(NTH) == 1)
        whose, order = self.of_publisher
        of_publisher = Window.partitionBy(*whose).orderBy(*order)
        return self.keep(
            rows.join(F.broadcast(_numbered_files(rows)), [RUN_ID, FILE]).select(
                RUN_ID, NODE, INC, LIFE, EV, *MESSAGE, *_OF_PUBLISH, T_CLK, TICKET, EPOCH,
                (F.shiftleft("file_number", _ROW_BITS) + F.col(ROW)).alias(EVENT),
                (F.row_number().over(of_publisher) - 1).alias(RANK),
            )
        )  # fmt: skip

    @cached_property
    def republished(self) -> DataFrame:
        """Publish rows of an identity that was already taken."""
        return self.publish_rows.filter(F.col(NTH) > 1)

    @cached_property
    def deliver_rows(self) -> DataFrame:
        """Every deliver row with what was published: `o_…` columns are the publication's, null where there is none."""
        origin = self.published.select(
            RUN_ID, *MESSAGE, EVENT, RANK, *(F.col(name).alias(f"o_{name}") for name in self.of_publication)
        )
        mine = self.steps_of(Kind.DELIVER).select(
            *PROCESS, INC, EV, *MESSAGE, T_TRUE, PAYLOAD_BYTES, PAYLOAD_CRC, K_HI, K_MID, K_LO, EPOCH
        )
        # The event first: then one exchange and one sort serve both the window and the join.
        again = Window.partitionBy(RUN_ID, *MESSAGE, NODE, LIFE).orderBy(*PLACE)
        if self.is_large:
            mine = mine.repartition(RUN_ID, *MESSAGE)
        counted = mine.withColumn(NTH, F.row_number().over(again))
        first_ev = F.first(EV).over(again.rowsBetween(Window.unboundedPreceding, 0))
        return self.keep(counted.withColumn("first_ev", first_ev).join(origin, [RUN_ID, *MESSAGE], "left"))

    @cached_property
    def delivered(self) -> DataFrame:
        """Every process's first delivery of every event: what all promises but one are about."""
        return self.deliver_rows.filter((F.col(NTH) == 1) & F.col(EVENT).isNotNull())

    @cached_property
    def given_up(self) -> DataFrame:
        """Every event a process gave up in a gap row, with the first such row's place."""
        shown = self.rows_of(Kind.GAP).select(*PROCESS, *PLACE, GRP, F.explode(IDS).alias("id"))
        named = shown.select(
            *PROCESS, *PLACE, GRP,
            F.col("id.pid").alias(M_PID), F.col("id.inc").alias(M_INC), F.col("id.seq").alias(M_SEQ),
        )  # fmt: skip
        known = named.join(self.published.select(RUN_ID, *MESSAGE, EVENT), [RUN_ID, *MESSAGE])
        return self.keep(known.groupBy(*PROCESS, EVENT).agg(F.min(place(F.col(INC), F.col(EV))).alias("gap")))

    @cached_property
    def processes(self) -> DataFrame:
        """Every process, whether it is up at the end, and its first step; founders that left no row too."""
        is_turn = F.col(KIND).isin(Kind.CRASH.value, Kind.RESTART.value)
        here = place(F.col(INC), F.col(EV))
        lines = self.rows_of(*_IN_LINE).groupBy(*PROCESS).agg(
            F.max_by(KIND, F.when(is_turn, here)).alias("turn"),
            F.min_by(T_TRUE, here).alias("began"),
            F.bool_or(F.col(KIND) == Kind.LEAVE.value).alias("left"),
            F.lit(True).alias("has_rows"),
        )  # fmt: skip
        every = union([lines.select(*PROCESS), self._founding.select(*PROCESS)]).distinct()
        durable = self.runs.select(RUN_ID, "durable")
        known = every.join(lines, list(PROCESS), "left").join(self.node_lives, [RUN_ID, NODE], "left")
        is_last = F.coalesce(F.col(LIFE) == F.col("last_life"), F.lit(True)) | F.col("durable")
        not_down = F.coalesce(F.col("turn") != Kind.CRASH.value, F.lit(True))
        return self.keep(
            known.join(F.broadcast(durable), RUN_ID).select(
                *PROCESS, (not_down & is_last).alias("up"), "began",
                F.coalesce("left", F.lit(False)).alias("left"), F.coalesce("has_rows", F.lit(False)).alias("has_rows"),
                F.when(F.col(LIFE) == 0, F.coalesce("last_life", F.lit(1))).otherwise(F.col(LIFE)).alias(INC),
            )
        )  # fmt: skip

    @cached_property
    def _founding(self) -> DataFrame:
        """The founders as processes: a node founds in its first incarnation, or in all where processes remember."""
        every = self.lives.select(RUN_ID, NODE, F.col(INC).alias("each_life"))
        born = self.founders.join(self.node_lives, [RUN_ID, NODE], "left").join(every, [RUN_ID, NODE], "left")
        about = self.runs.select(RUN_ID, "durable").join(self.incomplete, RUN_ID, "left")
        life = (
            F.when(F.col("durable") & F.col("incomplete").isNull(), 0)
            .when(F.col("durable"), F.coalesce("each_life", F.lit(1)))
            .otherwise(F.coalesce("first_life", F.lit(1)))
        )
        known = born.join(F.broadcast(about), RUN_ID).select(RUN_ID, NODE, life.alias(LIFE), GRP)
        return self.keep(known.distinct())

    @cached_property
    def stays(self) -> DataFrame:
        """Every stay of a process in a group, from its founding or a join row to a leave or crash row.

        `since`, `until` are true time: BEFORE_ALL for founders, AFTER_ALL while it lasts; where the row that begins or
        ends it has no true time they are AFTER_ALL and BEFORE_ALL, so that nothing is certainly expected. `since_clk`,
        `until_clk` are the same on the process's own clock. `first`, `last` are the places of these rows.
        """
        marks = _stay_marks(self)
        line = Window.partitionBy(*PROCESS, GRP).orderBy("at", "order")
        turns = marks.withColumn("before", F.lag("begins").over(line)).filter(
            F.when(F.col("before").isNull(), F.col("begins")).otherwise(F.col("before") != F.col("begins"))
        )
        ends = turns.withColumn("end", F.lead(F.struct("at", T_TRUE, T_CLK)).over(line)).filter("begins")
        return self.keep(ends.select(
            *PROCESS, GRP,
            F.when(F.col("is_founding"), BEFORE_ALL).otherwise(F.coalesce(T_TRUE, F.lit(AFTER_ALL))).alias("since"),
            F.when(F.col("end").isNull(), AFTER_ALL).otherwise(
                F.coalesce(F.col(f"end.{T_TRUE}"), F.lit(BEFORE_ALL))).alias("until"),
            F.when(F.col("is_founding"), BEFORE_ALL).otherwise(F.col(T_CLK)).alias("since_clk"),
            F.when(F.col("end").isNull(), AFTER_ALL).otherwise(F.col(f"end.{T_CLK}")).alias("until_clk"),
            F.col("at").alias("first"),
            F.coalesce(F.col("end.at"), _at(F.lit(2**31 - 1), F.lit(AFTER_ALL))).alias("last"),
            "is_founding",
        ))  # fmt: skip


def _numbered_files(rows: DataFrame) -> DataFrame:
    """Return the files that rows of each run lie in, numbered by name."""
    by_name = Window.partitionBy(RUN_ID).orderBy(FILE)
    files = rows.select(RUN_ID, FILE).distinct()
    return files.withColumn("file_number", F.row_number().over(by_name).cast("bigint"))


def with_memory(runs: DataFrame, rows: DataFrame) -> DataFrame:
    """Return rows with whether the incarnation that wrote them remembers across crashes (`durable`)."""
    about = F.broadcast(runs.select(RUN_ID, F.col("durable").alias("remember"), "forgetful"))
    here = F.col(NODE).cast("bigint") * (1 << 32) + F.col(INC)
    known = rows.join(about, RUN_ID).withColumn("durable", F.col("remember") & ~F.array_contains("forgetful", here))
    return known.drop("remember", "forgetful")


def _at(inc: Column, ev: Column) -> Column:
    return place(inc.cast("int"), ev.cast("bigint"))


def _stay_marks(tables: RunTables) -> DataFrame:
    """Return the rows that begin and end stays: foundings, joins, leaves, and crashes of processes without memory."""
    shape = (*PROCESS, GRP, "at", "order", T_TRUE, T_CLK, "begins", "is_founding")
    here = _at(F.col(INC), F.col(EV))
    foundings = tables._founding.select(
        *PROCESS, GRP, _at(F.lit(-1), F.lit(-1)).alias("at"), F.lit(0).alias("order"),
        *(F.lit(None).cast("bigint").alias(name) for name in (T_TRUE, T_CLK)),
        F.lit(True).alias("begins"), F.lit(True).alias("is_founding"),
    )  # fmt: skip
    turns = tables.rows_of(Kind.JOIN, Kind.LEAVE).select(
        *PROCESS, GRP, here.alias("at"), F.lit(1).alias("order"), T_TRUE, T_CLK,
        (F.col(KIND) == Kind.JOIN.value).alias("begins"), F.lit(False).alias("is_founding"),
    )  # fmt: skip
    begun = union([foundings, turns.filter("begins")]).select(*PROCESS, GRP).distinct()
    durable = F.broadcast(tables.runs.filter("durable").select(RUN_ID))
    crashes = tables.rows_of(Kind.CRASH).join(durable, RUN_ID, "left_anti")
    crashes = crashes.select(*PROCESS, here.alias("at"), T_TRUE, T_CLK)
    downs = crashes.join(begun, list(PROCESS)).select(
        *PROCESS, GRP, "at", F.lit(1).alias("order"), T_TRUE, T_CLK,
        F.lit(False).alias("begins"), F.lit(False).alias("is_founding"),
    )  # fmt: skip
    return union([table.select(*shape) for table in (foundings, turns, downs)])


def stays_by_process(tables: RunTables) -> DataFrame:
    """Return, for every process and group, all its stays as one array."""
    return tables.stays.groupBy(*PROCESS, GRP).agg(
        F.collect_list(F.struct("first", "last", "since", "until")).alias("stays")
    )
