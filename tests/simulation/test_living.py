"""Living groups explored: joins, leaves and removals at once under all faults, none broken; planted bugs found."""

from types import ModuleType

import pytest
from msgspec import structs

from tests.core.views.test_directed import MASKED, STORIES
from whence.check.levels import LIVING, STRICT
from whence.check.verdict import Outcome
from whence.sim.explore import explore, hunt, judged, replayed
from whence.sim.lab import LIVING as KINDS
from whence.sim.lab import kind_of
from whence.sim.leaving import PROMISE as LEAVING
from whence.sim.scenario import Scenario
from whence.sim.shrink import shrink, size_of
from whence.sim.swarm import draw, living
from whence_lab.mutants import find, mutants_of
from whence_lab.mutants.living import changes, exchange, messages, order

pytestmark = pytest.mark.no_cover

SHOWN_IN = {
    ("causal-living", "no_freeze"): 46, ("causal-living", "cut_mine"): 50, ("causal-living", "cut_min"): 14,
    ("causal-living", "no_retention"): 4,
    ("causal-living", "stable_by_got"): 1, ("causal-living", "live_early"): 3,
    ("causal-living", "joiner_takes_old"): 99,
    ("causal-living", "quorum_of_new"): 39,
    ("causal-living", "any_removal"): 84,
    ("causal-living", "publishers_order_only"): 1, ("causal-living", "compares_one_too_few"): 1,
    ("causal-living", "tells_an_old_past"): 1, ("causal-living", "passes_on_without_the_past"): 10,
    ("causal-living", "settles_without_the_silent"): 8, ("causal-living", "takes_duplicates"): 1,
    ("causal-living", "holds_messages_without_bound"): 8, ("causal-living", "forgets_its_own_in_a_crash"): 1,
    ("causal-living", "hands_all_over_again"): 1, ("causal-living", "hands_nothing_over_again"): 1,
    ("causal-living", "not_for_itself"): 1, ("causal-living", "leaves_without_a_word"): 164,
    ("total-strict", "frontier_open_removed"): 2, ("total-strict", "frontier_ignores_condemned"): 10,
    ("total-strict", "promise_without_prefix"): 1, ("total-strict", "start_key_low"): 8,
}  # fmt: skip
"""Where bugs show that random schedules show, so that a hunt in normal mode ends as soon as it begins."""

HELD = [
    *[(kind, seed) for kind in KINDS for seed in (203003, 211039, 84000023)], ("total-strict", 88100164),
    ("causal-living", 88200295), ("total-strict", 89000679), ("total-strict", 89002954),
    *[("causal-living", seed) for seed in (101007196, 101012585, 101014382, 105003627, 151003972)],
    *[(kind, 151008276) for kind in KINDS],
    *[("total-strict", seed) for seed in (161003420, 161013304, 212005005, 222021044, 222024145)],
    ("causal-living", 171000227), ("causal-living", 171006934),
    ("total-strict", 172003884),
    *[("causal-living", seed) for seed in (181004758, 201006808, 201007477, 201007917, 221005320)],
    ("causal-living", 231002799), ("total-strict", 232001272), ("total-strict", 232003525),
    ("total-strict", 242006926), ("total-strict", 242010080), ("total-strict", 242019507),
    ("total-strict", 252002620), ("causal-living", 311001115), ("total-strict", 312001725),
]  # fmt: skip
"""Schedules that an oracle once took for broken promises; three that were too slow, because a forced view was not given
up, or because a freeze kept a member from removing those that it could; one whose newcomer could ask nobody any more;
one whose latest view died with the only member that could decide it;
those that showed traps T48 to T66, and T68; and one whose leaver an impossible removal kept in."""

ALL_HAD_DISKS = 121_000_000
"""Earlier seeds were drawn before members of a group with journals could have none, or be removed unasked."""


