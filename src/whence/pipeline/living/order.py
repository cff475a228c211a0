"""Causal order and open, over views: judged on happened-before that is rebuilt here, one run at a time.

Causal: who is handed an event has been handed everything it follows that was published in a view it is in. To be handed
an effect and its cause later is wrong whatever the views were. A joiner of a strict group begins somewhere in the
sequence, and a cause that never came to it is judged there. What those published that an operator left out of the next
generation, and that never came to one that went on there, is lost by right.

Open: what is published after `open()` returned at a joiner, and what follows anything that it was handed or published,
is published in an epoch that is not below the one that added it, and is handed to it if it stays. Everything that a
publisher published after an event that follows something follows it too: so per joiner and publisher one number tells
which events follow what the joiner knows, and the rest are joins.

Only happened-before takes Python: one look at the vector of every delivery's past.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from whence.pipeline.agreed_times import agreed_times
from whence.pipeline.closure import Process
from whence.pipeline.columns import (
    DOUBTFUL,
    EVENT,
    LIFE,
    PROCESS,
    RANK,
    RUN_ID,
    SENTENCE,
    VIOLATIONS,
    counted,
    message,
    renewed,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.frames import DataFrame, F
from whence.pipeline.living.followers import FROM, PUBLISHER, followers
from whence.pipeline.living.generations import which
from whence.pipeline.living.memberships import JOINED
from whence.pipeline.living.owed import doubts, missing
from whence.pipeline.living.tables import LivingTables
from whence.pipeline.owed import TIMES
from whence.pipeline.promises import causal
from whence.pipeline.slices import SLICE
from whence.trace.schema import EPOCH, EV, GRP, INC, NODE, T_TRUE

CAUSAL, OPEN, INTEGRITY = "causal", "open", "integrity"
NOTHING = {
    CAUSAL: "nobody delivered anything that follows something else",
    OPEN: "nothing took effect after somebody joined",
}
HOLDS = "every event was delivered after everything it follows"
UNPLACED = "a cause never came, and nobody recorded the view it was published in"
NO_TIME = "the rows have no true time, and it is unknown whether it was published before or after `open()` returned"

_CLOSED = pa.schema([*causal.SHAPE, (LIFE, pa.int32()), ("p_node", pa.int32()), ("p_life", pa.int32()),
                     ("from_rank", pa.int64())])  # fmt: skip
_CLOSED_DDL = f"{VIOLATIONS}, {LIFE} int, p_node int, p_life int, from_rank bigint"


class Closed(NamedTuple):
    """What happened-before tells of runs."""

    violations: DataFrame
    """Of causal order, and of integrity where rows have no time."""
    followed: DataFrame
    """From which event of which publisher on everything follows something that a joiner was handed or published."""


def closed_runs(tables: LivingTables) -> Closed:
    """Return what happened-before tells of each run; large runs that have times that agree are cut into slices."""
    asked = tables.runs.select(RUN_ID, "promises")
    if not tables.is_large:
        return _split(tables.keep(_in_whole_runs(tables, asked)))
    times, agreed = agreed_times(tables, asked.select(RUN_ID))
    cut = F.col(RUN_ID).isin(sorted(agreed))
    whole = _split(tables.keep(_in_whole_runs(tables, asked.filter(~cut))))
    # In a time that agrees, nothing was handed to anybody before it was published: integrity needs no look.
    found = _in_slices(tables, asked.filter(cut & F.array_contains("promises", F.lit(CAUSAL))), times)
    followed = followers(tables, asked.filter(cut & F.array_contains("promises", F.lit(OPEN))).select(RUN_ID))
    return Closed(
        tables.keep(whole.violations.unionByName(found)), tables.keep(whole.followed.unionByName(followed))
    )  # fmt: skip


def _split(closed: DataFrame) -> Closed:
    """Return what was found in whole runs: where `promise` is null, what follows what joiners know."""
    return Closed(
        closed.filter("promise is not null").select(*causal.SHAPE.names),
        closed.filter("promise is null").select(*PROCESS, *PUBLISHER, FROM),
    )


def _in_whole_runs(tables: LivingTables, asked: DataFrame) -> DataFrame:
    steps = causal.step_table(tables).join(F.broadcast(asked), RUN_ID)
    about = _about(tables).join(F.broadcast(asked.select(RUN_ID)), RUN_ID)
    return steps.groupBy(RUN_ID).cogroup(about.groupBy(RUN_ID)).applyInArrow(_closed, _CLOSED_DDL)


def _in_slices(tables: LivingTables, asked: DataFrame, times: DataFrame) -> DataFrame:
    """Return the violations of causal order in large runs that have times that agree."""
    steps, found = causal.steps_of_slices(tables, asked, times, _debts(tables, asked.select(RUN_ID)))
    about = _about(tables).join(F.broadcast(renewed(found.select(RUN_ID, SLICE).distinct())), RUN_ID)
    judged = (
        steps.groupBy(RUN_ID, SLICE).cogroup(about.groupBy(RUN_ID, SLICE)).applyInArrow(_closed_slice, causal.SLICED)
    )
    return causal.first_effects(judged).select(*causal.SHAPE.names)


def _about(tables: LivingTables) -> DataFrame:
    """Return who is in which view; and, without a member, the views that somebody recorded."""
    inside = tables.members.select(*PROCESS, GRP, "late", "is_joiner", "moved_on").join(
        F.broadcast(tables.in_views), [*PROCESS, GRP], "left"
    )
    recorded = tables.views.select(
        RUN_ID, *(F.lit(None).cast("int").alias(name) for name in (NODE, LIFE)), GRP,
        *(F.lit(None).cast("boolean").alias(name) for name in ("late", "is_joiner", "moved_on")), EPOCH,
    )  # fmt: skip
    return renewed(inside.unionByName(recorded))


def _debts(tables: LivingTables, runs: DataFrame) -> DataFrame:
    """Return, with every member that lacks it, what was published in views that it is in, or that nobody recorded."""
    runs = F.broadcast(runs)
    publisher = {name: f"o_{name}" for name in (NODE, LIFE, INC, EV)}
    events = tables.published.join(runs, RUN_ID).select(RUN_ID, GRP, EPOCH, EVENT, *publisher)
    inside = renewed(tables.in_views.join(runs, RUN_ID))
    sizes = inside.groupBy(RUN_ID, GRP, EPOCH).agg(F.count("*").alias(TIMES))
    owed = events.join(F.broadcast(sizes), [RUN_ID, GRP, EPOCH]).select(RUN_ID, EVENT, TIMES)
    is_own = (F.col(NODE) == F.col(f"o_{NODE}")) & (F.col(LIFE) == F.col(f"o_{LIFE}"))
    came = tables.delivered.filter(~is_own).join(runs, RUN_ID)
    came = came.select(*PROCESS, GRP, EVENT, F.col(f"o_{EPOCH}").alias(EPOCH))
    there = events.select(*PROCESS, GRP, EVENT, EPOCH).unionByName(came)
    has = there.join(F.broadcast(inside), [*PROCESS, GRP, EPOCH], "left_semi")
    lacked = causal.lacking_events(tables, events, owed, has).withColumnsRenamed(publisher)
    homeless = tables.homeless.join(runs, RUN_ID).select(*events.columns).withColumnsRenamed(publisher)
    members = F.broadcast(renewed(tables.members.select(*PROCESS, GRP)))
    missed = lacked.join(F.broadcast(inside), [RUN_ID, GRP, EPOCH])
    missed = missed.unionByName(homeless.join(members, [RUN_ID, GRP]))
    return missed.join(there.select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")


class _LivingRun(causal.ClosedRun):
    """A run, and who is in which view."""

    def __init__(self, steps: pa.Table, about: pa.Table) -> None:
        super().__init__(steps)
        self.recorded: set[tuple[str, int]] = set()
        self.views: dict[Process, set[int]] = {}
        self.late: dict[Process, bool] = {}
        self.grp: dict[Process, str] = {}
        self.joiners: list[Process] = []
        self.moved: set[Process] = set()
        self.publisher = {step.event: who for who, line in self.lines.items() for step in line if step.is_publish}
        names = (NODE, LIFE, GRP, "late", "is_joiner", "moved_on", EPOCH)
        for node, life, grp, late, is_joiner, moved_on, epoch in zip(
            *(about.column(name).to_pylist() for name in names), strict=True
        ):
            if node is None:
                self.recorded.add((grp, epoch))
                continue
            process = (node, life)
            if process not in self.views and is_joiner:
                self.joiners.append(process)
            self.views.setdefault(process, set()).add(epoch)
            self.late[process], self.grp[process] = late, grp
            if moved_on:
                self.moved.add(process)

    def is_expected(self, event: int, process: Process) -> bool | None:
        """Return whether an event that never came to a member is of a view it is in; None: nobody recorded the view."""
        row = self.published[event]
        if row.grp != self.grp[process]:
            return False
        if process in self.moved and self.publisher[event] not in self.moved:
            return False
        if row.epoch is None or (row.grp, row.epoch) not in self.recorded:
            return None
        return not self.late[process] and row.epoch in self.views[process]

    def followed(self) -> Iterator[dict[str, Any]]:
        """Yield, for each joiner and publisher, the first event that follows something the joiner knows."""
        closure = self.closure
        publishers = {closure.slot[step.event]: who for who, line in self.lines.items() for step in line
                      if step.is_publish}  # fmt: skip
        for joiner in sorted(self.joiners):
            known: dict[int, int] = {}
            for step in self.lines.get(joiner, ()):
                slot, place = closure.slot[step.event], closure.place[step.event]
                known[slot] = min(known.get(slot, place), place)
            for slot, (p_node, p_life) in publishers.items():
                events = closure.of_slot[slot]
                first = bisect_left(
                    events, True,
                    key=lambda event: any(closure.past[event][at] > place for at, place in known.items()),
                )  # fmt: skip
                if first < len(events):
                    yield {NODE: joiner[0], LIFE: joiner[1], "p_node": p_node, "p_life": p_life, "from_rank": first}


def _closed(steps: pa.Table, about: pa.Table) -> pa.Table:
    """Close one run."""
    if not steps.num_rows:
        return _CLOSED.empty_table()
    run_id, promises = steps.column(RUN_ID)[0].as_py(), steps.column("promises")[0].as_py()
    run = _LivingRun(steps, about)
    found: list[dict[str, Any]] = []
    if CAUSAL in promises:
        found += causal.lacking(run)
    if INTEGRITY in promises and any(row.t_true is None for row in run.published.values()):
        found += causal.impossible(run)
    if OPEN in promises:
        found += run.followed()
    return pa.Table.from_pylist([{RUN_ID: run_id} | row for row in found], schema=_CLOSED)


def _closed_slice(steps: pa.Table, about: pa.Table) -> pa.Table:
    """Judge causal order in one slice of a run; each violation with its cause, and where the effect came."""
    if not steps.num_rows:
        return causal.violation_rows([], causal.SLICE_SHAPE)
    run_id = steps.column(RUN_ID)[0].as_py()
    found = [{RUN_ID: run_id} | row for row in causal.lacking(_LivingRun(steps, about))]
    return causal.violation_rows(found, causal.SLICE_SHAPE)


def causal_violations(closed: Closed) -> DataFrame:
    """Return causes that were not there when their effects were delivered, and deliveries before the publication."""
    found = closed.violations
    return found.withColumn(SENTENCE, F.when(F.col(DOUBTFUL), UNPLACED).otherwise(F.col(SENTENCE)))


def followers_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many deliveries each run has of events that follow others."""
    return causal.followers_delivered(tables).select(
        RUN_ID, F.col("followers").alias("at_stake"), F.lit(HOLDS).alias("holds")
    )


