import numpy as np
import pytest

from tests.data.encoders.pictures import picture
from understudy.data.encoders import make_encoder
from understudy.errors import UnderstudyError


def test_pixels_are_the_image_from_0_to_1() -> None:
    encoder = make_encoder("pixels")
    images = [picture(0, 32, 32), picture(1, 32, 32)]
    got = encoder.encode([encoder.prepare(image) for image in images])
    np.testing.assert_array_equal(got, np.stack([np.asarray(i).flatten() for i in images]).astype(np.float32) / 255)
    assert encoder.dim == 3072
    assert got.dtype == np.float32


def test_pixels_may_be_small_and_grey() -> None:
    encoder = make_encoder("pixels?size=8x4&grey=1")
    got = encoder.encode([encoder.prepare(picture(0))])
    small = picture(0).resize((4, 8), 2).convert("L")
    np.testing.assert_array_equal(got, np.asarray(small, np.float32).reshape(1, 32) / 255)
    assert encoder.dim == 32


def test_identity_follows_size_and_grey() -> None:
    names = ["pixels", "pixels?size=16", "pixels?size=32&grey=1", "pixels?size=16x32"]
    assert len({make_encoder(name).identity for name in names}) == 4
    assert make_encoder("pixels?size=32").identity == make_encoder("pixels").identity


@pytest.mark.parametrize(
    "wrong",
    [
        "pixels:x",
        "pixels@w.pt",
        "pixels?colour=1",
        "pixels?grey=perhaps",
        "pixels?size",
        "pixels?size=0",
        "pixels?size=99999999",
    ],
)
def test_what_pixels_do_not_take_is_refused(wrong: str) -> None:
    with pytest.raises(UnderstudyError, match=r"write|there are|grey is 0 or 1|options are written|from 1 to 4096"):
        make_encoder(wrong)
