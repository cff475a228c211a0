"""Bugs in living groups, one for each trap of docs/papers/views.md; most are planted in both levels that use views."""

from collections.abc import Callable
from typing import Any

from whence.core.level import LevelSpec
from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.total.level import TotalLevel
from whence.core.levels.total.strict import StrictMember
from whence.core.views.changes import Changes
from whence.core.views.leader import Leader
from whence.core.views.member import ViewMember
from whence.core.views.participant import Participant
from whence.core.views.removal import Removal
from whence.core.views.total_order import TotalOrder
from whence.core.views.wishes import Wishes
from whence_lab.mutants.living.changes import (
    AcceptorsAreThoseWhoStay,
    AddsWhoeverAsked,
    AddsWhomNobodyOpens,
    AnswersNobodyOnceRemoved,
    AsksAQuorum,
    AsksOnlyWhomItKnows,
    BeginsAtOnceAgain,
    CutsAtTheMinimum,
    CutsWhereItIs,
    DecidesBeforeTheFlush,
    EntersLate,
    EntersWithOpenCuts,
    FallsSilent,
    FlushesTheRemovedOnly,
    ForgetsItsRemoval,
    ForgetsWhoIsNew,
    FreezesAnew,
    GivesUpInSilence,
    IgnoresWhatWasAccepted,
    KeepsOldRequests,
    LeadsBecauseAnotherIsUnwanted,
    LeaversDoNotReport,
    LeavesWithoutAWord,
    MayRemoveFewer,
    MissesNobody,
    NeverYields,
    NewcomersVoteAtOnce,
    PromotesInVain,
    RemembersWhatDoesNotMove,
    RemovesAnyNumber,
    RemovesNoneThatLack,
    SpeaksOfWhatItNeverKnew,
    SuppliesAnything,
    SuppliesTheOlderOnly,
    TakesOldTargets,
    TakesSilenceForDeath,
    TellsBeforeACrash,
    TellsTheRemovedWhatItNeverKnew,
    TellsWhoSpeaks,
    TriesAgainAndAgain,
    WaitsForItself,
    WaitsForTheLeaver,
    WaitsForWhoGaveUp,
)
from whence_lab.mutants.living.exchange import (
    ComparesOneTooFew,
    DeliversAgain,
    DeliversNothingTwice,
    ForgetsItsOwnInACrash,
    HoldsWithoutBound,
    KeepsOnlyPublishersOrder,
    NotForItself,
    PassesOnWithoutThePast,
    SettlesWithoutTheSilent,
    TakesDuplicates,
    TellsAnOldPast,
    WaitsForTheFirstOnly,
)
from whence_lab.mutants.living.messages import (
    AnswersToItsNumber,
    BeginsWithWhatComes,
    CountsEveryView,
    DoesNotWaitForCuts,
    FollowsWhatIsNotForIt,
    ForgetsItsVotes,
    ForgetsWhatIsFrozen,
    ForgetsWhatOthersMayLack,
    ForgetsWhatWaits,
    ForgetsWhatWasTaken,
    GoesOnAfterTheReport,
    NoCustodyOfTheRemoved,
    OpensWithTheFirstMark,
    OpensWithTheMarks,
    ReadsWhatIsOlder,
    ReportsWhatIsThere,
    SaysThatItCame,
    SaysThatItHasAll,
    SendsBeforeItsMark,
    StableWhenReceived,
    StoresAfterTheReport,
    TakesMessagesForAcknowledgements,
    TakesMessagesOfLaterViews,
    TakesMessagesOfTheRemoved,
    WaitsForEveryCut,
    WaitsForWhatIsLost,
)
from whence_lab.mutants.living.order import (
    BeginsAtTheLeastMark,
    BeginsWithoutTheRemoved,
    BelievesPromisesAtOnce,
    ForgetsWhatItLeftOut,
    LiveBeforeItsFirstKey,
    OverlooksTheFrozen,
    PromisesInMemory,
    TakesItsOwnMark,
    WaitsForTheRemoved,
)

Plant = Callable[[Any], LevelSpec]


def _parts(**parts: type) -> Plant:
    """Return a function that replaces parts of the members of a level's groups on views."""

    def plant(spec: LevelSpec) -> LevelSpec:
        if isinstance(spec, CausalLevel):
            return spec._replace(view_member=type("Planted", (ViewMember,), dict(parts)))
        assert isinstance(spec, TotalLevel)
        return spec._replace(strict=type("Planted", (StrictMember,), dict(parts)))

    return plant


