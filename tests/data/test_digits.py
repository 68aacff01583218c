"""The digits, as features and as images: split once, the same way always."""

import numpy as np
from PIL import Image

from understudy.data.datasets import load_named


def test_pool_and_test_images_are_apart_scaled_and_alike_in_their_classes() -> None:
    pool, test = load_named("digits").parts
    assert pool.features is not None
    assert test.features is not None
    assert pool.features.dtype == np.float32
    assert (len(pool), len(test)) == (1297, 500)
    features = np.concatenate([pool.features, test.features])
    assert len(np.unique(features, axis=0)) == 1797  # no image twice, so none on both sides
    assert (features.min(), features.max()) == (0, 1)
    assert pool.labels is not None
    assert test.labels is not None
    np.testing.assert_allclose(np.bincount(pool.labels) / 1297, np.bincount(test.labels) / 500, atol=0.003)


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
