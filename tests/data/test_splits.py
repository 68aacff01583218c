"""Splits by their usual names."""

import pytest

from understudy.data import splits


@pytest.mark.parametrize(
    ("name", "part"),
    [("", "pool"), (" Train ", "pool"), ("pool", "pool"), ("TEST", "test"), ("val", "validation"), ("extra", None)],
)
def test_a_split_is_known_by_its_name(name: str, part: str | None) -> None:
    assert splits.part_of(name) == part


def test_a_validation_set_is_tested_on_only_where_there_is_no_test_set() -> None:
    assert splits.part_to_test(["pool", "validation", None]) == "validation"
    assert splits.part_to_test(["pool", "validation", "test"]) == "test"
    assert splits.part_to_test(["pool"]) == "test"


def test_an_unknown_split_is_a_fault_with_the_nearest_name() -> None:
    assert str(splits.fault_of_split("line 3", "tset")) == "line 3: the split 'tset' is not known; did you mean 'test'?"
    assert splits.fault_of_split("line 3", "7").remedy == "use train, test or val"


def test_what_stays_out_is_a_note() -> None:
    assert splits.note_unused_validation("animals", 1234).used
    assert "1,234" in splits.note_unused_validation("animals", 1234).problem
