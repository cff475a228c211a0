"""Strict total order and uniform: one sequence without omissions, of which everybody has a part (views 6).

Strict: the sequences of all members fit into one order; and of two members that stay, the sequence of the one that
began later is a part of the other's without holes, from its first event to where the shorter one ends. Uniform: those
who did not stay were handed a part of the sequence of the member that stays and began first, too.

Two sequences are compared place by place from where one begins in the other: a join by place, and the first place at
which they part.
"""

from whence.pipeline.columns import EVENT, LIFE, PROCESS, RUN_ID, message, text, union, violations, what, who
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.living.memberships import JOINED
from whence.pipeline.living.owed import missing
from whence.pipeline.living.tables import AT, LivingTables
from whence.pipeline.promises.total import total_order_violations
from whence.trace.schema import EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE

STRICT, UNIFORM = "strict_total", "uniform"
NOTHING = {
    STRICT: "no two members that stay were handed two events each",
    UNIFORM: "nobody who did not stay was handed anything that can be compared",
}
HOLDS = "all who stay were handed one sequence without omissions"

_LONG, _SHORT = ("l_node", "l_life"), ("s_node", "s_life")
_PAIR = (RUN_ID, GRP, *_LONG, *_SHORT)
_NAME = (M_PID, M_INC, M_SEQ)


def _lengths(sequences: DataFrame) -> DataFrame:
    """Return how much every member was handed, and what first."""
    return sequences.groupBy(*PROCESS).agg(F.count("*").alias("n"), F.min_by(EVENT, AT).alias("first"))


def _places(sequences: DataFrame, whose: tuple[str, str], event: str, **columns: str) -> DataFrame:
    """Return where members have events, under the names of a pair's member and of its event."""
    kept = [F.col(name).alias(alias) for name, alias in columns.items()]
    return sequences.select(
        RUN_ID, F.col(NODE).alias(whose[0]), F.col(LIFE).alias(whose[1]), F.col(EVENT).alias(event), *kept
    )


# --- strict total order ---


def strict_violations(tables: LivingTables, pairs: DataFrame) -> DataFrame:
    """Return sequences that fit into no order, and the first place at which two that should be one part."""
    asked = tables.runs.filter(F.array_contains("promises", STRICT)).select(RUN_ID)
    return total_order_violations(tables, asked, STRICT).unionByName(_parted(tables, pairs))


def strict_at_stake(pairs: DataFrame) -> DataFrame:
    """Return how many pairs of members of each run can be compared."""
    overlap = F.least(F.col("l_n") - F.col("begins"), F.col("s_n")) > 1
    compared = F.when(F.col("begins").isNull(), F.col("meet")).otherwise(overlap)
    return pairs.groupBy(RUN_ID).agg(F.count_if(compared).alias("at_stake"), F.lit(HOLDS).alias("holds"))


def staying_pairs(tables: LivingTables) -> DataFrame:
    """Return every two members of a group that stay and were handed something: a longer one, in which the shorter
    begins at the place `begins`; null if nowhere, and then `meet` tells whether they have any event in common.

    A founder is the longer one beside a joiner; of two joiners the one in which the other begins.
    """
    known = tables.judged.join(_lengths(tables.sequences), list(PROCESS)).select(
        RUN_ID, GRP, NODE, LIFE, "is_joiner", "n", "first"
    )

    def side(name: str) -> DataFrame:
        renamed = {column: f"{name}_{column}" for column in (NODE, LIFE, "is_joiner", "n", "first")}
        return known.withColumnsRenamed(renamed)

    both = side("l").join(side("s"), [RUN_ID, GRP]).filter(
        F.struct("l_node", "l_life") < F.struct("s_node", "s_life")
    )  # fmt: skip
    short_in_long = _places(tables.sequences, _LONG, "s_first", **{AT: "begins"})
    long_in_short = _places(tables.sequences, _SHORT, "l_first", **{AT: "begun_by"})
    placed = both.join(short_in_long, [RUN_ID, *_LONG, "s_first"], "left").join(
        long_in_short, [RUN_ID, *_SHORT, "l_first"], "left"
    )
    turned = F.col("l_is_joiner") & (~F.col("s_is_joiner") | (F.col("begins").isNull() & F.col("begun_by").isNotNull()))
    as_told = placed.select(
        RUN_ID, GRP, *_LONG, *_SHORT, "l_n", "s_n", "l_first", "s_first", "l_is_joiner", "s_is_joiner", "begins",
        "begun_by", turned.alias("turned"),
    )  # fmt: skip
    swap = [("l_node", "s_node"), ("l_life", "s_life"), ("l_n", "s_n"), ("l_first", "s_first"),
            ("l_is_joiner", "s_is_joiner"), ("begins", "begun_by")]  # fmt: skip
    ordered = as_told.select(
        RUN_ID, GRP,
        *(F.when(F.col("turned"), F.col(b)).otherwise(F.col(a)).alias(a) for a, b in swap),
        *(F.when(F.col("turned"), F.col(a)).otherwise(F.col(b)).alias(b) for a, b in swap),
    )  # fmt: skip
    found = ordered.withColumn("begins", F.when(F.col("s_is_joiner"), F.col("begins")).otherwise(0))
    apart = found.filter("begins is null").select(*_PAIR)
    meet = (
        apart.join(_places(tables.sequences, _LONG, EVENT), [RUN_ID, *_LONG])
        .join(_places(tables.sequences, _SHORT, EVENT), [RUN_ID, *_SHORT, EVENT])
        .select(*_PAIR).distinct().withColumn("meet", F.lit(True))
    )  # fmt: skip
    return found.join(meet, list(_PAIR), "left").withColumn("meet", F.coalesce("meet", F.lit(False)))