# --- open ---


def opened(tables: LivingTables, closed: Closed) -> DataFrame:
    """Return the events that took effect, each with every joiner of the group, and what it is to that one.

    `due`: it was published after `open()` returned at the joiner, or follows what that one knows. `in_doubt`: nobody
    can say. `too_early`: its view is one before the joiner's. `absent`: it is owed to the joiner, which was
    never handed it.
    """
    joiners = tables.members.filter("is_joiner").select(*PROCESS, GRP, INC, JOINED, "live", "strict")
    stays = tables.judged.select(*PROCESS, F.lit(True).alias("stays"))
    events = (
        tables.publications.join(tables.effective, [RUN_ID, EVENT], "left_semi")
        .join(F.broadcast(tables.views), [RUN_ID, GRP, EPOCH], "left_semi")
    )  # fmt: skip
    pairs = events.join(F.broadcast(joiners.join(stays, list(PROCESS), "left")), [RUN_ID, GRP])
    pairs = pairs.filter((F.col("p_node") != F.col(NODE)) | (F.col("p_life") != F.col(LIFE)))
    owed = tables.owed.filter("is_joiner").select(*PROCESS, EVENT, F.lit(True).alias("is_owed"))
    handed = tables.delivered.select(*PROCESS, EVENT, F.lit(True).alias("handed"))
    known = (
        pairs.join(F.broadcast(closed.followed), [*PROCESS, "p_node", "p_life"], "left")
        .join(owed, [*PROCESS, EVENT], "left")
        .join(handed, [*PROCESS, EVENT], "left")
    )
    follows = F.coalesce(F.col(RANK) >= F.col("from_rank"), F.lit(False))
    later = F.when(F.col("live").isNull(), F.lit(False)).otherwise(F.col("published_at") > F.col(f"live.{T_TRUE}"))
    too_early = F.coalesce(F.col(EPOCH) < F.col(JOINED), F.lit(False))
    here, lacks = F.col("stays").isNotNull(), F.col("handed").isNull()
    told = known.withColumns({
        "follows": follows, "too_early": too_early,
        "due": follows | F.coalesce(later, F.lit(False)),
        "in_doubt": later.isNull() & ~follows & too_early & here & lacks,
        "absent": lacks & F.col("is_owed").isNotNull(),
    })  # fmt: skip
    return told.filter("due or in_doubt")


