import numpy as np
import pytest
import torch
from torch import nn

from tests.data.encoders.pictures import picture
from understudy.data.encoders import ImageEncoder, Preprocessing
from understudy.errors import UnderstudyError

SMALL = Preprocessing(size=8)


def network(seed: int = 0, columns: int = 5) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, columns, 3, stride=2), nn.BatchNorm2d(columns), nn.Dropout(0.5))


def test_a_map_is_averaged_and_dropout_is_off() -> None:
    module = network()
    encoder = ImageEncoder(module, SMALL)
    images = [encoder.prepare(picture(seed)) for seed in range(4)]
    got = encoder.encode(images)
    assert encoder.dim == 5
    pixels = SMALL.normalise(torch.from_numpy(np.stack([np.asarray(image) for image in images])))
    np.testing.assert_allclose(got, module.eval()(pixels).mean((2, 3)).detach(), rtol=1e-5)
    np.testing.assert_array_equal(got, encoder.encode(images))


def test_identity_is_that_of_network_weights_and_preprocessing_or_what_is_given() -> None:
    first = ImageEncoder(network(), SMALL).identity
    assert ImageEncoder(network(), SMALL, name="other").identity == first
    assert ImageEncoder(network(seed=1), SMALL).identity != first
    assert ImageEncoder(network(), Preprocessing(size=9)).identity != first
    assert ImageEncoder(network(), SMALL, precision="bfloat16").identity != first
    given = [ImageEncoder(network(seed), SMALL, identity="mine, version 1").identity for seed in range(2)]
    assert given[0] == given[1] != first
    without_weights = nn.Sequential(nn.Conv2d(3, 5, 3, stride=2, bias=False), nn.ReLU())
    other = nn.Sequential(without_weights[0], nn.Tanh())
    assert ImageEncoder(without_weights, SMALL).identity != ImageEncoder(other, SMALL).identity


@pytest.mark.parametrize("module", [nn.Flatten(0), nn.Flatten(2)])
def test_a_network_of_another_shape_is_refused(module: nn.Module) -> None:
    with pytest.raises(UnderstudyError, match=r"an encoder must make \(items, columns\).* got shape"):
        ImageEncoder(module, SMALL)
