"""DCoM: its algorithm written out row by row, the radii by bisection, and its limits, probcover and margin."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.strategies.dcom import DCoM, bisect_radii, competence_at
from understudy.strategies.probcover import ProbCover
from understudy.strategies.view import PoolView


def pool(seed: int = 0, n: int = 40, n_classes: int = 3) -> dict[str, np.ndarray]:
    """Points between 0 and 1, their classes, and predictions that follow from the nearest of three corners."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])[:n_classes]
    logits = -6 * ((points[:, None] - corners) ** 2).sum(2) + 0.5 * rng.standard_normal((n, n_classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return {"points": points, "truth": np.where(rng.random(n) < 0.8, logits.argmax(1), 0), "probs": probs}


def view_of(found: dict[str, np.ndarray], labelled: Any, probs: bool = True, **more: Any) -> PoolView:
    labels = np.full(len(found["points"]), -1)
    labels[list(labelled)] = found["truth"][list(labelled)]
    supplies: dict[str, Any] = {"probs": found["probs"]} if probs else {}
    return PoolView(labels, found["probs"].shape[1], features=found["points"], **supplies, **more)


def scaled(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


class Literal:
    """The method, one row at a time. Nobody is skipped."""

    def __init__(self, delta: float, most: float = 1.1, resolution: float = 0.05) -> None:
        self.delta, self.most, self.resolution = delta, most, resolution
        self.radii: dict[int, float] = {}

    def distance(self, x: int, y: int) -> float:
        return float(np.sqrt(((self.points[x] - self.points[y]) ** 2).sum()))

    def ball(self, centre: int, radius: float) -> set[int]:
        return {row for row in range(len(self.points)) if self.distance(centre, row) < radius} | {centre}

    def measure(self, centre: int, label: int, threshold: float) -> float:
        low, high = 0.0, self.most
        while high - low > self.resolution:
            middle = (low + high) / 2
            ball = self.ball(centre, middle)
            pure = sum(self.predicted[row] == label for row in ball) / len(ball)
            low, high = (middle, high) if pure >= threshold - 1e-9 else (low, middle)
        return (low + high) / 2

    def choose(
        self, found: dict[str, np.ndarray], labels: np.ndarray, pending: list[int], n: int
    ) -> tuple[list[int], list[float]]:
        self.points, probs = found["points"], found["probs"]
        self.predicted = probs.argmax(1)
        rows = range(len(labels))
        labelled = [row for row in rows if labels[row] >= 0]
        covered = set().union(*(self.ball(row, self.radii.get(row, self.delta)) for row in labelled))
        threshold = 0.2 * len(covered) / len(labels) + 0.4
        for row in labelled:
            if row not in self.radii:
                self.radii[row] = self.measure(row, labels[row], threshold)
        covered = set().union(*(self.ball(row, self.radii[row]) for row in labelled))
        coverage = len(covered) / len(labels)
        competence = (1 + np.exp(-50 * (1 - 0.8))) / (1 + np.exp(-50 * (coverage - 0.8)))
        radius = float(np.mean([self.radii[row] for row in labelled])) if labelled else self.delta
        covered |= set().union(*(self.ball(row, radius) for row in pending))
        gaps = np.sort(probs, 1)
        margins = scaled([1 - (gaps[row, -1] - gaps[row, -2]) for row in rows])
        done = [*labelled, *pending]
        chosen: list[int] = []
        scores: list[float] = []
        for _ in range(n):
            for row in done + chosen:
                margins[row] = 0.0
            degrees = [0 if row in done + chosen else len(self.ball(row, radius) - covered) for row in rows]
            mixed = [
                competence * one + (1 - competence) * other
                for one, other in zip(scaled(margins), scaled([float(d) for d in degrees]), strict=True)
            ]
            left = [row for row in rows if row not in done + chosen]
            chosen.append(max(left, key=lambda row: mixed[row]))
            scores.append(mixed[chosen[-1]])
            covered |= self.ball(chosen[-1], radius)
        return chosen, scores


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delta", [0.1, 0.3])
def test_every_pick_of_three_rounds_is_that_of_the_method_written_out(seed: int, delta: float) -> None:
    found, ours, literal = pool(seed), DCoM(delta=delta, normalise=False), Literal(delta)
    labelled = [3, 8] if seed % 2 else []
    for turn in range(3):
        found["probs"] = pool(seed + 10 * turn)["probs"]  # the model changes, the radii that were measured do not
        view = view_of(found, labelled, pending=[1])
        picks = ours.select(view, 5, np.random.default_rng(0))
        rows, scores = literal.choose(found, view.labels.numpy(), [1], 5)
        assert picks.rows.tolist() == rows
        assert picks.scores.tolist() == pytest.approx(scores)
        assert ours.memory()["radii"] == pytest.approx([literal.radii[row] for row in sorted(literal.radii)])
        labelled += rows


def test_golden_line() -> None:
    """The ball of row 0 covers three rows of six: too few for margins to count."""
    points = np.array([[0.0], [1.0], [2.0], [50.0], [51.0], [90.0]])
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.5, 0.5]])
    labels = np.array([0, -1, -1, -1, -1, -1])
    view = PoolView(labels, 2, features=points, probs=probs)
    strategy = DCoM(delta=1.5, max_delta=4.0, resolution=1.0, normalise=False)
    picks = strategy.select(view, 3, np.random.default_rng(0))
    # It is pure however wide: of 0 to 4 the interval 3 to 4 is left. Rows 3 and 4 then have two neighbours each.
    assert strategy.memory() == {"delta": None, "rows": [0], "labels": [0], "radii": [3.5]}
    assert picks.rows.tolist() == [3, 5, 1]
    assert picks.scores[:2].tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("seed", range(4))
