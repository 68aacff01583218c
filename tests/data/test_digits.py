"""The digits are those of the demo, as features and as images."""

import numpy as np
from PIL import Image

from understudy.data.datasets import load_named
from understudy.experiments import demo


def test_the_split_is_that_of_the_demo() -> None:
    data, task = load_named("digits"), demo.digits()
    assert data.test is not None
    for pool, features, labels in ((data.pool, task.pool, task.pool_labels), (data.test, task.test, task.test_labels)):
        assert pool.features is not None
        assert pool.features.dtype == np.float32
        assert np.array_equal(pool.features, features)
        assert pool.labels is not None
        assert np.array_equal(pool.labels, labels)


def test_images_show_what_the_features_say() -> None:
    pool = load_named("digits").pool
    assert pool.items is not None
    assert pool.features is not None
    image, _ = pool.items.decode(5, pool.items.read(5))
    assert isinstance(image, Image.Image)
    grey = np.asarray(image)[:, :, 0]
    assert grey.shape == (8, 8)
    assert np.abs(grey.ravel() / 255 - pool.features[5]).max() <= 0.5 / 255 + 1e-6
    assert grey.max() == 255


def test_identities_are_rows_of_scikit_learns_set() -> None:
    data = load_named("digits")
    assert data.test is not None
    assert sorted(data.pool.ids + data.test.ids) == [f"digits/{row:04d}" for row in range(1797)]
    assert not data.pool.faults
