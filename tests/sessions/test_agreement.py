"""Each figure against a slow literal form, and against values from textbooks."""

from collections.abc import Mapping
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from sklearn.metrics import cohen_kappa_score

from understudy import UnderstudyError
from understudy.sessions.agreement import (
    agreement,
    cohen,
    disagreements,
    kappas_with_others,
    krippendorff,
    pairs_of,
    wants_second,
    with_others,
)
from understudy.sessions.replies import Agreement, Split

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: four observers, twelve units, gaps.
TEXTBOOK = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""

tables = some.dictionaries(
    some.integers(0, 30), some.dictionaries(some.sampled_from("ABCD"), some.integers(0, 2), min_size=1), max_size=12
)


def textbook() -> dict[int, dict[str, int]]:
    lines = [line.split() for line in TEXTBOOK.strip().splitlines()]
    return {
        unit: {name: int(line[unit]) for name, line in zip("ABCD", lines, strict=True) if line[unit] != "."}
        for unit in range(12)
    }


def literal_alpha(labels: Mapping[int, Mapping[str, int]]) -> float | None:
    """By the coincidence matrix, pair by pair."""
    o = np.zeros((6, 6))
    for by_name in labels.values():
        for first, second in permutations(by_name.values(), 2):
            o[first, second] += 1 / (len(by_name) - 1)
    n_c, n = o.sum(1), o.sum()
    expected = (np.outer(n_c, n_c) - np.diag(n_c**2)).sum()
    return 1 - (n - 1) * (n - np.trace(o)) / expected if expected else None


def test_alpha_of_the_textbook_example() -> None:
    assert krippendorff(textbook()) == pytest.approx(0.743, abs=5e-4)


@given(tables)
def test_alpha_is_that_of_the_coincidence_matrix(labels: dict[int, dict[str, int]]) -> None:
    expected = literal_alpha(labels)
    found = krippendorff(labels)
    assert found is None if expected is None else found == pytest.approx(expected)


def test_alpha_is_one_where_all_agree_and_unknown_where_nothing_could_differ() -> None:
    assert krippendorff({0: {"A": 1, "B": 1}, 1: {"A": 0, "B": 0}}) == 1
    assert krippendorff({0: {"A": 1, "B": 1}}) is None
    assert krippendorff({0: {"A": 1}, 1: {"A": 0}}) is None
    assert krippendorff({}) is None


def test_kappa_of_the_textbook_example() -> None:
    """Fifty grant proposals, two readers: 20 times both yes, 15 both no, 5 and 10 apart."""
    both = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    assert cohen(both) == pytest.approx(0.4)


@given(some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3)), min_size=1, max_size=30))
def test_kappa_is_that_of_scikit_learn(both: list[tuple[int, int]]) -> None:
    found = cohen(both)
    if len(set(both)) == 1 and both[0][0] == both[0][1]:
        assert found is None
    else:
        assert found == pytest.approx(cohen_kappa_score([a for a, _ in both], [b for _, b in both]))


@given(tables)
def test_shares_are_those_counted_pair_by_pair(labels: dict[int, dict[str, int]]) -> None:
    alike = [
        (first, second, by_name[first] == by_name[second])
        for by_name in labels.values()
        for first, second in combinations(sorted(by_name), 2)
    ]
    found = agreement(labels)
    assert found.items == sum(len(by_name) > 1 for by_name in labels.values())
    assert found.share == (pytest.approx(np.mean([same for *_, same in alike])) if alike else None)
    for pair in pairs_of(labels):
        here = [same for first, second, same in alike if (first, second) == (pair.first, pair.second)]
        assert pair.items == len(here)
        assert pair.share == pytest.approx(np.mean(here))
    for name, share in with_others(labels).items():
        assert share == pytest.approx(np.mean([same for first, second, same in alike if name in (first, second)]))


def test_without_shared_items_there_are_no_figures() -> None:
    assert agreement({3: {"A": 1}, 4: {"B": 1}}) == Agreement(0, None, None, [], [])
    assert with_others({3: {"A": 1}}) == {}


def test_the_most_disputed_items_come_first() -> None:
    labels = {
        7: {"A": 0, "B": 0, "C": 1},
        2: {"A": 0, "B": 1},
        9: {"A": 0, "B": 1, "C": 2},
        1: {"A": 0, "B": 1},
        5: {"A": 1, "B": 1},
    }
    assert [split.item for split in disagreements(labels)] == [9, 1, 2, 7]
    assert disagreements(labels)[1] == Split(1, {"A": 0, "B": 1})


def test_second_opinions_are_wanted_of_the_share_asked_for_whatever_the_order() -> None:
    wanted = [wants_second(item, 0.2, seed=5) for item in range(10_000)]
    assert np.mean(wanted) == pytest.approx(0.2, abs=0.015)
    assert wanted == [wants_second(item, 0.2, seed=5) for item in reversed(range(10_000))][::-1]
    assert wanted != [wants_second(item, 0.2, seed=6) for item in range(10_000)]
    assert not any(wants_second(item, 0.0, seed=5) for item in range(1000))
    assert all(wants_second(item, 1.0, seed=5) for item in range(1000))


def test_a_larger_share_keeps_the_items_of_a_smaller_one() -> None:
    for item in range(500):
        assert wants_second(item, 0.1, seed=0) <= wants_second(item, 0.3, seed=0)


def test_shares_beyond_all_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="from 0 to 1"):
        wants_second(0, 1.5, seed=0)


@given(tables)
def test_kappa_with_others_is_that_of_all_pairs_of_ones_own_label_and_anothers(
    labels: dict[int, dict[str, int]],
) -> None:
    found = kappas_with_others(labels)
    for name in "ABCD":
        pairs = [
            (by_name[name], by_name[other])
            for by_name in labels.values()
            for other in by_name
            if name in by_name and other != name
        ]
        assert (name in found) == bool(pairs)
        if pairs:
            assert found[name] == cohen(pairs)