def _parted(tables: LivingTables, pairs: DataFrame) -> DataFrame:
    """Return, for each two members whose sequences part, the event that one of them lacks or has elsewhere."""
    handed = tables.sequences
    apart = pairs.filter("begins is null and meet").select(
        *_PAIR, F.lit(None).cast("bigint").alias("ours"), F.col("s_first").alias("theirs")
    )
    differ = _first_apart(
        tables.sequences, pairs.filter("begins is not null").select(*_PAIR, "begins", F.lit(0).alias("since"))
    )
    both = union([apart, differ.select(*apart.columns)])
    both = both.join(_places(handed, _SHORT, "ours", **{EV: "short_ev"}), [RUN_ID, *_SHORT, "ours"], "left").join(
        _places(handed, _LONG, "theirs", **{INC: "long_inc", EV: "long_ev"}),
        [RUN_ID, *_LONG, "theirs"],
        "left",
    )
    lacks = F.col("ours").isNotNull() & F.col("short_ev").isNull()

    def pick(short: str, long: str) -> Column:
        return F.when(lacks, F.col(short)).otherwise(F.col(long))

    names = tables.members.select(RUN_ID, NODE, LIFE, INC)
    told = both.select(
        RUN_ID, GRP, pick("s_node", "l_node").alias(NODE), pick("s_life", "l_life").alias(LIFE),
        pick("l_node", "s_node").alias("having"), pick("ours", "theirs").alias(EVENT),
        F.when(~lacks, F.col("long_inc")).alias("there_inc"), F.when(~lacks, F.col("long_ev")).alias("there_ev"),
    ).join(F.broadcast(names), list(PROCESS)).join(
        tables.publications.select(RUN_ID, EVENT, *_NAME), [RUN_ID, EVENT]
    ).withColumn(INC, F.coalesce("there_inc", INC))  # fmt: skip
    absent = F.col("there_ev").isNull()
    does = F.when(absent, " went on without ").otherwise(" has at another place ")
    sentence = text(who(), does, what(), ", which process ", F.col("having"), " was handed")
    evs = F.when(absent, F.array().cast("array<bigint>")).otherwise(F.array("there_ev"))
    return violations(told, STRICT, sentence, events=F.array(message()), evs=evs, absence=absent)


