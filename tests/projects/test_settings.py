import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.data.class_names import check_class
from understudy.errors import UnderstudyError
from understudy.projects.settings import Settings


def test_settings_come_back_from_json_as_they_were() -> None:
    settings = Settings(("cat", "dog"), seed=7, audit_share=0.25, learner="gradient", basis_size=50)
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_defaults_fit_a_project_without_classes() -> None:
    assert Settings().classes == ()
    assert Settings().method == "understudy"
    assert Settings().basis_size is None, "the method's own rule"


def test_settings_of_the_version_before_name_no_method_and_mean_the_papers() -> None:
    before = {"classes": ["cat"], "seed": 3, "learner": "modern", "retrain_at_most": 200, "basis_size": 500}
    settings = Settings.from_json(before)
    assert (settings.method, settings.basis_size) == ("paper", 500)
    assert Settings.from_json(settings.to_json()) == settings
    assert Settings.from_json({}) == Settings(method="paper")


def test_spaces_around_classes_go_and_whole_numbers_pass_for_numbers() -> None:
    settings = Settings.from_json({"classes": [" cat ", "dog"], "lease_seconds": 60})
    assert settings.classes == ("cat", "dog")
    assert isinstance(settings.lease_seconds, float)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"classes": "cat"}, "must be a list of names"),
        ({"classes": None}, "must be a list of names"),
        ({"classes": ["cat", "cat "]}, "'cat' is given more than once"),
        ({"classes": ["cat", ""]}, "is empty"),
        ({"classes": ["cat", 3]}, "must be text; got 3"),
        ({"classes": ["a" * 201]}, "200 are the most"),
        ({"classes": ["a\nb"]}, r"cannot be seen: a\\nb"),
        ({"classes": ["\u202ecat"]}, "cannot be seen"),
        ({"classes": ["\udcff"]}, "cannot be seen"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"audit_share": 0.95}, "audit_share must be a number from 0 to 0.5; got 0.95"),
        ({"audit_share": float("nan")}, "audit_share must be a number"),
        ({"agreement_share": "half"}, "agreement_share must be a number"),
        ({"lease_seconds": 0}, "lease_seconds must be a number from 1 to"),
        ({"retrain_growth": 1.0}, "retrain_growth must be a number from 1.01"),
        ({"retrain_at_most": 0}, "retrain_at_most must be a whole number"),
        ({"basis_size": 0}, "basis_size must be a whole number"),
        ({"learner": " "}, "learner must be a name"),
        ({"method": "best"}, "method must be understudy or paper; got 'best'"),
        ({"method": None}, "method must be understudy or paper"),
        ({"colour": "red"}, "there is no setting colour"),
    ],
)
def test_what_no_setting_can_be_is_refused_in_one_line(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UnderstudyError, match=said) as caught:
        Settings.from_json(wrong)
    assert "\n" not in str(caught.value)


@given(st.text())
def test_a_class_that_is_kept_can_be_written_in_one_line(name: str) -> None:
    with suppress(UnderstudyError):
        kept = check_class(name)
        assert kept == kept.strip()
        assert len(kept.splitlines()) == 1
        kept.encode()
