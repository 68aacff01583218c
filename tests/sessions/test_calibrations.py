"""Calibration in a real session: what is shown, what is exported, what is kept, and what must not change."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sessions.small_projects import copied, label_next, opened
from tests.waiting import wait_until
from understudy.learners.calibration import Calibration, calibrate_model
from understudy.sessions import calibrations
from understudy.sessions.calibrations import audit_labels, cross_fit_in, folds_for, shares_to_show
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.session import Session
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.transfer import export_labels


def teach(session: Session, n: int, key: str = "k") -> None:
    for turn in range(n):
        label_next(session, "ann", f"{key}{turn}", turn % 3)


def test_what_is_shown_is_between_surrogate_and_model_and_has_the_models_temperature(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=80, taught=8, audit_share=0.3)) as session:
        teach(session, 40)
        labels = audit_labels(session.record)
        assert 10 <= len(labels) < 30
        surrogate, probs = session.learning.chooser.surrogate, session.models.probs
        assert probs is not None
        given = np.array(list(labels.values()))
        model = calibrate_model(probs[list(labels)], given, cross_fit_in(session.record.trainings[-1].data))

        def literal(item: int) -> list[float]:
            means = [max(mean, 1e-9) for mean in surrogate.predict([item])[0]]
            powers = [
                (m / sum(means) * p) ** (0.5 / model.temperature) for m, p in zip(means, probs[item], strict=True)
            ]
            return [power / sum(powers) for power in powers]

        status = session.status().calibration
        assert status is not None
        assert (status.rough, status.audited) == (True, len(labels))
        assert status.sentence == f"Confidences are rough: only {len(labels)} audit items have an answer yet."
        found = session.likely(0, 5)
        assert found
        for one in found:
            assert one.probability == pytest.approx(literal(one.item)[0], abs=1e-5)
            assert np.argmax(literal(one.item)) == 0
        offer = session.grid(0)
        assert offer.promised is None
        assert "nothing is promised" in offer.reason
        assert [one.item for one in offer.items] == [one.item for one in session.likely(0, len(offer.items))]
        assert len(offer.items) <= 4 <= 20 <= offer.likely + 20
        question = session.next("ann")
        while question.ask == "audit":
            assert question.item is not None
            session.label(question.item, 0, "ann", "a")
            question = session.next("ann")
        assert question.item is not None
        assert question.suggestion == np.argmax(literal(question.item))
        assert question.confidence is not None


def test_confidences_that_nothing_could_check_are_not_shown(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        teach(session, 3)
        status, offer, question = session.status().calibration, session.grid(0), session.next("bob")
        assert status is not None
        assert "could not be checked" in status.sentence
        assert "too few items have a label" in offer.reason
        assert offer.items
        assert {one.probability for one in offer.items} == {None}
        assert question.suggestion is not None
        assert question.confidence is None


def test_the_surrogate_alone_says_how_likely_a_class_is_that_the_model_does_not_know() -> None:
    means = np.array([[0.5, 0.4, 0.1], [0.1, -0.2, 1.1]])
    probs = np.array([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0]])
    found = shares_to_show(means, probs)
    first = np.array([np.sqrt(0.5 * 0.9), np.sqrt(0.4 * 0.1), 0.1])
    np.testing.assert_allclose(found[0], first / first.sum())
    assert found[1].argmax() == 2
    np.testing.assert_allclose(found.sum(1), 1.0)
    np.testing.assert_allclose(shares_to_show(probs[:1, :2], probs[:1, :2]), probs[:1, :2])


def test_it_is_fitted_again_only_when_an_audit_answer_or_a_model_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []

    def counted(probs: np.ndarray, labels: np.ndarray, cross_fit: Any) -> Calibration:
        fits.append(len(labels))
        return calibrate_model(probs, labels, cross_fit)

    monkeypatch.setattr(calibrations, "calibrate_model", counted)
    with opened(copied(tmp_path / "one", taught=2)) as session:
        asked: list[str | None] = []
        for turn in range(20):
            question = session.next("ann")
            asked.append(question.ask)
            assert question.item is not None
            session.label(question.item, turn % 3, "ann", f"k{turn}")
            session.status()
        audits = asked.count("audit")
        assert audits == 2
        assert fits == list(range(audits + 1)), "one fit for each number of audit items"
        session.undo("ann", "u")
        session.status()
        assert len(fits) == audits + 1 + (asked[-1] == "audit")


def test_the_next_items_are_the_same_whatever_the_temperature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for name, temperature in (("one", None), ("two", 5.0), ("three", 0.2)):
        if temperature is not None:
            monkeypatch.setattr(calibrations, "calibrate_model", lambda *_, t=temperature: Calibration(t))
        with opened(copied(tmp_path / name, taught=2)) as session:
            items = []
            for turn in range(15):
                question = session.next("ann")
                assert question.item is not None
                items.append((question.item, question.suggestion))
                session.grid(0)
                session.label(question.item, turn % 3, "ann", f"k{turn}")
            asked.append(items)
    assert asked[0] == asked[1] == asked[2]


def test_a_training_keeps_what_cross_fitting_found_and_exports_apply_it(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    with opened(folder) as session:
        assert cross_fit_in(session.record.trainings[-1].data) is None, "of one label a class nothing can be left out"
        teach(session, 22)
        session.train()
        wait_until(lambda: len(session.record.trainings) == 2)
        wait_until(lambda: not session.learning.is_busy)
        kept = session.record.trainings[-1].data["calibration"]
        assert kept["items"] == session.record.trainings[-1].data["labels"]
        assert kept["folds"] == folds_for(2) == 5
        assert 0.1 <= kept["temperature"] <= 10
        labels = audit_labels(session.record)
        probs = session.models.predictions()
        rows, given = list(labels), np.array(list(labels.values()))
        literal = calibrate_model(probs[rows], given, (kept["temperature"], kept["items"]))
        out = collect_labels(session.record, session.project.pool, Artifacts(session.project.artifacts))
        assert out.calibration == literal
        assert out.probs is not None
        np.testing.assert_array_equal(out.probs, literal.apply(probs))
        raw = collect_labels(session.record, session.project.pool, Artifacts(session.project.artifacts), is_raw=True)
        assert raw.probs is not None
        np.testing.assert_array_equal(raw.probs, probs)
        suggested = session.likely(0, 3)
        for one in suggested:
            assert one.probability == pytest.approx(out.probs[one.item, 0], abs=1e-5), (
                "no label came since: as exported"
            )
    with opened(folder) as again:
        assert again.record.trainings[-1].data["calibration"] == kept
        for one, two in zip(again.likely(0, 3), suggested, strict=True):
            assert one.item == two.item
            assert one.probability == pytest.approx(two.probability, abs=0.05)
    lines = list(export_labels(str(folder), "model", tmp_path / "model.zip"))
    assert lines[-1] == f"Confidences are rough: only {len(labels)} audit items have an answer yet."
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert json.loads(archive.read("model.json"))["calibration"] == literal.to_json()
    assert len(list(export_labels(str(folder), "predictions-csv", tmp_path / "raw.csv", raw=True))) == 1


def test_a_log_of_the_version_before_has_no_cross_fitting_and_is_calibrated_by_audit_items_alone() -> None:
    assert cross_fit_in({"labels": 20}) is None
    assert cross_fit_in({"calibration": None}) is None
    assert cross_fit_in({"calibration": {"temperature": 2, "items": 9, "folds": 3}}) == (2.0, 9)


def test_cross_fitting_ends_when_audit_items_say_enough() -> None:
    assert [folds_for(audited) for audited in (0, 29, 30, 299, 300)] == [5, 5, 3, 3, 0]


def test_predictions_that_were_brought_along_are_calibrated_by_audit_items(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one")
    sure = np.full((40, 3), 0.005)
    sure[:, 0] = 0.99  # and hardly ever right
    np.save(tmp_path / "p.npy", sure)
    with opened(folder, predictions=tmp_path / "p.npy") as session:
        for turn in range(16):
            question = session.next("ann")
            assert question.item is not None
            session.label(question.item, 1 + turn % 2, "ann", f"k{turn}")
        out = collect_labels(session.record, session.project.pool, Artifacts(session.project.artifacts))
        assert out.probs is not None
        assert out.calibration.audited == 2
        assert out.calibration.temperature > 1
        assert (out.probs.max(1) < 0.97).all()
        assert (out.probs.argmax(1) == 0).all()
