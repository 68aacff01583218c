"""What was picked: items small enough for a page, class counts, and a map of the pool."""

import base64
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.experiments.made_up import made_up
from understudy.data.datasets import load_named
from understudy.data.items import ArrayImages, Texts
from understudy.data.pool import Dataset, Pool
from understudy.experiments import picks


def of_texts(texts: list[str]) -> Pool:
    n = len(texts)
    return Pool(tuple(map(str, range(n))), Texts(texts), labels=np.zeros(n, int), classes=("only",))


def test_the_first_asked_rows_come_after_the_initial_ones(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=2)
    rounds = results.picks("margin", 0)
    rows, right = picks.first_picks(results, "margin", 8)
    assert rows == [*rounds[1], *rounds[2]][:8]
    assert right == [bool(row % 3) for row in rows]


def test_who_has_not_asked_yet_has_nothing_to_show(tmp_path: Path) -> None:
    assert picks.first_picks(made_up(tmp_path, schedule=(6,)), "margin") == ([], [])


def test_a_thumbnail_is_small_and_whole() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 300, 200, 3), dtype=np.uint8)
    shown = picks.items_for_page(Pool(("a",), ArrayImages(pixels)), [0], [True])[0]
    head, content = shown.image.split(",")
    assert head == "data:image/jpeg;base64"
    assert Image.open(BytesIO(base64.b64decode(content))).size == (43, 64)


def test_digits_stay_as_they_are() -> None:
    dataset = load_named("digits")
    shown = picks.items_for_page(dataset.pool, [3], [None])[0]
    image = Image.open(BytesIO(base64.b64decode(shown.image.split(",")[1])))
    np.testing.assert_array_equal(np.asarray(image), np.asarray(dataset.pool.item(3)))


def test_long_texts_are_cut_and_become_one_line() -> None:
    shown = picks.items_for_page(of_texts(["one\n two\t\x1b three", "word " * 100]), [0, 1], [True, False])
    assert shown[0].text == "one two \\x1b three"
    assert len(shown[1].text) <= picks.LETTERS_PER_TEXT
    assert shown[1].text.endswith("word…")


def test_what_cannot_be_read_has_a_name_but_no_content() -> None:
    shown = picks.items_for_page(of_texts(["  "]), [0], [None])[0]
    assert (shown.name, shown.label, shown.text, shown.image) == ("0", "only", "", "")


def test_class_counts_add_up_over_repetitions(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=2)
    expected = sum(
        np.array(row["class_counts"])
        for row in results.table.to_pylist()
        if (row["strategy"], row["labels"]) == ("margin", 48)
    )
    np.testing.assert_array_equal(picks.class_counts(results, ["margin", "nobody"], 48)["margin"], expected)


def test_what_was_picked_can_be_asked_of_one_repetition_and_counted_over_some(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=3)
    assert picks.first_picks(results, "margin", 5, repeat=2)[0] == results.picks("margin", 2)[1][:5].tolist()
    rows = results.table.to_pylist()
    (only,) = [row for row in rows if (row["strategy"], row["labels"], row["repeat"]) == ("margin", 48, 1)]
    counts = picks.class_counts(results, ["margin"], 48, [1])["margin"]
    np.testing.assert_array_equal(counts, only["class_counts"])


def test_without_the_pool_the_ceiling_knows_its_classes(tmp_path: Path) -> None:
    found = picks.pool_counts(made_up(tmp_path / "a"), None)
    assert found is not None
    assert found.sum() == pytest.approx(200, abs=3)
    assert picks.pool_counts(made_up(tmp_path / "b", ceiling=False), None) is None


def test_the_axes_are_those_of_a_full_decomposition() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 20)) * np.linspace(3, 0.5, 20)
    rows -= rows.mean(0)
    _, _, exact = np.linalg.svd(rows, full_matrices=False)
    found = picks.principal_axes(rows, rng)
    np.testing.assert_allclose(np.abs((exact[:2] @ found).diagonal()), 1, atol=1e-4)
    np.testing.assert_allclose(found.T @ found, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("d", [1, 2])
def test_a_pool_of_one_feature_has_a_map_too(d: int) -> None:
    rows = np.random.default_rng(0).normal(size=(9, d))
    assert picks.principal_axes(rows - rows.mean(0), np.random.default_rng(0)).shape == (d, 2)


def test_a_map_shows_a_sample_of_the_pool_and_the_first_picks(tmp_path: Path) -> None:
    dataset = load_named("digits")
    results = made_up(tmp_path, dataset=dataset, schedule=(20, 40, 60))
    assert dataset.pool.features is not None
    found, again = (picks.pool_map(results, dataset.pool.features, ["margin"], n_rows=50, n_picks=10) for _ in range(2))
    assert found.points.shape == (50, 2)
    assert found.picks["margin"].shape == (10, 2)
    np.testing.assert_array_equal(found.points, again.points)


def test_items_of_another_data_set_are_not_shown(tmp_path: Path) -> None:
    dataset = load_named("digits")
    results = made_up(tmp_path, dataset=dataset, schedule=(20, 40))
    assert picks.pool_of(results, dataset)[0] is not None
    other = Dataset("digits", dataset.pool.take(range(100)), dataset.test)
    pool, why = picks.pool_of(results, other)
    assert pool is None
    assert "has changed since the comparison" in why
    assert picks.pool_of(results, None)[0] is None
