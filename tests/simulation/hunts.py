"""Where planted bugs show themselves, so that a hunt in normal mode ends as soon as it begins.

A schedule among the first 1,000 that shows a bug proves what a hunt from the first would: it is caught within so many.
One bug that is rare in the swarm shows itself later.
Where a change of the protocol or of the swarm moves a bug elsewhere, the hunt goes on, and then looks at those before.
The long mode hunts from the first, and from seeds that are new each time.
"""

from random import SystemRandom

from whence.sim.explore import MUTANT_SCHEDULES_MAX, Caught, hunt
from whence_lab.mutants import find

SHOWN_IN = {
    "keeps_every_hole": 21, "sends_oldest_first": 46, "drops_the_youngest": 5, "never_forgets_the_dead": 15,
    "stays_split": 21, "asks_once": 10, "holds_without_bound": 20,
    "releases_on_arrival": 18, "merges_without_bound": 13, "resumes_from_now": 11, "resumes_by_position": 9,
    "never_switches": 5, "overlooks_what_is_missing": 19, "restamps": 6, "never_gives_up_sending": 5,
    "stamps_by_its_clock_alone": 81,
    "column_is_a_maximum": 15, "ignores_dependencies": 340, "merges_duplicates": 100, "no_fence": 541,
    "sees_one_hop_too_little": 87, "any_path_is_safe": 77, "holds_copies_without_bound": 11,
    "sends_before_it_writes": 13, "waits_for_the_first": 239,
    "counts_leases_from_receipt": 133, "looks_once_per_round": 31, "acts_at_once": 548,
    "same_witness_after_restart": 319, "switches_witnesses_alone": 618, "grants_unregistered": 83,
    "serves_while_busy": 6, "fences_with_one": 77, "forgets_refusals": 9, "takes_late_tickets": 9,
    "founds_with_one_vote": 130, "needs_every_witness": 15, "never_walks": 7, "never_stops_leaving": 1338,
    "epochs_in_memory": 10, "leaves_the_past": 75, "serves_once": 3,
    "last_one_again": 18, "walks_by_hearsay": 15, "forgets_fences": 5, "fences_in_memory": 41,
    "records_in_memory": 192, "first_records_only": 192, "leases_of_today": 19, "promises_in_memory": 19,
    "suspended_for_ever": 4, "skips_the_held": 48,
}  # fmt: skip
"""By bug; those not named here show in the first few."""


FRESH_SEEDS = 3
"""In long mode every bug is also hunted from so many seeds that nobody has seen."""

FRESH_SCHEDULES_MAX = 5 * MUTANT_SCHEDULES_MAX
"""Where a bug shows in one schedule of some 400, a thousand from any seed miss it in one hunt of ten."""


def hunted(level: str, name: str, long_mode: bool) -> Caught:
    """Hunt a planted bug by the promise it must break, in the first 1,000 schedules."""
    law = find(level, name).law
    for seed in SystemRandom().sample(range(10**6, 10**9), FRESH_SEEDS if long_mode else 0):
        fresh = hunt(level, name, law, seed, FRESH_SCHEDULES_MAX)
        assert fresh.caught, f"{name} of {level}: not caught from seed {seed} on: {fresh}"
    first = 1 if long_mode else SHOWN_IN.get(name, 1)
    caught = hunt(level, name, law, first, max(1, MUTANT_SCHEDULES_MAX + 1 - first))
    return caught if caught.caught else hunt(level, name, law, 1, min(first - 1, MUTANT_SCHEDULES_MAX))
