"""The thesis's own format of headers, under the faults that the level is explored with."""

import pytest
from msgspec import structs

from whence.check.verdict import Outcome
from whence.sim.explore import judged
from whence.sim.swarm import draw


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", [11, 13, 16, 18, 33, 301, 302, 303])
def test_the_promises_of_causal_hold_with_the_headers_of_the_thesis(seed: int) -> None:
    """locamu 7.1: random schedules draw the other formats alone, because a user may not have the lab."""
    scenario = draw("causal", seed)
    with_thesis = structs.replace(scenario, settings=scenario.settings | {"spread": "tree", "coding": "thesis"})
    _, verdicts = judged(with_thesis)
    assert [verdict.promise for verdict in verdicts if verdict.outcome is Outcome.BROKEN] == []
    assert any(verdict.holds for verdict in verdicts)
