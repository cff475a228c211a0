"""Tables of living runs: memberships and views, who stays, for whom each event is, and what took effect.

A process of these tables is a membership, so that what is said of processes elsewhere holds here of members. Views and
memberships are few; events are joined with them by group and epoch.
"""

from functools import cached_property
from typing import Final

from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, EVENT, LIFE, PLACE, PROCESS, RUN_ID, place, text, union
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.living.generations import (
    FIRST,
    GROUP,
    LINE,
    departures,
    is_added,
    labelled,
    last_entered,
    line_of,
    line_table,
    several,
    turns_of_lines,
    view_name,
)
from whence.pipeline.living.memberships import (
    FORCED,
    IN_LINE,
    JOINED,
    LEFT,
    OUTSIDE,
    TURNS,
    UNSUPPLIABLE,
    is_kind,
    membership_table,
    step_table,
    told_rows,
)
from whence.trace.schema import CLOSED, DESTS, EPOCH, EV, GRP, IDS, INC, NODE, REASON, T_CLK, T_TRUE, VALUE, Kind

VOTERS_MAX: Final = 7

_TAKES: Final = (Kind.DELIVER, Kind.GAP, Kind.NOTE)
"""What a process may still record of a group that it has closed."""

_DOWN = ", which is down and a member of its latest view"
_AWAY = ", which closed it and is a member of its latest view"
_FORCED = ", which was forced out of it and is gone"
_WITHOUT = ", which it names and which had gone on without it"

AT = "at"
"""The place of an event in the sequence of what a member was handed, from 0."""


