"""The checks of shapes that all other tests rely on are switched on."""

import jaxtyping
import pytest
import torch

from understudy.core.kernels import squared_distances


def test_a_wrong_shape_is_an_error_in_tests() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        squared_distances(torch.zeros((2, 3)), torch.zeros((2, 4)))