def _first_apart(sequences: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return the first place at which two sequences differ: `ours` the longer one's event there, `theirs` the other's.

    The shorter one counts from its place `since` on, which is the place `begins` of the longer one.
    """
    short = pairs.join(_places(sequences, _SHORT, "theirs", **{AT: "at_short"}), [RUN_ID, *_SHORT])
    due = (F.col("at_short") - F.col("since") + F.col("begins")).alias("at_long")
    short = short.filter(F.col("at_short") >= F.col("since")).select("*", due)
    beside = short.join(_places(sequences, _LONG, "ours", **{AT: "at_long"}), [RUN_ID, *_LONG, "at_long"])
    return (
        beside.filter(F.col("ours") != F.col("theirs")).groupBy(*_PAIR)
        .agg(F.min_by(F.struct("ours", "theirs"), "at_short").alias("apart")).select(*_PAIR, "apart.*")
    )  # fmt: skip


# --- uniform ---


def comparable(tables: LivingTables) -> DataFrame:
    """Return every member that did not stay, as the shorter one, with the member of its group that stays and began
    first: from its place `since` on its events are those from the place `begins` of the other; null if nowhere.

    Where that member is a joiner itself, what others were handed before its first event cannot be compared.
    """
    asked = F.broadcast(tables.runs.filter(F.col("uniform") & F.array_contains("promises", UNIFORM)).select(RUN_ID))
    handed = tables.sequences_before
    lengths = _lengths(handed)
    first_of_all = Window.partitionBy(RUN_ID, GRP).orderBy(F.coalesce(JOINED, F.lit(0)), F.desc("n"), NODE, LIFE)
    named = (NODE, LIFE, "is_joiner", "n", "first")
    stay = tables.staying.join(asked, RUN_ID).join(lengths, list(PROCESS))
    wholes = (
        stay.withColumn("nth", F.row_number().over(first_of_all)).filter("nth = 1")
        .select(RUN_ID, GRP, *named).withColumnsRenamed({name: f"l_{name}" for name in named})
    )  # fmt: skip
    gone = tables.members.join(tables.staying.select(*PROCESS), list(PROCESS), "left_anti").join(lengths, list(PROCESS))
    parts = gone.select(RUN_ID, GRP, *named).withColumnsRenamed({name: f"s_{name}" for name in named})
    both = parts.join(wholes, [RUN_ID, GRP])
    since = _places(handed, _SHORT, "l_first", **{AT: "since"})
    both = both.join(since, [RUN_ID, *_SHORT, "l_first"], "left")
    meet = (
        both.filter("if(l_is_joiner, since is null, s_is_joiner)").select(*_PAIR)
        .join(_places(handed, _SHORT, EVENT), [RUN_ID, *_SHORT])
        .join(_places(handed, _LONG, EVENT), [RUN_ID, *_LONG, EVENT])
        .select(*_PAIR).distinct().withColumn("meet", F.lit(True))
    )  # fmt: skip
    both = both.join(meet, list(_PAIR), "left")
    both = both.filter(~F.col("l_is_joiner") | F.col("since").isNotNull() | F.col("meet").isNotNull())
    both = both.withColumn("since", F.when(F.col("l_is_joiner"), F.coalesce("since", F.lit(0))).otherwise(0))
    both = both.join(
        _places(handed, _SHORT, "s_begins", **{AT: "since"}), [RUN_ID, *_SHORT, "since"]
    ).join(_places(handed, _LONG, "s_begins", **{AT: "begins"}), [RUN_ID, *_LONG, "s_begins"], "left")  # fmt: skip
    anywhere = F.col("s_is_joiner") | F.col("l_is_joiner")
    behind = F.when(F.col("meet").isNull(), F.col("l_n"))  # it begins where the sequence ends
    return both.withColumn("begins", F.when(anywhere, F.coalesce("begins", behind)).otherwise(0))


def uniform_violations(tables: LivingTables, compared: DataFrame) -> DataFrame:
    """Return what those who did not stay were handed out of the sequence, or beyond it."""
    astray = compared.filter("begins is null").select(*_PAIR, F.col("s_begins").alias("theirs"))
    placed = compared.filter("begins is not null")
    apart = _first_apart(tables.sequences_before, placed.select(*_PAIR, "begins", "since"))
    end = (F.col("since") + F.col("l_n") - F.col("begins")).alias("end")
    longer = placed.select(*_PAIR, end, "s_n").filter(F.col("end") < F.col("s_n"))
    longer = longer.join(apart.select(*_PAIR), list(_PAIR), "left_anti")
    return union([_astray(tables, union([astray, apart.select(*astray.columns)])), _longer(tables, longer)])


def uniform_at_stake(compared: DataFrame) -> DataFrame:
    """Return how many members of each run did not stay and can be compared."""
    said = text(F.count("*"), " members that did not stay were handed a prefix of what the others were")
    return compared.groupBy(RUN_ID).agg(F.count("*").alias("at_stake"), said.alias("holds"))


def _astray(tables: LivingTables, rows: DataFrame) -> DataFrame:
    shown = rows.select(
        RUN_ID, GRP, F.col("s_node").alias(NODE), F.col("s_life").alias(LIFE), F.col("theirs").alias(EVENT), "l_node"
    )
    known = shown.join(tables.sequences.drop(GRP), [*PROCESS, EVENT])
    known = known.join(tables.publications.select(RUN_ID, EVENT, *_NAME), [RUN_ID, EVENT])
    sentence = text(
        who(), " was handed ", what(), " at a place where process ", F.col("l_node"),
        ", which stays, was handed another event",
    )  # fmt: skip
    return violations(known, UNIFORM, sentence, events=F.array(message()), evs=F.array(EV))


def _longer(tables: LivingTables, rows: DataFrame) -> DataFrame:
    shown = rows.select(
        RUN_ID,
        GRP,
        F.col("s_node").alias(NODE),
        F.col("s_life").alias(LIFE),
        *_LONG,
        F.col("end").cast("int").alias(AT),
    )
    known = shown.join(tables.sequences.select(*PROCESS, AT, EVENT), [*PROCESS, AT])
    known = known.join(F.broadcast(tables.members.select(*PROCESS, INC, "strict", "live")), list(PROCESS))
    known = known.join(tables.publications.select(RUN_ID, EVENT, *_NAME, "published_at"), [RUN_ID, EVENT])
    sentence = text(who(), " was handed ", what(), ", and nobody who stays ever was")
    return missing(tables, known, UNIFORM, sentence, to=_LONG)
