"""Verdicts about living runs: one for each run and promise, with the number of violations and a sentence.

What verdicts rest on is a few rows for each run, however many events it has. They are collected, and the rest is plain
Python: as columns, the sentences of all promises would be one plan that takes longer to think through than to
carry out.
"""

from typing import Any, NamedTuple

from whence.check.expected import NO_PHASES
from whence.check.verdict import Outcome, counted
from whence.pipeline.columns import DOUBTFUL, EVS, PROMISE, RUN_ID, SENTENCE
from whence.pipeline.frames import DataFrame, F
from whence.pipeline.living import arrival, integrity, sequences
from whence.pipeline.living.promise_tables import JUDGEMENTS, LivingPromiseTables, stakes
from whence.pipeline.verdicts import Told
from whence.trace.schema import INC, NODE

NOT_SET = "the group does not promise it: it runs without `uniform`"


class _Found(NamedTuple):
    """What speaks against a promise of a run: violations and the first one's sentence, and doubts in words."""

    violations: int = 0
    first: str = ""
    doubts: tuple[str, ...] = ()


def living_verdicts(tables: LivingPromiseTables, violations: DataFrame) -> list[Told]:
    """Return one verdict per run and promise."""
    found, at_stake = _found(violations), stakes(tables)
    incomplete = _by_run(tables.incomplete, "incomplete")
    timed = _by_run(arrival.timed_runs(tables), RUN_ID)
    unplaced = _by_run(tables.homeless.groupBy(RUN_ID).agg(F.count("*").alias("unplaced")), "unplaced")
    told = []
    for run in tables.runs.select(RUN_ID, "uniform", "promises").collect():
        run_id = run[RUN_ID]
        for promise in run["promises"]:
            against = found.get((run_id, promise), _Found())
            number, holds = at_stake.get((run_id, promise), (0, ""))
            if promise == arrival.LIVENESS and run_id not in timed:
                told.append(Told(run_id, promise, Outcome.UNKNOWN, 0, NO_PHASES))
            elif promise == sequences.UNIFORM and not run["uniform"]:
                told.append(Told(run_id, promise, Outcome.VACUOUS, 0, NOT_SET))
            elif against.violations:
                more = f" (and {against.violations - 1} more)" if against.violations > 1 else ""
                told.append(Told(run_id, promise, Outcome.BROKEN, against.violations, against.first + more))
            elif run_id in incomplete:
                told.append(Told(run_id, promise, Outcome.UNKNOWN, 0, incomplete[run_id]))
            elif against.doubts:
                told.append(Told(run_id, promise, Outcome.UNKNOWN, 0, "; ".join(sorted(against.doubts))))
            elif not number:
                told.append(Told(run_id, promise, Outcome.VACUOUS, 0, JUDGEMENTS[promise].nothing))
            elif promise == integrity.PROMISE and run_id in unplaced:
                events = counted(unplaced[run_id], "event was", "events were")
                sentence = f"nobody recorded the view that {events} published in"
                told.append(Told(run_id, promise, Outcome.UNKNOWN, 0, sentence))
            else:
                told.append(Told(run_id, promise, Outcome.HOLDS, 0, holds))
    return told


def _found(violations: DataFrame) -> dict[tuple[str, str], _Found]:
    """Return what speaks against each promise of each run; violations are counted together, doubts by their words."""
    doubt = F.when(F.col(DOUBTFUL), F.col(SENTENCE)).alias("doubt")
    first = F.min(F.struct(NODE, INC, EVS, SENTENCE))[SENTENCE].alias("first")
    found: dict[tuple[str, str], _Found] = {}
    for row in violations.groupBy(RUN_ID, PROMISE, doubt).agg(F.count("*").alias("count"), first).collect():
        cell = (row[RUN_ID], row[PROMISE])
        so_far = found.get(cell, _Found())
        if row["doubt"] is None:
            found[cell] = so_far._replace(violations=row["count"], first=row["first"])
        else:
            said = f"{counted(row['count'], 'case')} cannot be judged: {row['doubt']}"
            found[cell] = so_far._replace(doubts=(*so_far.doubts, said))
    return found


def _by_run(table: DataFrame, column: str) -> dict[str, Any]:
    return {row[RUN_ID]: row[column] for row in table.collect()}
