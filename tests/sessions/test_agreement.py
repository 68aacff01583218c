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
    by_class,
    cohen,
    confused_classes,
    disagreements,
    fleiss,
    kappas_with_others,
    krippendorff,
    pairs_of,
    wants_second,
    with_others,
)
from understudy.sessions.replies import Agreement, ClassAgreement, ConfusedClasses, Split

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: four observers, twelve units, gaps.
TEXTBOOK = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""

# Fleiss (1971), table 1: thirty patients, each with diagnoses by six psychiatrists, in five categories.
DIAGNOSES = """
0 0 0 6 0, 0 3 0 0 3, 0 1 4 0 1, 0 0 0 0 6, 0 3 0 3 0, 2 0 4 0 0, 0 0 4 0 2, 2 0 3 1 0, 2 0 0 4 0, 0 0 0 0 6,
1 0 0 5 0, 1 1 0 4 0, 0 3 3 0 0, 1 0 0 5 0, 0 2 0 3 1, 0 0 5 0 1, 3 0 0 1 2, 5 1 0 0 0, 0 2 0 4 0, 1 0 2 0 3,
0 0 0 0 6, 0 1 0 5 0, 0 2 0 1 3, 2 0 0 4 0, 1 0 0 4 1, 0 5 0 1 0, 4 0 0 0 2, 0 2 0 4 0, 1 0 5 0 0, 0 0 0 0 6
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


def counted(lines: str) -> dict[int, dict[str, int]]:
    """Labels of which only the numbers for each class are known."""
    found = {}
    for item, line in enumerate(lines.replace("\n", " ").split(",")):
        labels = [label for label, count in enumerate(map(int, line.split())) for _ in range(count)]
        found[item] = {chr(ord("A") + place): label for place, label in enumerate(labels)}
    return found


def literal_fleiss(labels: Mapping[int, Mapping[str, int]]) -> float | None:
    """Fleiss' formulas (1) to (7), with each item's own number of answers in place of n."""
    n_ij = np.array([[list(by_name.values()).count(j) for j in range(6)] for by_name in labels.values()]).reshape(-1, 6)
    n_ij = n_ij[n_ij.sum(1) > 1]
    if len(n_ij) == 0:
        return None
    n_i = n_ij.sum(1)
    p_j = n_ij.sum(0) / n_ij.sum()
    P_i = (np.square(n_ij).sum(1) - n_i) / (n_i * (n_i - 1))
    P_e = np.square(p_j).sum()
    return None if p_j.max() == 1 else (P_i.mean() - P_e) / (1 - P_e)


def test_fleiss_kappa_of_the_thirty_patients() -> None:
    patients = counted(DIAGNOSES)
    totals = np.bincount([label for by_name in patients.values() for label in by_name.values()])
    assert totals.tolist() == [26, 26, 30, 55, 43], "the sums below the table"
    assert fleiss(patients) == pytest.approx(0.430, abs=5e-4)


@given(tables)
def test_fleiss_kappa_is_that_of_the_formulas(labels: dict[int, dict[str, int]]) -> None:
    expected, found = literal_fleiss(labels), fleiss(labels)
    assert found is None if expected is None else found == pytest.approx(expected)


def test_fleiss_kappa_is_one_where_all_agree_and_unknown_where_nothing_could_differ() -> None:
    assert fleiss({0: {"A": 1, "B": 1}, 1: {"A": 0, "B": 0, "C": 0}}) == 1
    assert fleiss({0: {"A": 1, "B": 1}}) is None
    assert fleiss({0: {"A": 1}, 1: {"A": 0}}) is None
    assert fleiss({}) is None
    assert fleiss({0: {"A": 0, "B": 1}}) == -1, "two people, never alike"


@given(tables)
def test_agreement_by_class_is_that_of_all_pairs_of_answers(labels: dict[int, dict[str, int]]) -> None:
    pairs = [both for by_name in labels.values() for both in permutations(by_name.values(), 2)]
    found = {each.label: each for each in by_class(labels)}
    assert found.keys() == {first for first, _ in pairs}
    for label, each in found.items():
        assert each.share == pytest.approx(np.mean([other == label for first, other in pairs if first == label]))
        answers = [list(by_name.values()).count(label) for by_name in labels.values() if len(by_name) > 1]
        assert (each.answers, each.items) == (sum(answers), sum(count > 0 for count in answers))
    confused = {(each.first, each.second): (each.pairs, each.items) for each in confused_classes(labels)}
    assert confused == {
        (a, b): (pairs.count((a, b)), sum({a, b} <= set(by_name.values()) for by_name in labels.values()))
        for a, b in pairs
        if a < b
    }


def test_agreement_of_two_people_on_a_class_is_the_share_that_both_call_it() -> None:
    """Of the grant proposals: 2 · 20 yes of 25 and 30, 2 · 15 no of 25 and 20; they differ on 15."""
    both = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    labels = {item: {"A": a, "B": b} for item, (a, b) in enumerate(both)}
    assert by_class(labels) == [ClassAgreement(0, 30 / 45, 45, 30), ClassAgreement(1, 40 / 55, 55, 35)]
    assert confused_classes(labels) == [ConfusedClasses(0, 1, 15, 15)]


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