def test_without_predictions_it_is_probcover(seed: int) -> None:
    view = view_of(pool(seed), [4, 9], probs=False, pending=[2], skipped=[7])
    one = DCoM(delta=0.3, normalise=False).select(view, 30, np.random.default_rng(0))
    other = ProbCover(delta=0.3, normalise=False).select(view, 30, np.random.default_rng(0))
    assert one.rows.tolist() == other.rows.tolist()
    assert one.scores.tolist() == other.scores.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_where_little_is_covered_it_is_probcover_and_where_all_is_it_is_margin(seed: int) -> None:
    found = pool(seed)
    view = view_of(found, ())
    few = DCoM(delta=0.05, normalise=False).select(view, 3, np.random.default_rng(0))
    assert (
        few.rows.tolist()
        == ProbCover(delta=0.05, normalise=False).select(view, 3, np.random.default_rng(0)).rows.tolist()
    )
    # All are predicted to be of one class: every ball is pure and reaches everything. Rows are ever more certain.
    found["truth"][:] = 0
    found["probs"][:] = np.array([0.6, 0.3, 0.1])
    found["probs"][:, 0] += 0.001 * np.arange(40)
    found["probs"] /= found["probs"].sum(1, keepdims=True)
    picks = DCoM(delta=1.0, max_delta=3.0, normalise=False).select(view_of(found, [0]), 5, np.random.default_rng(0))
    assert picks.rows.tolist() == [1, 2, 3, 4, 5]


def test_competence_goes_from_nothing_to_one_around_its_centre() -> None:
    assert competence_at(1.0, 0.8, 50) == 1.0
    assert competence_at(0.8, 0.8, 50) == pytest.approx(0.5, abs=1e-4)
    assert competence_at(0.0, 0.8, 50) < 1e-17
    assert competence_at(0.0, 1.0, 1e4) < 1e-300  # no overflow
    assert [competence_at(c, 0.8, 50) for c in (0.2, 0.7, 0.81, 0.9)] == pytest.approx(
        [(1 + np.exp(-10)) / (1 + np.exp(-50 * (c - 0.8))) for c in (0.2, 0.7, 0.81, 0.9)]
    )


