"""Instruments that look for the method's decline measure what they say, and its variants are what they are called."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.benchmarks.scripts import script, write_task
from understudy.core.surrogate import Surrogate
from understudy.strategies.uncertainty import entropy, margin

instruments, variants, decline, report = (
    script(name) for name in ("decline_instruments", "decline_variants", "decline", "decline_report")
)
N, C, START = 120, 4, 20


def situation(seed: int = 0, tally: tuple[int, int] = (0, 0)) -> Any:
    rng = np.random.default_rng(seed)
    features = torch.from_numpy(rng.normal(size=(N, 5)).astype(np.float32))
    probs = rng.dirichlet(np.full(C, 0.5), size=N).astype(np.float32)
    labels = rng.integers(C, size=N)
    return variants.Situation(
        features=features,
        labels=labels,
        n_classes=C,
        labelled=rng.choice(N, START, replace=False),
        probs=probs,
        hidden=lambda: np.tanh(features.numpy()),
        tally=tally,
        basis=lambda k: variants.make_basis(features, k, variants.Seeded(seed, C)),
        seed=seed,
        device="cpu",
    )


# -- variants ---------------------------------------------------------------------------------------------------------


def test_a_surrogate_made_anew_at_each_training_picks_as_one_that_is_kept() -> None:
    first = situation()
    how = variants.Variant(basis_size=12)
    kept = Surrogate(first.features, C, 12, first.seed, output_width=C, basis=first.basis(12), method="paper")
    kept.anchor(first.probs, first.labelled)
    early = variants.choose(how, first, 15)
    np.testing.assert_array_equal(early.rows, kept.rehearse(first.labels, 15))
    assert early.tally[0] / early.tally[1] == pytest.approx(kept.accuracy)
    other = situation(seed=1).probs  # the learner was trained again
    labelled = np.concatenate([first.labelled, early.rows])
    later = variants.replace(first, labelled=labelled, probs=other, tally=early.tally)
    kept.anchor(other, labelled)
    np.testing.assert_array_equal(variants.choose(how, later, 15).rows, kept.rehearse(first.labels, 15))


def test_snapshots_do_not_change_the_picks() -> None:
    how, now = variants.Variant(basis_size=12), situation()
    looked = variants.choose(how, now, 10, snapshots=3)
    np.testing.assert_array_equal(looked.rows, variants.choose(how, now, 10).rows)
    assert [gauge["asked"] for gauge in looked.gauges] == [0, 4, 7]


@pytest.mark.parametrize(("weight", "mode"), [(0.0, "influence"), (1.0, "uncertainty"), (0.5, "uniform")])
def test_a_fixed_weight_picks_as_the_mode_it_amounts_to(weight: float, mode: Any) -> None:
    now = situation()
    fixed = variants.choose(variants.Variant(basis_size=12, weight=weight), now, 12)
    np.testing.assert_array_equal(fixed.rows, variants.choose(variants.Variant(basis_size=12, mode=mode), now, 12).rows)


def test_the_pools_accuracy_is_that_of_the_open_rows() -> None:
    now = situation()
    right = [now.probs[i].argmax() == now.labels[i] for i in range(N) if i not in now.labelled]
    wanted = sum(right) / len(right)
    surrogate = variants.surrogate_for(variants.Variant(basis_size=12, weight="pool"), now)
    tally = surrogate._ready().tally
    assert float(tally[1] / tally.sum()) == pytest.approx(wanted)


def test_margin_takes_the_place_of_the_entropy_and_keeps_its_calibration() -> None:
    now = situation()
    surrogate = variants.surrogate_for(variants.Variant(basis_size=12, score="margin"), now)
    probs = torch.from_numpy(now.probs).double()
    np.testing.assert_allclose(surrogate.uncertainty, margin(probs), rtol=1e-5)
    rows = surrogate.rehearse(now.labels, 5)
    mean = torch.from_numpy(surrogate.mean).double()
    ratio = entropy(mean.softmax(1)) / entropy(probs.softmax(1))
    np.testing.assert_allclose(surrogate.uncertainty, margin(probs) * ratio, rtol=1e-5)
    assert len(set(rows.tolist())) == 5


def test_ranks_are_even_and_keep_the_order() -> None:
    probs = torch.from_numpy(situation().probs)
    ranks = variants.score_of("margin_rank", probs)
    np.testing.assert_array_equal(ranks.argsort(), variants.score_of("margin", probs).argsort())
    np.testing.assert_allclose(ranks.sort().values.diff(), 1 / N)


def test_renewed_outputs_are_the_predictions_of_the_nearest_rows() -> None:
    now = situation()
    U = now.features[[3, 50]].double() + 1e-3
    np.testing.assert_allclose(variants.predictions_near(U, now), now.probs[[3, 50]], rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["literal", "margin", "badge", "blind", "on=hidden", "renewed", "link=simplex", "sigma_f=1, V of learner", "P=0.9"],
)
def test_every_kind_of_variant_gives_distinct_open_rows(name: str) -> None:
    now = situation()
    how = variants.variant(name)
    rows = variants.choose(variants.replace(how, basis_size=10), now, 9).rows
    assert len(set(rows.tolist())) == 9
    assert not set(rows.tolist()) & set(now.labelled.tolist())


def test_a_switch_changes_the_variant_at_its_number_of_labels() -> None:
    path = decline.Course("literal>margin@30", 0, np.arange(29))
    assert path.how() == variants.VARIANTS["literal"]
    path.labelled = np.arange(30)
    assert path.how() == variants.VARIANTS["margin"]


@pytest.mark.parametrize(("name", "words"), [("litteral", "no variant 'litteral'"), ("literal>margin", "A>B@2000")])
def test_an_unknown_variant_is_refused_before_anything_runs(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        decline.main(["--data", "absent.npz", "--out", "o.json", "--variants", name])
    assert words in capsys.readouterr().err


# -- instruments ------------------------------------------------------------------------------------------------------


def test_gauges_are_those_of_a_literal_computation() -> None:
    now = situation(tally=(3, 10))
    surrogate = variants.surrogate_for(variants.Variant(basis_size=12), now)
    reading = instruments.Reading.of(surrogate)
    chosen = now.open[:4]
    gauges = reading.gauges(chosen)
    u1, u2 = surrogate.influence / surrogate.influence.std(), surrogate.uncertainty / surrogate.uncertainty.std()
    first, second = 0.7 * u1, 0.3 * u2
    lead = [term[chosen].mean() - term[now.open].mean() for term in (first, second)]
    assert gauges["P"] == pytest.approx(0.3)
    assert gauges["u1 share"] == pytest.approx(first[chosen].sum() / (first + second)[chosen].sum(), rel=1e-4)
    assert gauges["u1 lead"] == pytest.approx(lead[0] / sum(lead), rel=1e-3)
    assert gauges["variance left"] == pytest.approx(surrogate.variance[now.open].mean(), rel=1e-4)
    assert 0 < gauges["trace R"] < 1
    assert 1 <= gauges["rank R"] <= 12


def test_effective_rank_counts_equal_directions() -> None:
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    assert instruments.effective_rank(Q @ np.diag([2.0, 2.0, 2.0, 0.0]) @ Q.T) == pytest.approx(3)


def test_reach_is_that_of_the_hundred_best_rows_in_deviations() -> None:
    values = np.concatenate([np.zeros(900), np.ones(100)])
    assert instruments.reach(values) == pytest.approx(0.9 / 0.3)
    assert instruments.reach(np.ones(200)) == 0


def test_ranks_say_where_rows_stand() -> None:
    values, among = np.arange(10.0), np.arange(10)
    assert instruments.mean_rank(values, np.array([9]), among) == pytest.approx(0.95)
    assert instruments.mean_rank(values, among, among) == pytest.approx(0.5)


def test_evenness_is_one_for_equal_classes_and_zero_for_a_single_one() -> None:
    assert instruments.evenness(np.array([0, 1, 2, 3]), 4) == pytest.approx(1)
    assert instruments.evenness(np.array([2, 2, 2]), 4) == pytest.approx(0)


def test_a_row_is_not_its_own_neighbour() -> None:
    features = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    found = instruments.nearest(features, np.array([0, 3]), np.arange(4), 2)
    np.testing.assert_allclose(found, [[1, 3], [4, 6]], atol=1e-6)


def test_rank_correlation_is_one_for_any_rising_function() -> None:
    values = np.random.default_rng(0).normal(size=50)
    assert instruments.rank_correlation(values, np.exp(values)) == pytest.approx(1)
    assert instruments.rank_correlation(values, np.zeros(50)) == 0


# -- the report -------------------------------------------------------------------------------------------------------


def test_differences_are_paired_by_repetition() -> None:
    values = {"literal": {0: 1.0, 1: 3.0, 2: 9.0}, "margin": {0: 0.0, 1: 1.0}}
    mean, error, n = report.paired(values, "literal")
    assert (mean, n) == (1.5, 2)
    assert error == pytest.approx(0.5)
    assert np.isnan(report.paired(values, "absent")[0])


def test_records_of_two_files_are_put_together_once(tmp_path: Path) -> None:
    about = {"data": "d", "learner": "modern", "kind": "paths"}
    records = [
        {"variant": name, "repeat": 0, "labels": 600, "accuracy": 0.5 + i / 100, "gauges": []}
        for i, name in enumerate(("margin", "literal"))
    ]
    for i, some in enumerate((records, records[1:])):
        (tmp_path / f"{i}.json").write_text(json.dumps({"about": about, "records": some}))
    groups = report.read(sorted(tmp_path.glob("*.json")))
    assert len(groups["d", "modern", "paths"]) == 2
    assert "| literal | 51.0 (+1.00) |" in report.paths_table(groups["d", "modern", "paths"])


@pytest.mark.parametrize("kind", ["paths", "one round"])
def test_the_scripts_run_from_data_to_tables_and_figures(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out, page = write_task(tmp_path / "task.npz", n=150), tmp_path / "out.json", tmp_path / "page"
    given = ["--data", str(data), "--out", str(out), "--learner", "logistic", "--repeats", "0-1", "--snapshots", "2"]
    if kind == "paths":
        given += ["--schedule", "20,26,32", "--variants", "literal", "margin", "literal>margin@26"]
    else:
        given += ["--one-round", "--states", "random:20:6", "margin:26:6", "--heads", "1"]
        given += ["--variants", "literal", "margin"]
    monkeypatch.setattr(decline, "SCHEDULE", (20, 26, 32))
    decline.main(given)
    report.main([str(out), "--out", str(page)])
    written = (page / "decline.md").read_text()
    assert "| literal |" in written
    assert "nan" not in written
    assert len(list(page.glob("*.svg"))) == 1
