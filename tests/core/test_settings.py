"""Settings by name: whatever cannot work is refused with one sentence that names it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence import limits
from whence.core.levels.gossip.level import Settings, settings_from
from whence.core.registry import LEVELS
from whence.core.settings import by_name as settings_by_name
from whence.core.settings import names_in
from whence.errors import SettingError, UsageError

BAD: list[tuple[str, Any]] = [
    ("fanout", 0),
    ("rounds", 0),
    ("rounds", limits.ROUNDS_MAX + 1),
    ("round_ns", 999),
    ("jitter", -0.1),
    ("jitter", 1),
    ("jitter", "nan"),
    ("gossip_bundles", 0),
    ("gossip_bundles", limits.GOSSIP_BUNDLES_MAX + 1),
    ("buffer_bundles", 0),
    ("history", 0),
    ("idle_rounds", 0),
    ("view", "none"),
    ("view_size", 0),
    ("view_size", limits.VIEW_MAX + 1),
    ("subs_max", 0),
    ("unsubs_max", limits.VIEW_MAX + 1),
    ("announce_rounds", 0),
    ("sub_rounds", 0),
    ("sub_rounds", limits.ROUNDS_MAX + 1),
    ("farewell_rounds", 0),
    ("failures_max", 0),
    ("isolation_rounds", 0),
    ("reach_rounds", 0),
    ("join_retry_rounds", 0),
    ("join_tries_max", 0),
    ("spread", "shout"),
    ("keep_bundles", 0),
    ("keep_bytes", 0),
    ("mend_bytes", 0),
    ("hold_rounds", 0),
    ("hold_rounds", limits.ROUNDS_MAX + 1),
    ("publish_events_max", 0),
    ("publish_events_max", limits.BUNDLE_EVENTS_MAX + 1),
    ("publish_bytes_max", 0),
    ("publish_bytes_max", limits.BUNDLE_BYTES_MAX + 1),
    ("senders_max", 0),
    ("incarnations_per_sender_max", 0),
    ("spans_per_sender_max", 0),
    ("held_bundles_max", 0),
    ("held_bytes_max", 0),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_cannot_work_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        settings_from({name: value})
    with pytest.raises(SettingError, match=name):
        settings_from({name: str(value)})


def test_every_setting_has_a_value_that_is_refused() -> None:
    assert {name for name, _ in BAD} == set(names_in(Settings))


@pytest.mark.parametrize("name", sorted(set(names_in(Settings)) - {"view"}))
@pytest.mark.parametrize("value", ["many", "", None, [1], "1.5x"])
def test_a_value_that_is_no_number_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        settings_from({name: value})


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(SettingError, match=r"'fan_out'.*fanout"):
        settings_from({"fan_out": 4})


@pytest.mark.parametrize(
    ("level", "name", "choices"),
    [
        ("fifo", "spread", "gossip or direct"),
        ("causal", "spread", "tree or mesh"),
        ("causal", "coding", "predicted, thesis or whole"),
        ("total", "release", "paper, tight or frontier"),
        ("total", "late", "side or drop"),
    ],
)
def test_a_value_that_is_none_of_the_choices_is_refused_with_those_that_are(
    level: str, name: str, choices: str
) -> None:
    with pytest.raises(SettingError, match=f"^{name} must be {choices}, not 'bogus'$"):
        LEVELS[level].settings_from({name: "bogus"})


def test_a_view_must_be_larger_than_the_fan_out_unless_it_is_full() -> None:
    with pytest.raises(SettingError, match=r"view_size.*fanout"):
        settings_from({"view_size": 4})
    assert settings_from({"view_size": 4, "view": "full"}).views.view_size == 4


def test_a_setting_is_understood_under_its_former_name() -> None:
    assert settings_from({"boots_per_sender_max": "7"}).limits.incarnations_per_sender_max == 7


def test_text_and_values_mean_the_same() -> None:
    assert settings_from({"fanout": "5", "jitter": "0.2"}) == settings_from({"fanout": 5, "jitter": 0.2})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "fanout": st.integers(1, 19),
            "rounds": st.integers(1, 255),
            "view": st.sampled_from(["partial", "full"]),
            "hold_rounds": st.integers(1, 255),
            "senders_max": st.integers(1, 10**6),
        },
    )
)
def test_settings_come_back_by_name_as_they_were_given(given_: dict[str, Any]) -> None:
    by_name = settings_by_name(settings_from(given_))
    assert by_name.items() >= given_.items()
    assert settings_from(by_name) == settings_from(given_)


@given(st.integers(1, 255))
def test_what_depends_on_the_rounds_a_bundle_lives_is_derived_from_them(rounds: int) -> None:
    settings = settings_from({"rounds": rounds})
    assert settings.fifo.hold_rounds == min(255, rounds + 4)
    assert settings.views.farewell_rounds == min(255, 2 * rounds)
    assert settings_from({"rounds": rounds, "hold_rounds": 3}).fifo.hold_rounds == 3


def test_no_setting_is_the_default() -> None:
    assert settings_from({}) == Settings()


def test_a_setting_error_is_for_the_caller_to_mend() -> None:
    assert issubclass(SettingError, UsageError)


@pytest.mark.parametrize("stamp", ["hlc", "kn"])
def test_every_stamp_that_can_merge_is_taken_with_the_other_settings_at_their_defaults(stamp: str) -> None:
    assert LEVELS["total"].settings_from({"stamp": stamp}).merge.stamp == stamp


def test_the_mesh_may_still_be_called_by_its_name_of_before() -> None:
    causal = LEVELS["causal"]
    assert causal.settings_from({"spread": "direct"}) == causal.settings_from({"spread": "mesh"})


def test_a_causal_group_with_a_coding_that_only_the_lab_has_says_what_to_install() -> None:
    with pytest.raises(SettingError, match="pip install whence-lab"):
        LEVELS["causal"].settings_from({"coding": "thesis"})
