from typing import Any

import numpy as np

from understudy.sessions.classes import ClassTable
from understudy.sessions.log.events import Event


def events(*given: tuple[Any, dict[str, Any]]) -> list[Event]:
    return [Event(kind, annotator="ann", data=data, seq=seq) for seq, (kind, data) in enumerate(given, 2)]


def table(*given: tuple[Any, dict[str, Any]], undone: tuple[int, ...] = ()) -> ClassTable:
    return ClassTable.from_events(["cat", "dog", "fox"], events(*given), undone)


def test_a_class_keeps_its_number_whatever_it_is_called() -> None:
    found = table(("class_changed", {"class": 1, "name": "hound"}), ("class_added", {"name": "dog"}))
    assert found.names == ["cat", "hound", "fox", "dog"]
    assert [found.number_of(name) for name in ("hound", "dog", "owl")] == [1, 3, None]
    assert found.classes[1].former_names == ("dog",)


def test_labels_of_a_merged_class_count_for_the_last_of_a_chain_of_merges() -> None:
    merges = (("class_merged", {"class": 0, "into": 1}), ("class_merged", {"class": 1, "into": 2}))
    assert table(*merges).becomes == [2, 2, 2]
    assert table(*merges).alive == [2]
    assert table(*merges, undone=(3,)).becomes == [1, 1, 2]
    assert table(*merges, undone=(2,)).becomes == [0, 2, 2]
    assert table(*merges, undone=(2, 3)).is_whole


def test_a_class_that_was_taken_back_keeps_its_number_and_is_not_known_by_name() -> None:
    added = (("class_added", {"name": "owl"}), ("class_added", {"name": "elk"}))
    found = table(*added, undone=(2,))
    assert found.names == ["cat", "dog", "fox", "owl", "elk"]
    assert (found.alive, found.becomes[3]) == ([0, 1, 2, 4], None)
    assert found.number_known_as("owl") is None


def test_former_names_are_known_and_the_class_that_has_a_name_now_comes_first() -> None:
    found = table(
        ("class_changed", {"class": 0, "name": "Katze"}),
        ("class_merged", {"class": 1, "into": 2}),
        ("class_removed", {"class": 2}),
        ("class_added", {"name": "dog"}),
    )
    assert [found.number_known_as(name) for name in ("cat", "Katze", "dog", "fox")] == [0, 0, 3, 2]
    assert [found.counts_as(name) for name in ("cat", "dog", "fox")] == [0, 3, None]
    assert found.names_that_count() == ["Katze", "dog", "cat"]


def test_classes_that_come_later_follow_those_that_were_put_in_order_and_hidden_ones_are_not_offered() -> None:
    found = table(
        ("classes_reordered", {"order": [2, 0, 1]}),
        ("class_added", {"name": "owl"}),
        ("class_changed", {"class": 0, "hidden": True}),
        ("class_removed", {"class": 1}),
    )
    assert (found.alive, found.offered) == ([2, 0, 3], [2, 3])


def test_predictions_of_merged_classes_are_summed_and_those_of_removed_ones_shared_by_the_others() -> None:
    probs = np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]], np.float32)
    assert table().project(probs) is probs
    merged = table(("class_merged", {"class": 0, "into": 1})).project(probs)
    np.testing.assert_allclose(merged, [[0.0, 0.8, 0.2], [0.0, 0.0, 1.0]], rtol=1e-6)
    removed = table(("class_removed", {"class": 2})).project(probs)
    np.testing.assert_allclose(removed, [[0.625, 0.375, 0.0], [0.5, 0.5, 0.0]], rtol=1e-6)
    later = table(("class_added", {"name": "owl"}), ("class_merged", {"class": 0, "into": 3})).project(probs)
    np.testing.assert_allclose(later, [[0.0, 0.3, 0.2, 0.5], [0.0, 0.0, 1.0, 0.0]], rtol=1e-6)


def test_a_copy_does_not_follow() -> None:
    found = table()
    other = found.copy()
    found.apply(Event("class_removed", data={"class": 0}))
    assert (other.is_whole, other.alive, found.alive) == (True, [0, 1, 2], [1, 2])