def open_violations(tables: LivingTables, opened: DataFrame) -> DataFrame:
    """Return events that are not for a joiner and should be, and those that it was not handed."""
    why = F.when(F.col("follows"), "follows what it was handed").otherwise("was published later")
    due = opened.filter("due")
    not_for = text(
        what(), " is not for ", who(), ", which joined in ", which(F.col(JOINED)), ": it was published in ",
        which(F.col(EPOCH)), ", and ", why,
    )  # fmt: skip
    early = due.filter("too_early").withColumn(SENTENCE, not_for).withColumns(
        {NODE: F.col("p_node"), INC: F.col("p_inc"), EV: F.col("p_ev")}
    )  # fmt: skip
    wrong = violations(early, OPEN, F.col(SENTENCE), events=F.array(message()), evs=F.array(EV))
    never = text(who(), " was never handed ", what(), ", which ", why, ": it was open by then")
    absent = missing(tables, due.filter("absent and not too_early"), OPEN, never)
    return union([wrong, absent, doubts(opened.filter("in_doubt"), OPEN, NO_TIME)])


def open_at_stake(opened: DataFrame) -> DataFrame:
    """Return how many events each run has that a joiner is owed, or would be."""
    said = text(
        counted(F.count("*"), "event", "events"),
        " published after a joiner was live, or following what it was handed, were for it",
    )
    return opened.filter("due").groupBy(RUN_ID).agg(F.count("*").alias("at_stake"), said.alias("holds"))