class LivingTables(RunTables):
    """The tables of some living runs, each made when it is first asked for and kept where several promises read it."""

    of_publication = (*RunTables.of_publication, EPOCH)
    of_publisher = (PROCESS, PLACE)

    @cached_property
    def wanted(self) -> set[str]:
        """The promises that any run is judged by."""
        return {row[0] for row in self.runs.select(F.explode("promises")).distinct().collect()}

    @cached_property
    def has_strict(self) -> bool:
        """Whether any run promises one sequence."""
        return bool(self.runs.filter("strict").limit(1).count())

    # --- steps and memberships ---

    @cached_property
    def lines(self) -> DataFrame:
        """The generations of every group, and groups of one name, as groups of their own."""
        return self.keep(line_table(self.rows_of(Kind.VIEW).unionByName(self._outside_notes)))

    @property
    def _outside_notes(self) -> DataFrame:
        """Notes of members that are out and learnt of a view."""
        return self.rows_of(Kind.NOTE).filter(F.col(REASON) == OUTSIDE)

    @cached_property
    def has_generations(self) -> bool:
        """Whether any group has several."""
        return several(self.lines)

    @cached_property
    def groups(self) -> DataFrame:
        """The groups of every run: those it names, and those that rows name. GROUP is what rows call it."""
        named = self.runs.select(RUN_ID, F.explode("groups").alias(GRP))
        told = self.rows_of(*IN_LINE).filter(F.col(GRP).isNotNull()).select(RUN_ID, GRP)
        first = (
            named.unionByName(told).distinct().select(RUN_ID, GRP, F.col(GRP).alias(GROUP), F.lit(True).alias(FIRST))
        )
        others = self.lines.filter(f"not {FIRST}").select(RUN_ID, GRP, GROUP, FIRST)
        return self.keep(first.unionByName(others))

    @cached_property
    def steps(self) -> DataFrame:
        """The steps of all memberships, in the columns of rows."""
        rows = self.rows_of(*IN_LINE)
        named, turns = told_rows(rows), rows.filter(is_kind(*TURNS))
        if self.has_generations:
            named = self.keep(labelled(named, self.lines))
            turns = turns_of_lines(turns, named, self.groups)
        else:
            turns = turns.drop(GRP).join(F.broadcast(self.groups.select(RUN_ID, GRP)), RUN_ID)
        return self.keep(step_table(self.runs, named, turns))

    def steps_of(self, kind: Kind) -> DataFrame:
        """Return the steps of one kind, each with its membership as LIFE."""
        return self.steps.filter(is_kind(kind) & ~F.col("beyond"))

    @cached_property
    def members(self) -> DataFrame:
        """Every membership; `is_joiner`: it came after the group began, `late`: and so begins anywhere in the sequence
        of a strict group. `moved_on`: the process went on in another generation."""
        found = self.keep(membership_table(self.steps, self.views))
        named = union(
            [
                found.filter(F.col(JOINED).isNotNull()).select(RUN_ID, GRP, JOINED),
                self.views.select(RUN_ID, GRP, F.explode("members").alias("member")).select(
                    RUN_ID, GRP, F.col("member.seq").alias(JOINED)
                ),
            ]
        )
        first = named.groupBy(RUN_ID, GRP).agg(F.min(JOINED).alias("founding"))
        lines = self.groups.join(self.lines.select(RUN_ID, GRP, LINE), [RUN_ID, GRP], "left")
        known = (
            found.join(F.broadcast(first), [RUN_ID, GRP], "left")
            .join(F.broadcast(lines), [RUN_ID, GRP])
            .join(F.broadcast(last_entered(self.view_rows, self.lines)), [RUN_ID, NODE, GROUP], "left")
            .join(F.broadcast(self.runs.select(RUN_ID, "strict")), RUN_ID)
        )
        later = F.when(F.col(FIRST), F.col(JOINED) > F.col("founding")).otherwise(is_added(F.col(JOINED), F.col(LINE)))
        joins = F.coalesce(later, F.lit(False))
        told = {
            "is_joiner": joins, "late": joins & F.col("strict"),
            "moved_on": F.coalesce(F.col("entered"), F.col(GROUP)) != F.col(GRP),
        }  # fmt: skip
        return self.keep(known.withColumns(told).drop("founding", "entered", LINE, FIRST, GROUP))

    @cached_property
    def stays(self) -> DataFrame:
        """A membership is one stay, unless no view ever named it."""
        return self.members.filter(F.col(JOINED).isNotNull()).select(
            *PROCESS, GRP, F.lit(BEFORE_ALL).cast("bigint").alias("since"), F.lit(AFTER_ALL).alias("until"),
            place(F.lit(-1), F.lit(-1).cast("bigint")).alias("first"),
            place(F.lit(2**31 - 1), F.lit(AFTER_ALL)).alias("last"),
        )  # fmt: skip

    # --- views ---

    @cached_property
    def view_rows(self) -> DataFrame:
        """Every row that says that a view was entered."""
        told = (RUN_ID, NODE, LIFE, INC, EV, GRP, EPOCH, DESTS, F.col(VALUE).alias("voters"))
        return self.steps_of(Kind.VIEW).select(*told, _members())

    @cached_property
    def outside_rows(self) -> DataFrame:
        """Every row that says of which view one that is out learnt."""
        lines = F.broadcast(self.lines.select(RUN_ID, GROUP, LINE, F.col(GRP).alias("label")))
        told = self._outside_notes.select(
            RUN_ID, NODE, INC, EV, F.col(GRP).alias(GROUP), line_of(F.col(EPOCH)).alias(LINE), EPOCH,
            F.col(VALUE).alias("voters"), _members(),
        )  # fmt: skip
        return told.join(lines, [RUN_ID, GROUP, LINE]).withColumnRenamed("label", GRP).drop(GROUP, LINE)

    @cached_property
    def views(self) -> DataFrame:
        """The view of each group and epoch, as whoever is first in the trace entered it, and how often it was; or,
        where nobody did, as one that is out learnt of it."""
        first = F.min_by(F.struct("members", "voters", NODE, INC, EV), F.struct("told", NODE, INC, EV))
        entered = self.view_rows.drop(LIFE, DESTS).withColumn("told", F.lit(False))
        return self.keep(
            entered.unionByName(self.outside_rows.withColumn("told", F.lit(True))).groupBy(RUN_ID, GRP, EPOCH)
            .agg(first.alias("first"), F.count_if(~F.col("told")).alias("entries"))
            .select(RUN_ID, GRP, EPOCH, "first.*", "entries")
        )  # fmt: skip

    @cached_property
    def latest(self) -> DataFrame:
        """The latest view of each group that anybody entered, or learnt of when it was out."""
        last = F.max_by(F.struct(EPOCH, "members", "voters"), EPOCH)
        return self.views.groupBy(RUN_ID, GRP).agg(last.alias("last")).select(RUN_ID, GRP, "last.*")

    @property
    def _known(self) -> DataFrame:
        """The latest view of each group that somebody entered, or learnt of when it was out, whose process is up; and
        who of it is up."""
        up = self.members.filter("up").join(F.broadcast(self.away), list(PROCESS), "left_anti")
        entered = self.view_rows.join(F.broadcast(up.select(*PROCESS)), list(PROCESS), "left_semi")
        told = self.outside_rows.join(F.broadcast(up.select(RUN_ID, NODE).distinct()), [RUN_ID, NODE], "left_semi")
        rows = entered.select(RUN_ID, GRP, EPOCH).unionByName(told.select(RUN_ID, GRP, EPOCH))
        last = rows.groupBy(RUN_ID, GRP).agg(F.max(EPOCH).alias(EPOCH))
        known = last.join(self.views, [RUN_ID, GRP, EPOCH])
        known = known.select(RUN_ID, GRP, F.col(EPOCH).alias("known"), "members", "voters")
        there = up.filter("back and not (ended or moved_on)").join(self.in_views, [*PROCESS, GRP])
        there = there.join(known.select(RUN_ID, GRP, F.col("known").alias(EPOCH)), [RUN_ID, GRP, EPOCH], "left_semi")
        there = there.groupBy(RUN_ID, GRP).agg(F.collect_set(NODE).alias("there"))
        judged = known.join(there, [RUN_ID, GRP], "left").withColumn("may_decide", _is_quorum())
        return judged.select(RUN_ID, GRP, "known", "may_decide")

    @cached_property
    def in_views(self) -> DataFrame:
        """Which membership is in which view: a process is the first member that the view has of it."""
        each = self.views.select(RUN_ID, GRP, EPOCH, F.posexplode("members").alias("nth", "member"))
        named = each.groupBy(RUN_ID, GRP, EPOCH, F.col("member.pid").alias(NODE)).agg(
            F.min_by(F.col("member.seq"), "nth").alias(JOINED)
        )
        return self.keep(self.members.join(named, [RUN_ID, GRP, NODE, JOINED]).select(*PROCESS, GRP, EPOCH))

    # --- who stays, and whether the group goes on ---

    @cached_property
    def staying(self) -> DataFrame:
        """The members of the latest view of their group that are up at the end and did not end, or closed the group as
        its last ones."""
        latest = self.in_views.join(
            self.latest.select(RUN_ID, GRP, EPOCH, F.size("members").alias("size")), [RUN_ID, GRP, EPOCH]
        )
        closed = (
            (F.col("out.reason") == LEFT) & (F.col(f"out.{EPOCH}") == F.col(EPOCH)) & (F.col("size") == 1)
        )  # the last one names the view that it was alone in
        known = self.members.join(latest, [*PROCESS, GRP])
        here = F.col("up") & ~F.col("moved_on") & (~F.col("ended") | F.coalesce(closed, F.lit(False)))
        return self.keep(known.filter(here).drop(EPOCH))

    @cached_property
    def judged(self) -> DataFrame:
        """Who stays; and of a group that was closed, all who left it by themselves, judged up to their end."""
        closed = self.staying.filter("ended").select(RUN_ID, GRP).distinct()
        left = self.members.filter(F.col("out.reason") == LEFT).join(F.broadcast(closed), [RUN_ID, GRP])
        others = left.join(self.staying.select(*PROCESS), list(PROCESS), "left_anti")
        return self.keep(self.staying.select(*self.members.columns).unionByName(others.select(*self.members.columns)))

    @cached_property
    def closings(self) -> DataFrame:
        """The members with a journal that closed their group in order, did not leave it, and are not back; `closed_at`
        in true time. `away`: somebody else published after that, or nobody can say, and it counts as down."""
        at = place(F.col(INC), F.col(EV))
        told = self.rows_of(Kind.NOTE).filter(F.col(REASON) == CLOSED).withColumn("closed", at)
        told = told.select(RUN_ID, NODE, F.col(GRP).alias(GROUP), "closed", T_TRUE)
        last = told.groupBy(RUN_ID, NODE, GROUP).agg(
            F.max("closed").alias("closed"), F.max_by(T_TRUE, "closed").alias("closed_at")
        )
        done = self.steps.filter(~is_kind(*_TAKES) & ~F.col("beyond")).withColumn("done", at)
        done = done.groupBy(*PROCESS).agg(F.max("done").alias("done"))
        here = self.members.filter("durable and up and not (ended or moved_on)").select(*PROCESS, GRP)
        known = here.join(F.broadcast(self.groups.select(RUN_ID, GRP, GROUP)), [RUN_ID, GRP])
        known = known.join(F.broadcast(last), [RUN_ID, NODE, GROUP]).join(F.broadcast(done), list(PROCESS), "left")
        known = known.filter(F.col("done").isNull() | (F.col("done") < F.col("closed")))
        known = self.keep(known.select(*PROCESS, GRP, "closed_at"))
        others = self.publications.groupBy(RUN_ID, GRP, "p_node", "p_life").agg(
            F.max("published_at").alias("last"), F.bool_or(F.col("published_at").isNull()).alias("untimed")
        )
        later = F.coalesce(F.col("untimed") | (F.col("last") > F.col("closed_at")), F.lit(True))
        another = (F.col("p_node") != F.col(NODE)) | (F.col("p_life") != F.col(LIFE))
        away = known.join(others, [RUN_ID, GRP]).filter(another & later).select(*PROCESS).distinct()
        away = away.withColumn("away", F.lit(True))
        known = known.join(F.broadcast(away), list(PROCESS), "left")
        return self.keep(known.withColumn("away", F.coalesce("away", F.lit(False))))

    @property
    def away(self) -> DataFrame:
        """Who closed the group and counts as down."""
        return self.closings.filter("away").select(*PROCESS)

    @cached_property
    def standing(self) -> DataFrame:
        """Why each group may stand still (`standstill`), whom it waits for (`awaited`), and that its last member closed
        it, so that nobody is let in (`closed`); null where it must go on.

        No quorum of the latest view is up; nobody that is up knows it, and no quorum of the latest that somebody knows
        is; or nobody has what a change needs, and only an operator can help. With
        journals nobody is removed for being down, and the group may wait for a member of its latest view; or for one
        that an operator forced into another generation, and that has ended there.
        """
        away = self.away.withColumn("away", F.lit(True))
        here = self.staying.join(F.broadcast(away), list(PROCESS), "left")
        is_there = F.col("back") & F.col("away").isNull()
        up = here.groupBy(RUN_ID, GRP).agg(
            F.collect_set(F.when(is_there, F.col(NODE))).alias("there"), F.bool_or("ended").alias("has_ended")
        )
        helpless = (
            self.rows_of(Kind.NOTE)
            .filter(F.col(REASON) == UNSUPPLIABLE)
            .select(RUN_ID, F.col(GRP).alias(GROUP))
            .distinct()
        ).withColumn("helpless", F.lit(True))
        waited_for = self._waited_for.groupBy(RUN_ID, GRP).agg(F.min(F.struct(NODE, "how")).alias("away"))
        known = (
            self.groups.join(self.latest, [RUN_ID, GRP], "left").join(up, [RUN_ID, GRP], "left")
            .join(helpless, [RUN_ID, GROUP], "left").join(waited_for, [RUN_ID, GRP], "left")
            .join(self._known, [RUN_ID, GRP], "left").join(self.runs.select(RUN_ID, "keeps_own"), RUN_ID)
        )  # fmt: skip
        name = text("group '", F.col(GRP), "'")
        standstill = (
            F.when(F.col(EPOCH).isNull(), text("nobody recorded a view of ", name))
            .when(
                ~_is_quorum(),
                text(name, " is blocked: no quorum of its latest view, ", view_name(F.col(EPOCH)), ", is up"),
            )
            .when(
                (F.col("known") != F.col(EPOCH)) & ~F.col("may_decide"),
                text(
                    name,
                    " is blocked: nobody that is up knows its latest view, ",
                    view_name(F.col(EPOCH)),
                    ", and no quorum of the one before, ",
                    view_name(F.col("known")),
                    ", is up",
                ),
            )
            .when(
                F.col("keeps_own") & F.col("helpless"),
                text(name, " waits for an operator: nobody has what its next view needs"),
            )
        )
        awaited = F.when(
            F.col("away").isNotNull(),
            text(name, " waits for process ", F.col(f"away.{NODE}"), F.col("away.how")),
        )
        closed = F.when(F.col("has_ended"), text(name, " has ended: its last member closed it"))
        return self.keep(
            known.select(
                RUN_ID, GRP, standstill.alias("standstill"), awaited.alias("awaited"), closed.alias("closed")
            )
        )  # fmt: skip

    @property
    def _waited_for(self) -> DataFrame:
        """The members of latest views that are down or away, or went on in another generation and are gone."""
        latest = self.in_views.join(self.latest.select(RUN_ID, GRP, EPOCH), [RUN_ID, GRP, EPOCH])
        inside = self.members.join(latest.select(*PROCESS, GRP), [*PROCESS, GRP], "left_semi")
        inside = inside.filter("durable")
        down = inside.filter(~F.col("up")).select(RUN_ID, GRP, NODE, F.lit(_DOWN).alias("how"))
        away = inside.join(F.broadcast(self.away), list(PROCESS), "left_semi")
        down = down.unionByName(away.select(RUN_ID, GRP, NODE, F.lit(_AWAY).alias("how")))
        if not self.has_generations:
            return down
        names = F.broadcast(self.groups.select(RUN_ID, GRP, GROUP))
        over = self.members.filter(F.col("ended") | ~F.col("up")).join(names, [RUN_ID, GRP])
        over = over.select(RUN_ID, NODE, GROUP, F.col(GRP).alias("elsewhere"))
        moved = inside.filter(F.col("up") & F.col("moved_on")).join(names, [RUN_ID, GRP])
        gone = moved.join(over, [RUN_ID, NODE, GROUP]).filter(F.col("elsewhere") != F.col(GRP))
        gone = gone.select(RUN_ID, GRP, NODE, F.lit(_FORCED).alias("how"))
        return union([down, gone, self._gone_on_without])

    @property
    def _gone_on_without(self) -> DataFrame:
        """The processes that a forced generation names, and that were out before they could hear of it: another view
        removed them, or they had entered a later one than it was forced from."""
        names = F.broadcast(self.groups.select(RUN_ID, GRP, GROUP))
        entered = self.view_rows.groupBy(*PROCESS).agg(F.max(EPOCH).alias("entered"))
        out = self.members.filter(F.col("durable") & F.col("out").isNotNull()).join(names, [RUN_ID, GRP])
        out = out.join(entered, list(PROCESS), "left").select(
            RUN_ID, NODE, GROUP, "entered", line_of(F.col(f"out.{EPOCH}")).alias("by")
        )
        each = self.latest.select(RUN_ID, GRP, F.explode("members").alias("member")).join(names, [RUN_ID, GRP])
        each = each.select(RUN_ID, GRP, GROUP, F.col("member.pid").alias(NODE))
        lines = F.broadcast(self.lines.select(RUN_ID, GROUP, GRP, LINE))
        told = self.rows_of(Kind.NOTE).filter(F.col(REASON) == FORCED)
        told = told.select(RUN_ID, F.col(GRP).alias(GROUP), line_of(F.col(EPOCH)).alias(LINE), VALUE)
        since = told.join(lines, [RUN_ID, GROUP, LINE]).groupBy(RUN_ID, GRP).agg(F.min(VALUE).alias("since"))
        found = each.join(lines, [RUN_ID, GROUP, GRP]).join(out, [RUN_ID, NODE, GROUP])
        found = found.join(F.broadcast(since), [RUN_ID, GRP], "left")
        passed = (F.col("by") != F.col(LINE)) | F.coalesce(F.col("entered") > F.col("since"), F.lit(False))
        strangers = found.filter(passed).join(self.members.select(RUN_ID, GRP, NODE), [RUN_ID, GRP, NODE], "left_anti")
        return strangers.select(RUN_ID, GRP, NODE, F.lit(_WITHOUT).alias("how")).distinct()

    # --- events ---

    @cached_property
    def until(self) -> DataFrame:
        """Until when, in true time, publications count: AFTER_ALL for all of them, null where nobody can say. Where the
        run has phases also from when on, and within how long, what they publish must come."""
        untimed = self.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()
        known = self.runs.join(untimed.withColumn("untimed", F.lit(True)), RUN_ID, "left")
        phased = F.col("live_until").isNotNull() & F.col("untimed").isNull()
        return self.keep(
            known.select(
                RUN_ID,
                F.when(phased, F.col("live_until")).when(F.col("expects_all"), F.lit(AFTER_ALL)).alias("until"),
                F.when(phased, F.col("live_from")).alias("owed_from"),
                F.when(phased, F.col("deadline_ns")).alias("owed_within"),
            )
        )

    @cached_property
    def homeless(self) -> DataFrame:
        """The events published in views that nobody recorded."""
        return self.published.join(self.views.select(RUN_ID, GRP, EPOCH), [RUN_ID, GRP, EPOCH], "left_anti")

    @cached_property
    def sequences(self) -> DataFrame:
        """What each member was handed, with its place there."""
        line = Window.partitionBy(*PROCESS).orderBy(*PLACE)
        return self.keep(
            self.delivered.select(*PROCESS, GRP, EVENT, INC, EV, (F.row_number().over(line) - 1).alias(AT))
        )

    @cached_property
    def sequences_before(self) -> DataFrame:
        """The same without what a process that went on in another generation was handed from there on, or in the very
        step in which it went."""
        if not self.has_generations:
            return self.sequences
        moved = self.members.filter("moved_on")
        went = moved.select(*PROCESS, GRP).join(departures(moved, self.view_rows, self.lines), [RUN_ID, NODE, GRP])
        entered = self.steps_of(Kind.VIEW).select(
            RUN_ID, NODE, place(F.col(INC), F.col(EV)).alias("left_at"), F.struct(INC, T_CLK).alias("step")
        )
        went = went.select(*PROCESS, "left_at").join(F.broadcast(entered), [RUN_ID, NODE, "left_at"]).distinct()
        handed = self.steps_of(Kind.DELIVER).select(*PROCESS, INC, EV, T_CLK)
        known = self.sequences.join(handed, [*PROCESS, INC, EV], "left").join(F.broadcast(went), list(PROCESS), "left")
        is_same = (F.col(INC) == F.col(f"step.{INC}")) & (F.col(T_CLK) == F.col(f"step.{T_CLK}"))
        before = (place(F.col(INC), F.col(EV)) < F.col("left_at")) & ~F.coalesce(is_same, F.lit(False))
        return self.keep(known.filter(F.col("left_at").isNull() | before).drop("left_at", "step", T_CLK))

    @cached_property
    def effective(self) -> DataFrame:
        """The events that took effect: a member that is judged was handed it, or published it."""
        here = self.judged.select(*PROCESS)
        return self.keep(
            self.delivered.join(F.broadcast(here), list(PROCESS)).select(RUN_ID, EVENT)
            .unionByName(self.published.join(F.broadcast(here), list(PROCESS)).select(RUN_ID, EVENT))
            .distinct()
        )  # fmt: skip

    @cached_property
    def last_epochs(self) -> DataFrame:
        """The epoch of the last view that each membership is in."""
        return self.keep(self.in_views.groupBy(*PROCESS).agg(F.max(EPOCH).alias("last_epoch")))

    @cached_property
    def owed(self) -> DataFrame:
        """The same without what was published after the member had closed the group."""
        if not self.has_closings:
            return self.meant
        closed = F.broadcast(self.closings.select(*PROCESS, "closed_at"))
        known = self.meant.join(closed, list(PROCESS), "left")
        later = F.coalesce(F.col("published_at") > F.col("closed_at"), F.lit(False))
        return self.keep(known.filter(~later).drop("closed_at"))

    @cached_property
    def has_closings(self) -> bool:
        """Whether anybody closed its group and is a member still."""
        return bool(self.closings.limit(1).count())

    @cached_property
    def meant(self) -> DataFrame:
        """The events published in views of the members that are judged, one row for each of the two. To who left only
        those of members that were out before it: of others it need not have got the last.

        Columns of the publication are `p_node`, `p_life`, `p_inc`, `p_ev`, `published_at`; others are the member's.
        """
        there = self.judged.join(self.last_epochs, list(PROCESS)).join(self.in_views, [*PROCESS, GRP])
        gone = self.last_epochs.withColumnsRenamed({NODE: "p_node", LIFE: "p_life", "last_epoch": "p_last"})
        pairs = self.publications.join(F.broadcast(there), [RUN_ID, GRP, EPOCH])
        pairs = pairs.join(F.broadcast(gone), [RUN_ID, "p_node", "p_life"], "left")
        is_own = (F.col("p_node") == F.col(NODE)) & (F.col("p_life") == F.col(LIFE))
        before = F.coalesce("p_last", F.lit(0)) < F.col("last_epoch")
        return self.keep(pairs.filter(~F.col("ended") | is_own | before))

    @cached_property
    def publications(self) -> DataFrame:
        """Every event, with its publisher under names of its own."""
        renamed = {NODE: "p_node", LIFE: "p_life", INC: "p_inc", EV: "p_ev", T_TRUE: "published_at"}
        named = self.published.withColumnsRenamed(renamed)
        return named.select(
            RUN_ID, GRP, EPOCH, EVENT, "m_pid", "m_inc", "m_seq", "rank", *renamed.values(),
        )  # fmt: skip


def _members() -> Column:
    none = F.array().cast("array<struct<pid:int,inc:int,seq:bigint>>")
    return F.coalesce(IDS, none).alias("members")


def _is_quorum() -> Column:
    """Return whether those who are there can decide the next view: a voter weighs 2, the first of an even number 3."""
    there = F.coalesce(F.col("there"), F.array().cast("array<int>"))
    numbered = F.transform("members", lambda member, at: F.struct(member["pid"].alias("pid"), at.alias("at")))
    voters = F.filter(
        numbered,
        lambda each: F.when(F.col("voters").isNull(), each["at"] < VOTERS_MAX).otherwise(
            F.call_function("shiftright", F.col("voters"), each["at"]).bitwiseAND(F.lit(1)) == 1
        ),
    )
    even = (F.size(voters) > 0) & (F.size(voters) % 2 == 0)
    first = F.array_contains(there, F.get(voters, F.lit(0))["pid"])
    total = 2 * F.size(voters) + F.when(even, 1).otherwise(0)
    up = 2 * F.size(F.filter(voters, lambda each: F.array_contains(there, each["pid"])))
    return 2 * (up + F.when(even & first, 1).otherwise(0)) > total