def _changes(
    *, leader: type[Leader] = Leader, participant: type[Participant] = Participant, wishes: type[Wishes] = Wishes,
    removal: type[Removal] = Removal, **parts: type,
) -> Plant:  # fmt: skip
    kinds = {
        "leader_type": leader, "participant_type": participant, "wishes_type": wishes, "removal_type": removal,
    }  # fmt: skip
    kind = type("PlantedChanges", (Changes,), kinds)
    return _parts(changes_type=kind, **parts)


def _member(kind: type[ViewMember]) -> Plant:
    return lambda spec: spec._replace(view_member=kind)


def _order(kind: type[TotalOrder]) -> Plant:
    return _parts(order_type=kind)


_ANY = ("causal-living", "total-strict")
_TOTAL = ("total-strict",)
_CAUSAL = ("causal-living",)
_DIRECTED = True
"""Random schedules hardly show it; tests/core/views/test_directed.py does, or says which other rule masks it."""

BUGS = (
    ("no_freeze", "verdict", "counts messages of the frozen", _parts(state_type=GoesOnAfterTheReport), _ANY),
    ("cut_mine", "agreement", "cuts where the leader is", _changes(leader=CutsWhereItIs), _ANY),
    ("cut_min", "agreement", "cuts at the minimum", _changes(leader=CutsAtTheMinimum), _ANY),
    ("report_quorum", "agreement", "asks a quorum how far it is", _changes(leader=AsksAQuorum), _ANY, _DIRECTED),
    ("no_flush", "liveness", "decides before the flush", _changes(leader=DecidesBeforeTheFlush), _ANY, _DIRECTED),
    ("no_floor", "receipts", "flushes the removed only", _changes(leader=FlushesTheRemovedOnly), _ANY, _DIRECTED),
    ("no_retention", "agreement", "forgets what others may lack",
     _changes(participant=SaysThatItHasAll, inbox_type=ForgetsWhatOthersMayLack), _ANY),
    ("stable_by_got", "receipts", "takes received for taken", _parts(links_type=StableWhenReceived), _ANY),
    ("live_early", "open", "opens with the first mark", _parts(newcomer_type=OpensWithTheFirstMark), _ANY),
    ("no_closing", "agreement", "opens before others have the marks",
     _parts(newcomer_type=OpensWithTheMarks), _ANY, _DIRECTED),
    ("no_epoch_hold", "open", "counts messages of later views",
     _parts(state_type=TakesMessagesOfLaterViews, changes_type=EntersLate), _ANY, _DIRECTED),
    ("joiner_takes_old", "causal", "counts what is older than itself",
     _parts(state_type=ReadsWhatIsOlder, inbox_type=BeginsWithWhatComes, links_type=SendsBeforeItsMark), _ANY),
    ("no_fence", "verdict", "counts messages of the removed",
     _parts(inbox_type=TakesMessagesOfTheRemoved), _ANY, _DIRECTED),
    ("stale_joins", "liveness", "adds who asked long ago", _changes(wishes=AddsWhoeverAsked), _ANY, _DIRECTED),
    ("past_below_base", "agreement", "follows what is not for it",
     _parts(state_type=FollowsWhatIsNotForIt), _ANY, _DIRECTED),
    ("quorum_of_new", "one_chain", "lets those who stay decide", _changes(leader=AcceptorsAreThoseWhoStay), _ANY),
    ("no_adopt", "one_chain", "ignores what was voted for", _changes(leader=IgnoresWhatWasAccepted), _ANY, _DIRECTED),
    ("acceptor_forgets", "one_chain", "votes in memory", _parts(journal_type=ForgetsItsVotes), _ANY, _DIRECTED),
    ("any_removal", "receipts", "removes a majority at once", _changes(leader=RemovesAnyNumber), _ANY),
    ("freeze_not_durable", "agreement", "freezes in memory", _parts(journal_type=ForgetsWhatIsFrozen), _ANY, _DIRECTED),
    ("old_targets", "agreement", "goes by old targets", _changes(participant=TakesOldTargets), _ANY, _DIRECTED),
    ("D_may_shrink", "verdict", "removes fewer than it began to",
     _changes(leader=MayRemoveFewer, participant=FreezesAnew), _ANY, _DIRECTED),
    ("cut_not_awaited", "causal", "enters with something missing",
     _parts(changes_type=EntersWithOpenCuts, state_type=DoesNotWaitForCuts), _ANY, _DIRECTED),
    ("ack_after_report", "receipts", "acknowledges after the report",
     _parts(links_type=StoresAfterTheReport), _ANY, _DIRECTED),
    ("acks_any_epoch", "receipts", "counts those in other views",
     _parts(stability_type=CountsEveryView), _ANY, _DIRECTED),
    ("promote_at_once", "receipts", "lets newcomers vote at once",
     _changes(leader=NewcomersVoteAtOnce), _ANY, _DIRECTED),
    ("no_supply_check", "liveness", "cuts where nobody can supply", _changes(leader=SuppliesAnything), _ANY, _DIRECTED),
    ("supplies_the_older_only", "liveness", "supplies no newcomer with its like",
     _changes(leader=SuppliesTheOlderOnly), _ANY, _DIRECTED),
    ("removes_none_that_lack", "liveness", "gives up for one that lacks something",
     _changes(leader=RemovesNoneThatLack), _ANY, _DIRECTED),
    ("no_custody", "agreement", "does not store the removed",
     _parts(journal_type=NoCustodyOfTheRemoved), _ANY, _DIRECTED),
    ("frontier_open_removed", "liveness", "waits for the removed", _order(WaitsForTheRemoved), _TOTAL),
    ("frontier_ignores_condemned", "strict_total", "overlooks the frozen", _order(OverlooksTheFrozen), _TOTAL),
    ("promise_without_prefix", "strict_total", "believes at once", _order(BelievesPromisesAtOnce), _TOTAL),
    ("promise_not_durable", "strict_total", "promises in memory", _order(PromisesInMemory), _TOTAL, _DIRECTED),
    ("start_key_low", "strict_total", "begins at the least mark", _order(BeginsAtTheLeastMark), _TOTAL),
    ("K_without_removed", "strict_total", "begins by marks alone", _order(BeginsWithoutTheRemoved), _TOTAL, _DIRECTED),
    ("live_before_K", "open", "opens before its first key", _order(LiveBeforeItsFirstKey), _TOTAL, _DIRECTED),
    ("leaver_is_dead", "liveness", "does not ask who leaves", _changes(leader=LeaversDoNotReport), _ANY, _DIRECTED),
    ("no_nonce", "liveness", "acts for whom it is not", _parts(newcomer_type=AnswersToItsNumber), _ANY, _DIRECTED),
    ("fenced_is_mute", "liveness", "is silent once removed", _parts(changes_type=FallsSilent), _ANY, _DIRECTED),
    ("publishers_order_only", "causal", "keeps each publisher's order only",
     _parts(state_type=KeepsOnlyPublishersOrder), _CAUSAL),
    ("compares_one_too_few", "causal", "overlooks the last of a clock", _parts(state_type=ComparesOneTooFew), _CAUSAL),
    ("tells_an_old_past", "causal", "tells the clock of its last message",
     _parts(changes_type=TellsAnOldPast), _CAUSAL),
    ("passes_on_without_the_past", "causal", "passes on the bare message",
     _parts(inbox_type=PassesOnWithoutThePast), _CAUSAL),
    ("settles_without_the_silent", "agreement", "does not keep for the suspected",
     _parts(stability_type=SettlesWithoutTheSilent), _CAUSAL),
    ("takes_duplicates", "no_duplicates", "delivers what comes again", _parts(inbox_type=TakesDuplicates), _CAUSAL),
    ("holds_messages_without_bound", "bounds", "holds as many messages as come",
     _parts(inbox_type=HoldsWithoutBound), _CAUSAL),
    ("forgets_its_own_in_a_crash", "agreement", "does not write down its own",
     _parts(journal_type=ForgetsItsOwnInACrash), _CAUSAL),
    ("hands_all_over_again", "no_duplicates", "hands its own over again after a crash",
     _member(DeliversAgain), _CAUSAL),
    ("hands_nothing_over_again", "agreement", "hands over nothing after a crash",
     _member(DeliversNothingTwice), _CAUSAL),
    ("waits_for_the_first", "agreement", "repeats until the first is taken",
     _parts(links_type=WaitsForTheFirstOnly), ("causal",)),
    ("not_for_itself", "agreement", "does not deliver its own messages", _member(NotForItself), _CAUSAL),
    ("waits_for_any_cut", "agreement", "waits for who came later",
     _parts(state_type=WaitsForEveryCut), _ANY, _DIRECTED),
    ("reports_what_is_there", "agreement", "conceals what it acted on",
     _changes(participant=ReportsWhatIsThere), _ANY, _DIRECTED),
    ("gives_up_in_silence", "liveness", "ends an attempt without a view",
     _changes(leader=GivesUpInSilence), _ANY, _DIRECTED),
    ("waits_for_the_leaver", "liveness", "lets a leaver lead", _changes(wishes=WaitsForTheLeaver), _ANY, _DIRECTED),
    ("tells_who_speaks", "liveness", "does not tell the removed", _changes(removal=TellsWhoSpeaks), _ANY, _DIRECTED),
    ("tells_before_a_crash", "liveness", "forgets in a crash whom to tell",
     _changes(removal=TellsBeforeACrash), _ANY, _DIRECTED),
    ("takes_messages_for_acknowledgements", "agreement", "takes a message for an acknowledgement",
     _parts(links_type=TakesMessagesForAcknowledgements), _ANY, _DIRECTED),
    ("tries_again_and_again", "liveness", "removes in a circle, for ever", _changes(leader=TriesAgainAndAgain), _ANY,
     _DIRECTED),
    ("keeps_old_requests", "liveness", "adds who asked in an earlier view", _changes(wishes=KeepsOldRequests), _ANY,
     _DIRECTED),
    ("forgets_who_is_new", "liveness", "waits for no newcomer after a restart", _changes(wishes=ForgetsWhoIsNew), _ANY,
     _DIRECTED),
    ("waits_for_who_gave_up", "liveness", "waits for newcomers that gave up", _changes(wishes=WaitsForWhoGaveUp), _ANY,
     _DIRECTED),
    ("adds_whom_nobody_opens", "liveness", "adds newcomers while a member is silent",
     _changes(leader=AddsWhomNobodyOpens), _ANY, _DIRECTED),
    ("begins_at_once_again", "liveness", "begins a removal again that was let go",
     _changes(leader=BeginsAtOnceAgain), _ANY, _DIRECTED),
    ("waits_for_itself", "liveness", "waits for others to let go of what it froze",
     _changes(wishes=WaitsForItself), _ANY, _DIRECTED),
    ("promotes_in_vain", "liveness", "promotes while a removal must be let go",
     _changes(wishes=PromotesInVain), _ANY, _DIRECTED),
    ("forgets_its_removal", "liveness", "forgets in a crash that it is out",
     _changes(removal=ForgetsItsRemoval), _ANY, _DIRECTED),
    ("answers_nobody_once_removed", "liveness", "answers nobody once it is out",
     _changes(removal=AnswersNobodyOnceRemoved), _ANY, _DIRECTED),
    ("never_yields", "liveness", "goes on where others remove too many", _changes(leader=NeverYields), _ANY, _DIRECTED),
    ("remembers_what_does_not_move", "liveness", "pursues what another is to lead",
     _changes(wishes=RemembersWhatDoesNotMove), _ANY, _DIRECTED),
    ("misses_nobody", "liveness", "lets the silent be", _changes(wishes=MissesNobody), _ANY, _DIRECTED),
    ("waits_for_what_is_lost", "causal", "waits for what was lost in a force",
     _parts(state_type=WaitsForWhatIsLost), _ANY, _DIRECTED),
    ("asks_only_whom_it_knows", "liveness", "asks no stranger", _parts(changes_type=AsksOnlyWhomItKnows), _ANY,
     _DIRECTED),
    ("speaks_of_what_it_never_knew", "liveness", "calls views forgotten",
     _parts(links_type=SpeaksOfWhatItNeverKnew), _ANY, _DIRECTED),
    ("tells_the_removed_what_it_never_knew", "verdict", "calls views forgotten for the removed",
     _parts(links_type=TellsTheRemovedWhatItNeverKnew), _ANY, _DIRECTED),
    ("takes_silence_for_death", "liveness", "suspects who has nothing to say",
     _changes(wishes=TakesSilenceForDeath), _ANY, _DIRECTED),
    ("leaves_without_a_word", "leaving", "tells one member only that it leaves",
     _changes(wishes=LeavesWithoutAWord), _ANY),
    ("leads_because_another_is_unwanted", "leaving", "leads on its way out, beside who is to be removed",
     _changes(wishes=LeadsBecauseAnotherIsUnwanted), _ANY, _DIRECTED),
    ("forgets_what_was_taken", "agreement", "retains what was not taken only",
     _parts(recovery_type=ForgetsWhatWasTaken), _ANY, _DIRECTED),
    ("forgets_what_waits", "agreement", "forgets what is kept and must wait",
     _parts(recovery_type=ForgetsWhatWaits), _ANY, _DIRECTED),
    ("says_that_it_came", "agreement", "says that what must come again came",
     _parts(state_type=SaysThatItCame), _ANY, _DIRECTED),
    ("own_mark_as_promise", "strict_total", "believes who came with it", _order(TakesItsOwnMark), _TOTAL, _DIRECTED),
    ("forgets_what_it_left_out", "agreement", "leaves out in memory",
     _order(ForgetsWhatItLeftOut), _TOTAL, _DIRECTED),
)  # fmt: skip
