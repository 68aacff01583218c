from understudy.core.blocks import block_slices, rows_that_fit


def test_slices_cover_all_rows_in_order() -> None:
    assert list(block_slices(7, 3)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert list(block_slices(6, 3)) == [slice(0, 3), slice(3, 6)]
    assert list(block_slices(0, 3)) == []


def test_a_row_that_is_larger_than_the_budget_is_read_alone() -> None:
    assert rows_that_fit(100, 30) == 3
    assert rows_that_fit(100, 101) == 1