NOBODY_LEFT_TOGETHER = 301_000_000
"""Earlier seeds were drawn before several members left within a moment."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_schedule_of_a_living_group_breaks_a_promise(kind: str, long_mode: bool) -> None:
    """40 schedules of each kind, 5,000 in long mode. A group may stand still by right: then a verdict is unknown."""
    schedules = 5_000 if long_mode else 40
    total = explore(kind, schedules, seed=1, workers=1)
    assert total.broken is None
    assert total.schedules == schedules
    assert total.delivered > total.published > schedules


@pytest.mark.parametrize(("kind", "seed"), HELD)
def test_a_schedule_that_was_once_called_broken_is_not(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation that ends tells the other one nothing: what that one waits for is no broken promise. And a joiner
    that begins where the sequence of who stays ends was handed nothing else."""
    if seed < NOBODY_LEFT_TOGETHER:
        monkeypatch.setattr(living, "TOGETHER", 0.0)
    drawn = draw(kind, seed)
    if seed < ALL_HAD_DISKS and drawn.settings["journal"]:  # as it was drawn then
        drawn = structs.replace(drawn, forgetful=[], settings=drawn.settings | {"remove_after_ns": 0})
    assert Outcome.BROKEN not in [verdict.outcome for verdict in judged(drawn)[1]]


def test_members_with_and_without_disks_keep_every_promise_together() -> None:
    """Half of the group has no disk: who loses its memory is removed and comes back as another member."""
    for kind in KINDS:
        mixed = [each for each in (draw(kind, seed) for seed in range(70_000, 70_200)) if each.forgetful]
        for scenario in mixed[:12]:
            outcome, verdicts = judged(scenario)
            assert Outcome.BROKEN not in [verdict.outcome for verdict in verdicts], scenario.seed
            assert {node for node, _ in outcome.trace.run.forgetful} <= set(scenario.forgetful)


@pytest.mark.parametrize(("kind", "name"), SHOWN_IN)
def test_a_planted_bug_is_caught_by_the_promise_it_must_break(kind: str, name: str, long_mode: bool) -> None:
    """And the schedule that shows it shows nothing against the group without the bug."""
    law = find(kind, name).law
    caught = hunt(kind, name, law, 1 if long_mode else SHOWN_IN[kind, name])
    assert caught.caught
    assert caught.seed is not None
    sound = {verdict.promise: verdict.outcome for verdict in judged(draw(kind, caught.seed))[1]}
    assert Outcome.BROKEN not in sound.values()


def test_every_planted_bug_is_shown_by_a_random_schedule_or_a_directed_one_or_is_masked() -> None:
    bugs = {bug.name: bug for kind in KINDS for bug in mutants_of(kind)}
    by_hand = {*MASKED, *[name for name, _ in STORIES]}
    assert {name for name, bug in bugs.items() if bug.directed} <= by_hand
    assert {name for name, bug in bugs.items() if not bug.directed} == {name for _, name in SHOWN_IN}
    assert {bug.law for bug in bugs.values()} <= {*LIVING, *STRICT, LEAVING}


@pytest.mark.parametrize(
    "module", [messages, changes, exchange, order], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_what_a_planted_bug_overrides_is_there(module: ModuleType) -> None:
    """Where the protocol renames a method, the bug must follow, or nothing is planted any more."""
    planted = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    assert planted
    for kind in planted:
        base = kind.__mro__[1]
        assert [name for name, value in vars(kind).items() if callable(value) and not hasattr(base, name)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_is_its_seed_and_its_kind_is_known_by_its_settings(kind: str) -> None:
    scenario = draw(kind, 7)
    assert scenario == draw(kind, 7) != draw(kind, 8)
    assert kind_of(scenario) == kind
    outcomes = {verdict.promise: verdict.outcome for verdict in replayed(scenario)[1]}
    assert outcomes["determinism"] is Outcome.HOLDS


def test_a_schedule_of_a_living_group_is_cut_to_few_faults_and_members() -> None:
    """Also founders that acts and settings name are left out."""
    law = find("causal-living", "no_retention").law

    def breaks(smaller: Scenario) -> bool:
        verdicts = judged(smaller, "no_retention", [law])[1]
        return any(verdict.promise == law and verdict.outcome is Outcome.BROKEN for verdict in verdicts)

    seed = hunt("causal-living", "no_retention", law, 1).seed
    assert seed is not None
    scenario = draw("causal-living", seed)
    smallest = shrink(scenario, breaks, runs_max=60)
    assert breaks(smallest)
    assert size_of(smallest) < size_of(scenario)
