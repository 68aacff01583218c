from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from tests.learners.tasks import blobs
from understudy import UnderstudyError
from understudy.hooks import TrainingHook
from understudy.learners.classifiers import Classifier
from understudy.learners.heads import Head
from understudy.learners.protocol import Job, Learner, fit_many
from understudy.learners.training import Recipe


@pytest.mark.parametrize("learner", [Head((8,), recipe=Recipe(epochs=3)), Classifier(GaussianNB())])
def test_many_models_can_be_had_of_any_learner(learner: Learner) -> None:
    jobs = [Job(*blobs(20 + n), n) for n in (0, 10, 0)]
    for job, model in zip(jobs, fit_many(learner, jobs, 3), strict=True):
        alone: Any = learner.fit(job.inputs, job.labels, 3, seed=job.seed)
        np.testing.assert_allclose(model.predict_proba(job.inputs), alone.predict_proba(job.inputs), atol=1e-5)


def test_a_learner_that_takes_no_hook_says_so() -> None:
    with pytest.raises(UnderstudyError, match="Classifier does not support training hooks"):
        fit_many(Classifier(GaussianNB()), [Job(*blobs(9))], 3, hook=TrainingHook())
