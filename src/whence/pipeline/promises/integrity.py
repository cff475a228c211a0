"""Integrity: what is delivered was published before, as it was, in this group, and was meant for this member."""

from whence.pipeline.columns import EVENT, PROCESS, message, place, text, union, violations, what, who
from whence.pipeline.deliveries import RunTables, stays_by_process, with_memory
from whence.pipeline.frames import Column, DataFrame, F
from whence.trace.schema import EV, GRP, INC, M_INC, M_PID, NODE, PAYLOAD_BYTES, PAYLOAD_CRC, T_TRUE

PROMISE = "integrity"


def integrity_violations(tables: RunTables) -> DataFrame:
    """Return what was published twice, in another's name, delivered unpublished, or delivered not as published."""
    return union([_taken_again(tables), _with_foreign_id(tables), _unpublished(tables), _wrong_deliveries(tables)])


def _taken_again(tables: RunTables) -> DataFrame:
    sentence = text(what(), " was published a second time, by ", who())
    reported_again = (F.col(NODE) == F.col("first_node")) & (F.col(INC) != F.col("first_inc"))  # around a crash
    return violations(
        tables.republished, PROMISE, sentence, events=F.array(message()), evs=F.array(EV), absence=reported_again
    )  # fmt: skip


def _with_foreign_id(tables: RunTables) -> DataFrame:
    wrong = (F.col(NODE) != F.col(M_PID)) | ((F.col(INC) != F.col(M_INC)) & ~F.col("durable"))
    published = with_memory(tables.runs, tables.published)
    sentence = text(who(), " published ", what(), ": an event with the id of another process")
    return violations(published.filter(wrong), PROMISE, sentence, events=F.array(message()), evs=F.array(EV))


def _unpublished(tables: RunTables) -> DataFrame:
    rows = tables.deliver_rows.filter(F.col(EVENT).isNull())
    sentence = text(who(), " delivered ", what(), ", which nobody published in group '", F.col(GRP), "'")
    return violations(rows, PROMISE, sentence, events=F.array(message()), evs=F.array(EV), absence=True)


def _wrong_deliveries(tables: RunTables) -> DataFrame:
    rows = tables.delivered.join(F.broadcast(stays_by_process(tables)), [*PROCESS, GRP], "left")
    here = place(F.col(INC), F.col(EV))
    belongs = F.exists("stays", lambda stay: (stay["first"] <= here) & (here <= stay["last"]))
    strange = ~F.coalesce(F.array_contains("o_dests", F.col(NODE)), F.lit(True))
    outside = ~F.coalesce(belongs, F.lit(False))
    too_early = F.col(T_TRUE) < F.col(f"o_{T_TRUE}")
    wrong = (
        F.when(strange, F.lit("which was not addressed to it"))
        .when(outside, text("and is no member of group '", F.col(GRP), "' at that point"))
        .when(too_early, F.lit("before it was published"))
        .when(_differs(PAYLOAD_CRC), _changed(PAYLOAD_CRC, "checksum"))
        .when(_differs(PAYLOAD_BYTES), _changed(PAYLOAD_BYTES, "bytes"))
    )
    found = rows.withColumn("wrong", wrong).filter(F.col("wrong").isNotNull())
    sentence = text(who(), " delivered ", what(), ", ", F.col("wrong"))
    is_outside = ~strange & outside
    return violations(found, PROMISE, sentence, events=F.array(message()), evs=F.array(EV), absence=is_outside)


def _differs(name: str) -> Column:
    return F.col(name) != F.col(f"o_{name}")


def _changed(name: str, word: str) -> Column:
    return text(f"with {word} ", F.col(name), " where ", F.col(f"o_{name}"), " was published")