@pytest.mark.parametrize("purity", [0.4, 0.6, 1.0])
def test_radii_are_those_of_counting_each_ball(purity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.strategies.dcom.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("understudy.strategies.dcom.NUMBERS_PER_BLOCK", {"cpu": 100})
    found, centres = pool(2), [0, 5, 9, 12]
    literal = Literal(0.5)
    literal.points, literal.predicted = found["points"], found["probs"].argmax(1)
    labels = [0, 1, 2, 0]
    radii = bisect_radii(
        torch.from_numpy(found["points"]),
        torch.from_numpy(literal.predicted),
        torch.tensor(centres),
        torch.tensor(labels),
        purity,
        1.1,
        0.05,
    )
    expected = [literal.measure(row, label, purity) for row, label in zip(centres, labels, strict=True)]
    assert radii.tolist() == pytest.approx(expected)


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped() -> None:
    found = pool(3)
    one = DCoM(normalise=False)
    first = one.select(view_of(found, [0, 3, 8]), 4, np.random.default_rng(1))
    kept = json.loads(json.dumps(one.memory()))
    other = DCoM(normalise=False)
    other.recall(kept)
    found["probs"] = pool(13)["probs"]
    view = view_of(found, [0, 3, 8, *first.rows.tolist()], skipped=[2])
    here, there = (strategy.select(view, 6, np.random.default_rng(2)) for strategy in (one, other))
    assert here.rows.tolist() == there.rows.tolist()
    assert here.scores.tolist() == there.scores.tolist()
    assert one.memory() == other.memory()


def test_a_radius_is_measured_again_only_when_the_label_was_corrected() -> None:
    found, strategy = pool(3), DCoM(delta=0.3, normalise=False)
    strategy.select(view_of(found, [0, 3, 8]), 4, np.random.default_rng(1))
    before = strategy.memory()
    found["probs"] = pool(13)["probs"]
    found["truth"][3] = (found["truth"][3] + 1) % 3
    strategy.select(view_of(found, [0, 3, 8]), 4, np.random.default_rng(1))
    after = strategy.memory()
    assert after["labels"] == found["truth"][[0, 3, 8]].tolist()
    assert (after["radii"][0], after["radii"][2]) == (before["radii"][0], before["radii"][2])
    assert after["radii"][1] != before["radii"][1]


def test_all_that_is_left_can_be_taken_skipped_rows_never_and_scores_are_told() -> None:
    found = pool(4)
    view = view_of(found, [0, 3], pending=[5], skipped=[7, 8])
    picks = DCoM(delta=0.2, normalise=False).select(view, 35, np.random.default_rng(0))
    assert sorted(picks.rows.tolist()) == sorted(set(range(40)) - {0, 3, 5, 7, 8})
    assert picks.utilities is not None
    told = picks.utilities()
    places = [told.rows.tolist().index(row) for row in picks.rows.tolist()]
    assert told.values[np.arange(35), places].tolist() == pytest.approx(picks.scores.tolist())
    assert (told.values.max(1) == told.values[np.arange(35), places]).all()
    for line in range(1, 35):
        assert np.isneginf(told.values[line, places[:line]]).all()


def test_both_precisions_choose_alike() -> None:
    found = pool(5)
    wide = DCoM(delta=0.3).select(view_of(found, [0, 3]), 12, np.random.default_rng(0))
    found = {name: values.astype(np.float32) if values.dtype == float else values for name, values in found.items()}
    narrow = DCoM(delta=0.3).select(view_of(found, [0, 3]), 12, np.random.default_rng(0))
    assert wide.rows.tolist() == narrow.rows.tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_chooses_as_a_cpu_does_with_predictions() -> None:
    picks = [
        DCoM(delta=0.3).select(view_of(pool(6), [0, 3], device=device), 12, np.random.default_rng(0))
        for device in ("cpu", "cuda")
    ]
    assert picks[0].rows.tolist() == picks[1].rows.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta must be a number above 0"),
        ({"max_delta": 0.0}, "max_delta must be a number above 0"),
        ({"resolution": 0}, "resolution must be a number above 0"),
        ({"steepness": -1.0}, "steepness must be a number above 0"),
        ({"centre": 1.5}, "centre must be a number"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        DCoM(**settings)  # type: ignore[arg-type]
