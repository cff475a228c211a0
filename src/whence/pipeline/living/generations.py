"""Generations that an operator forced, and groups of one name that were begun separately: each is a group of its own.

Nothing is promised across them. The epoch of a view says to which line it belongs. The first line of a group keeps its
name, and the others get one by which they are judged. What a process does with an event belongs to the line in which
that was published; what names no epoch, to the line whose view it entered last. A crash or a restart happens in the
first line, and in those in which the process had done something before. What a process is told of its own events once
it is in another line speaks of those who are there with it, and is left out.
"""

from whence.epochs import GENERATION_BITS, NUMBER_BITS, NUMBER_MAX
from whence.pipeline.columns import KIND, MESSAGE, RUN_ID, place, text
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.trace.schema import EPOCH, EV, GRP, INC, M_PID, NODE, Kind

GROUP = "group"
"""The name of a group in rows; GRP tells its generations apart."""
LINE, FIRST = "line", "is_first"

_EPOCH_BITS = 62
_LATER = " (generation "
_NAMED = (Kind.VIEW, Kind.PUBLISH, Kind.DELIVER, Kind.JOIN)
_OF_EVENT = (Kind.PUBLISH, Kind.DELIVER, Kind.NOTE)


def line_of(epoch: Column) -> Column:
    """Return what all views of one generation of one group share, and no others."""
    return F.shiftright(epoch, NUMBER_BITS)


def view_name(epoch: Column) -> Column:
    """Return the view's number for sentences, with its generation if the group was forced."""
    generation = F.shiftright(epoch, _EPOCH_BITS - GENERATION_BITS)
    number = epoch.bitwiseAND(F.lit(NUMBER_MAX)).cast("string")
    return F.when(generation == 0, number).otherwise(text(number, " of generation ", generation))


def which(epoch: Column) -> Column:
    """Return the name of a view for sentences."""
    return F.when(epoch.isNull(), "an unknown view").otherwise(text("view ", view_name(epoch)))


def is_added(joined: Column, line: Column) -> Column:
    """Return whether a member was added by a view of a later generation: neither a survivor nor one of the first."""
    return (line_of(joined) == line) & (joined.bitwiseAND(F.lit(NUMBER_MAX)) != 0)


def line_table(views: DataFrame) -> DataFrame:
    """Return the lines of every group that has a view, and the names by which they are judged."""
    each = views.filter(F.col(GRP).isNotNull()).select(RUN_ID, GRP, line_of(F.col(EPOCH)).alias(LINE)).distinct()
    nth = F.row_number().over(Window.partitionBy(RUN_ID, GRP).orderBy(LINE))
    generation = F.shiftright(F.col(LINE), _EPOCH_BITS - GENERATION_BITS - NUMBER_BITS)
    name = F.format_string(f"%s{_LATER}%d, %s)", F.col(GRP), generation, F.lower(F.hex(LINE)))
    numbered = each.withColumn(FIRST, nth == 1)
    return numbered.select(
        RUN_ID, F.col(GRP).alias(GROUP), LINE, FIRST, F.when(F.col(FIRST), F.col(GRP)).otherwise(name).alias(GRP)
    )


def group_named(label: Column) -> Column:
    """Return the name in rows of the group that a line is of."""
    return F.substring_index(label, _LATER, 1)


def several(lines: DataFrame) -> bool:
    """Return whether any group has more than one line."""
    return bool(lines.filter(f"not {FIRST}").limit(1).count())


