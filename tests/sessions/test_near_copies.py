from collections.abc import Sequence

import numpy as np
import pytest

from understudy.sessions import near_copies
from understudy.sessions.near_copies import MAX_COPIES, NEAR, NearCopies

RNG = np.random.default_rng(5)


def pool_with_copies(n: int = 400, d: int = 48, noise: float = 0.02) -> np.ndarray:
    """Random rows, of which the last eighth are an earlier one with some noise."""
    features = RNG.normal(size=(n, d)) + 3
    copies = n // 8
    features[n - copies :] = features[RNG.integers(0, n // 4, copies)] + noise * RNG.normal(size=(copies, d))
    return np.asarray(features, np.float32)


def slow_copies(features: np.ndarray, digests: Sequence[str | None], item: int) -> dict[int, bool]:
    """All pairs by their definition, in double precision: whether each near-copy is an exact one."""
    rows = features.astype(np.float64)
    distances = np.sqrt(np.square(rows[:, None] - rows[None]).sum(2))
    np.fill_diagonal(distances, np.inf)
    usual = np.median(np.sort(distances, axis=1)[:, min(10, len(rows) - 1) - 1])
    found = dict.fromkeys(np.flatnonzero(distances[item] <= NEAR * usual).tolist(), False)
    same = {row for row, digest in enumerate(digests) if digest is not None and digest == digests[item] and row != item}
    return found | dict.fromkeys(same, True)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("d", [1, 3, 48])
def test_copies_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch, noise: float, d: int) -> None:
    monkeypatch.setattr(near_copies, "ROWS_PER_BLOCK", 37)
    monkeypatch.setattr(near_copies, "ROWS_FOR_USUAL", 1000)  # all rows, as the definition has it
    features = pool_with_copies(160, d, noise)
    digests: list[str | None] = [None] * 160
    digests[3] = digests[77] = digests[159] = "same"
    quick = NearCopies(features, digests)
    for item in range(160):
        assert {each.item: each.is_exact for each in quick.of(item)} == slow_copies(features, digests, item)


def test_a_sample_of_rows_says_what_is_usual_nearly_as_all_do() -> None:
    features = pool_with_copies(2000)
    quick = NearCopies(features, [None] * 2000)
    expected = {item: set(slow_copies(features[:1000], [None] * 1000, item)) for item in range(0, 1000, 100)}
    found = {item: {each.item for each in quick.of(item) if each.item < 1000} for item in expected}
    assert found == expected


def test_exact_copies_come_first_and_then_the_nearest() -> None:
    features = pool_with_copies(noise=0.0)
    features[5], features[6], features[7] = features[4], features[4] + 0.01, features[4] + 0.02
    found = NearCopies(features, [*[None] * 4, "a", None, None, "a", *[None] * 392]).of(4)
    assert [(each.item, each.is_exact) for each in found[:3]] == [(7, True), (5, False), (6, False)]
    assert found[1].distance == 0
    assert 0 < found[2].distance < NEAR


def test_items_that_an_encoder_knows_nothing_of_are_copies_of_nothing() -> None:
    features = pool_with_copies()
    features[:50] = 0.0
    copies = NearCopies(features, ["empty", "empty", *[None] * 398])
    assert [each.item for each in copies.of(0)] == [1], "only that of the same content"
    assert copies.of(10) == []


def test_a_heap_of_equal_items_gives_as_many_as_can_be_answered_at_once() -> None:
    heap = np.concatenate([np.ones((1500, 4), np.float32), pool_with_copies(1600, 4)])
    found = NearCopies(heap, [None] * len(heap)).of(3)
    assert len(found) == MAX_COPIES
    assert all(each.item != 3 and each.distance == 0 for each in found)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_smallest_pools_have_few_copies(n: int) -> None:
    features = np.asarray(RNG.normal(size=(n, 6)), np.float32)
    assert [len(NearCopies(features, [None] * n).of(item)) for item in range(n)] == [0] * n
    twins = np.repeat(features[:1], 2, axis=0)
    assert [each.item for each in NearCopies(twins, ["a", "a"]).of(0)] == [1]


def test_features_far_from_the_origin_do_not_hide_copies() -> None:
    features = pool_with_copies() + np.float32(1000)
    found = NearCopies(features, [None] * 400)
    assert all(
        {each.item for each in found.of(item)} == set(slow_copies(features, [None] * 400, item))
        for item in range(350, 400)
    )
