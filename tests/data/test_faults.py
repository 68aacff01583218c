"""Faults are collected, named, and raised together or not at all."""

import pytest

from understudy import UnderstudyError
from understudy.data.faults import Fault, FaultsFound, ItemFault, check_on_error, list_faults, settle

BROKEN = Fault("a.jpg", "the file is empty", "copy it again")
NOTE = Fault("b.gif", "animated", "the first frame is used", used=True)


def test_a_fault_reads_as_one_line_with_its_remedy() -> None:
    assert str(BROKEN) == str(ItemFault(BROKEN)) == "a.jpg: the file is empty; copy it again"
    assert ItemFault(BROKEN).fault is BROKEN


def test_faults_are_kept_where_items_may_be_left_out() -> None:
    assert settle(iter([BROKEN, NOTE]), "skip") == (BROKEN, NOTE)


def test_all_faults_are_raised_together_where_none_may_be_left_out() -> None:
    with pytest.raises(FaultsFound, match="2 items cannot be used") as caught:
        settle([BROKEN, NOTE, BROKEN], "fail")
    assert caught.value.faults == (BROKEN, BROKEN)


def test_notes_on_items_that_are_used_are_no_reason_to_fail() -> None:
    assert settle([NOTE], "fail") == (NOTE,)


def test_a_long_list_is_cut_and_counted() -> None:
    faults = [Fault(f"{i}.jpg", "broken", "remove it") for i in range(1234)]
    shown = list_faults(faults)
    assert "9.jpg: broken" in shown
    assert "10.jpg" not in shown
    assert shown.endswith("and 1,224 more")
    assert list_faults(faults[:1]) == " 0.jpg: broken; remove it"


def test_no_line_of_a_list_ends_in_a_space() -> None:
    for faults in ([BROKEN], [BROKEN, BROKEN]):
        assert not [line for line in str(FaultsFound(faults)).splitlines() if line != line.rstrip()]


def test_what_to_do_on_errors_is_one_of_two_words() -> None:
    assert check_on_error("fail") == "fail"
    with pytest.raises(UnderstudyError, match="on_error must be 'skip' or 'fail'; got 'ignore'"):
        check_on_error("ignore")
