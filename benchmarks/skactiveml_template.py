"""Runs scikit-activeml's own tests of a query strategy on `UnderstudyQuery`, once for every strategy of ours.

The library keeps these tests in its repository; its wheels carried them up to 0.6.1, and they did not change since:

    pip download --no-deps --only-binary :all: scikit-activeml==0.6.1
    unzip scikit_activeml-0.6.1-py3-none-any.whl -d TESTS
    python benchmarks/skactiveml_template.py TESTS --out benchmarks/results/skactiveml-template.json
"""

import argparse
import json
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import skactiveml
from skactiveml.classifier import SklearnClassifier
from sklearn.linear_model import LogisticRegression

from understudy.integrations.skactiveml import UnderstudyQuery
from understudy.learners.heads import Head
from understudy.learners.network import Network
from understudy.learners.training import Recipe
from understudy.strategies.registry import STRATEGIES

# As in tests/strategies/quick.py: what makes slow strategies quick.
GAME = {"iterations": 2, "batch_size": 8, "latent": 4}
QUICK: dict[str, dict[str, Any]] = {
    "vaal": GAME,
    "ta_vaal": GAME,
    "sraal": GAME,
    "bgadl": {"passes": 4, "iterations": 1, "batch_size": 4, "latent": 4},
    "uncertain_gcn": {"epochs": 5},
    "core_gcn": {"epochs": 5},
    "dal": {"max_epochs": 3},
}
HEAD = Head(hidden=(8, 5), recipe=Recipe(epochs=2, batch_size=8))
IMAGES = Network(recipe=Recipe(epochs=1, batch_size=8))


class Counted(unittest.TestResult):
    """Counts subtests too."""

    def __init__(self) -> None:
        super().__init__()
        self.subtests = self.subtests_failed = 0

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        self.subtests += 1
        self.subtests_failed += err is not None


def case_for(name: str, template: Any) -> type[unittest.TestCase]:
    """The library's tests, with our parameters."""

    class OfOurs(template, unittest.TestCase):  # type: ignore[misc]
        def setUp(self) -> None:
            rng = np.random.default_rng(0)
            X = rng.standard_normal((12, 3))
            if name == "bgadl":
                X = rng.integers(0, 255, (12, 32, 32)).astype(np.uint8)
            y = np.array([0, 1] + 10 * [np.nan])
            clf = SklearnClassifier(LogisticRegression(), classes=[0, 1], random_state=0)
            if name == "bgadl":
                clf = Flat(LogisticRegression(), classes=[0, 1], random_state=0)
            super().setUp(  # type: ignore[call-arg]
                qs_class=UnderstudyQuery,
                init_default_params={
                    "strategy": name,
                    "settings": QUICK.get(name),
                    "learner": IMAGES if name == "bgadl" else HEAD,
                },
                query_default_params_clf={"X": X, "y": y, "clf": clf},
            )

        def test_query_param_clf(self) -> None:
            super().test_query_param_clf(test_cases=[])

        def test_init_param_strategy(self) -> None:
            cases = [(1, TypeError), (None, TypeError), ("nobody", ValueError), ("random", None)]
            self._test_param("init", "strategy", cases, replace_init_params={"settings": None})

        def test_init_param_settings(self) -> None:
            self._test_param("init", "settings", [(1, TypeError), ({"nothing": 1}, (TypeError, ValueError))])

        def test_init_param_refit_after(self) -> None:
            self._test_param("init", "refit_after", [(0, ValueError), (1.5, ValueError), (3, None)])

        def test_init_param_learner(self) -> None:
            self._test_param("init", "learner", [(self.init_default_params["learner"], None)])

        def test_init_param_classes(self) -> None:
            self._test_param("init", "classes", [(None, None), ([0, 1], None)])

        def test_init_param_clf_embedding_flag_name(self) -> None:
            self._test_param("init", "clf_embedding_flag_name", [(1, TypeError), (True, TypeError), (None, None)])

        def test_init_param_device(self) -> None:
            self._test_param("init", "device", [("cpu", None), ("nowhere", (RuntimeError, ValueError))])

        def test_query(self) -> None:
            strategy = UnderstudyQuery(**self.init_default_params)
            rows, utilities = strategy.query(**self.query_default_params_clf, batch_size=3, return_utilities=True)
            self.assertEqual(len(set(rows.tolist())), 3)
            self.assertEqual(utilities.shape, (3, 12))
            self.assertTrue(np.isfinite(utilities[np.arange(3), rows]).all())

    return OfOurs


class Flat(SklearnClassifier):  # type: ignore[misc]
    """A classifier of images by their pixels."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(np.asarray(X).reshape(len(X), -1), y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(np.asarray(X).reshape(len(X), -1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path, help="the unpacked wheel that has them")
    parser.add_argument("--only", nargs="*", default=sorted(STRATEGIES), help="strategies")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    skactiveml.__path__.append(str(given.tests / "skactiveml"))
    from skactiveml.tests.template_query_strategy import TemplateSingleAnnotatorPoolQueryStrategy

    found = {}
    for name in given.only:
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(
            case_for(name, TemplateSingleAnnotatorPoolQueryStrategy)
        )
        result = Counted()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            suite.run(result)
        failed = [f"{test}: {trace.strip().splitlines()[-1]}" for test, trace in result.failures + result.errors]
        found[name] = {
            "tests": result.testsRun,
            "subtests": result.subtests,
            "failed": len(failed),
            "failures": failed,
        }
        print(f"{name:24} {result.testsRun} tests, {result.subtests} subtests, {len(failed)} failed", flush=True)
        for line in failed:
            print("   ", line[:300], file=sys.stderr)
    if given.out:
        given.out.write_text(
            json.dumps({"scikit-activeml": skactiveml.__version__, "tests_of": "0.6.1", "strategies": found}, indent=1)
        )


if __name__ == "__main__":
    main()
