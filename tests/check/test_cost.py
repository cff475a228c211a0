"""What judging costs: near-linear in the deliveries, so that large runs are judged in seconds."""

import msgspec

from tests.check.trace_builder import TraceBuilder
from whence.check.judge import ORACLES, judge
from whence.check.living.oracles import ONLY_LIVING
from whence.check.verdict import Outcome
from whence.types import EventId


def test_a_run_of_125_processes_and_1000_events_is_judged_by_every_oracle() -> None:
    """125,000 deliveries; half a second on an idle core."""
    builder = TraceBuilder(range(125), level="causal", parameters={"view": "full"})
    builder.phases()
    for number in range(1000):
        builder.broadcast(number * 7 % 125)
    verdicts = judge(builder.trace, ORACLES)
    assert [verdict.promise for verdict in verdicts if verdict.outcome is Outcome.UNKNOWN] == [
        "ticket_coverage",
        "determinism",
    ]
    assert [verdict.promise for verdict in verdicts if verdict.outcome is Outcome.VACUOUS] == [
        "keys",
        "ticket_exclusivity",
        "bounds",
        "views",
        *ONLY_LIVING,
    ]
    assert not [verdict for verdict in verdicts if verdict.outcome is Outcome.BROKEN]


def test_a_verdict_is_plain_json() -> None:
    builder = TraceBuilder()
    builder.deliver(1, EventId(0, 1, 9))
    (verdict,) = judge(builder.trace, ["integrity"])
    plain = msgspec.json.decode(msgspec.json.encode(verdict))
    assert plain["outcome"] == "broken"
    assert plain["violations"][0]["ids"] == [[0, 1, 9]]