def labelled(named: DataFrame, lines: DataFrame) -> DataFrame:
    """Return rows that name a group, each with the line it belongs to as its group."""
    published = (
        named.filter(F.col(KIND) == Kind.PUBLISH.value)
        .groupBy(RUN_ID, *MESSAGE)
        .agg(F.min_by(F.struct(EPOCH), F.struct("file", "row")).alias("_event"))
    )
    known = named.join(published, [RUN_ID, *MESSAGE], "left").withColumnRenamed(GRP, GROUP)
    tells = F.col(KIND).isin([kind.value for kind in _NAMED])
    of_event = F.col(KIND).isin([kind.value for kind in _OF_EVENT]) & F.col("_event").isNotNull()
    epoch = F.when(of_event, F.col(f"_event.{EPOCH}")).when(tells, F.col(EPOCH))
    known = known.withColumns({LINE: line_of(epoch), "_tells": tells | of_event})
    known = known.join(F.broadcast(lines.drop(FIRST)), [RUN_ID, GROUP, LINE], "left")
    line = Window.partitionBy(RUN_ID, NODE, GROUP).orderBy(INC, EV).rowsBetween(Window.unboundedPreceding, -1)
    entered = F.last(F.when(F.col(KIND) == Kind.VIEW.value, F.coalesce(GRP, GROUP)), ignorenulls=True).over(line)
    known = known.withColumn("_entered", F.coalesce(entered, F.col(GROUP)))
    label = F.when(F.col("_tells"), F.coalesce(GRP, GROUP)).otherwise(F.col("_entered"))
    moved_on = (F.col(KIND) == Kind.NOTE.value) & (F.col(M_PID) == F.col(NODE)) & (F.col(GRP) != F.col("_entered"))
    known = known.withColumn(GRP, label).filter(~F.coalesce(moved_on, F.lit(False)))
    return known.drop("_event", "_tells", "_entered", LINE, GROUP).select(*named.columns)


def turns_of_lines(turns: DataFrame, named: DataFrame, groups: DataFrame) -> DataFrame:
    """Return crashes and restarts, one for each line in which they happen; `named` are rows with their lines."""
    begun = named.groupBy(RUN_ID, NODE, GRP).agg(F.min(place(F.col(INC), F.col(EV))).alias("_begun"))
    each = turns.drop(GRP).join(F.broadcast(groups.select(RUN_ID, GRP, FIRST)), RUN_ID)
    known = each.join(F.broadcast(begun), [RUN_ID, NODE, GRP], "left")
    here = F.col(FIRST) | (F.col("_begun") < place(F.col(INC), F.col(EV)))
    return known.filter(here).select(*turns.columns)


def departures(members: DataFrame, views: DataFrame, lines: DataFrame) -> DataFrame:
    """Return where processes first went from a line of a group to another, by the views that they entered; `members`
    tells which lines they were in."""
    of = views.join(F.broadcast(lines.select(RUN_ID, GRP, GROUP)), [RUN_ID, GRP])
    of = of.select(RUN_ID, NODE, GROUP, GRP, place(F.col(INC), F.col(EV)).alias("_entered"))
    begun = of.groupBy(RUN_ID, NODE, GRP).agg(F.min("_entered").alias("_begun"))
    known = members.join(F.broadcast(lines.select(RUN_ID, GRP, GROUP)), [RUN_ID, GRP]).select(RUN_ID, NODE, GROUP, GRP)
    known = known.distinct().join(begun, [RUN_ID, NODE, GRP], "left")
    others = of.withColumnRenamed(GRP, "_elsewhere")
    later = F.col("_begun").isNull() | (F.col("_entered") > F.col("_begun"))
    went = known.join(others, [RUN_ID, NODE, GROUP]).filter((F.col("_elsewhere") != F.col(GRP)) & later)
    return went.groupBy(RUN_ID, NODE, GRP).agg(F.min("_entered").alias("left_at"))


def last_entered(views: DataFrame, lines: DataFrame) -> DataFrame:
    """Return the line of the view that each process entered last, in every group: there it goes on."""
    last = F.max_by(GRP, place(F.col(INC), F.col(EV))).alias("entered")
    of = views.join(F.broadcast(lines.select(RUN_ID, GRP, GROUP)), [RUN_ID, GRP])
    return of.groupBy(RUN_ID, NODE, GROUP).agg(last)
