from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.data.encoders.pictures import picture
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import Preprocessing
from understudy.data.encoders.preprocessing import Interpolation
from understudy.errors import UnderstudyError

timm: Any = import_or_leave_out("timm")


def tensor(preprocessing: Preprocessing, image: Image.Image) -> torch.Tensor:
    return preprocessing.normalise(torch.from_numpy(preprocessing.resize_to_shape(image).copy())[None])[0]


@pytest.mark.parametrize("size", [(48, 40), (40, 48), (33, 97), (32, 32), (300, 31)])
@pytest.mark.parametrize("crop", [1.0, 0.875])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_crop_prepares_an_image_as_timm_does(size: tuple[int, int], crop: float, interpolation: str) -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    ours = Preprocessing(size=32, resize="crop", crop=crop, interpolation=interpolation, mean=mean, std=std)  # type: ignore[arg-type]
    theirs = timm.data.create_transform(
        (3, 32, 32), interpolation=interpolation, mean=mean, std=std, crop_pct=crop, crop_mode="center"
    )
    image = picture(0, *size)
    torch.testing.assert_close(tensor(ours, image), theirs(image), rtol=0, atol=1e-5)


def test_squash_keeps_the_whole_image() -> None:
    image = Image.new("RGB", (400, 20), "black")
    image.paste("white", (200, 0, 400, 20))
    squashed = Preprocessing(size=4).resize_to_shape(image)
    assert squashed.shape == (4, 4, 3)
    assert (squashed[:, 0] == 0).all()
    assert (squashed[:, 3] == 255).all()
    cropped = Preprocessing(size=4, resize="crop").resize_to_shape(image)
    assert (cropped[:, 0] < 128).all()
    assert (cropped[:, 3] > 128).all()


def test_height_comes_before_width() -> None:
    assert Preprocessing(size=(10, 20)).resize_to_shape(picture(0)).shape == (10, 20, 3)
    assert Preprocessing(size=(10, 20), resize="crop").resize_to_shape(picture(0)).shape == (10, 20, 3)


def test_the_formula_is_evaluated_channel_by_channel() -> None:
    pixels = np.array([[[10, 20, 30]]], np.uint8)
    rgb = Preprocessing(size=1, scale=0.5, mean=(1, 2, 3), std=(2, 4, 8))
    bgr = Preprocessing(size=1, scale=0.5, mean=(1, 2, 3), std=(2, 4, 8), order="bgr")
    image = Image.fromarray(pixels)
    assert tensor(rgb, image).flatten().tolist() == [(5 - 1) / 2, (10 - 2) / 4, (15 - 3) / 8]
    assert tensor(bgr, image).flatten().tolist() == [(15 - 1) / 2, (10 - 2) / 4, (5 - 3) / 8]


def test_grey_is_the_same_in_three_channels() -> None:
    grey = Preprocessing(size=8).resize_to_shape(picture(0).convert("L"))
    assert grey.shape == (8, 8, 3)
    assert (grey[..., 0] == grey[..., 2]).all()
    assert grey.std() > 0


def test_options_change_what_they_name() -> None:
    options = {
        "size": "64x32",
        "resize": "crop",
        "crop": "0.5",
        "mean": "0.5",
        "std": "1,2,3",
        "order": "bgr",
        "scale": "1",
    }
    assert Preprocessing().with_options(options) == Preprocessing(
        size=(64, 32), resize="crop", crop=0.5, mean=(0.5, 0.5, 0.5), std=(1, 2, 3), order="bgr", scale=1
    )
    assert Preprocessing().with_options({"size": "64"}).shape == (64, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "1"}, "no option 'colour' for this encoder; there are size, resize"),
        ({"size": "big"}, "size must be a number.*got 'big'"),
        ({"size": "0"}, "each side must have from 1 to 4096 pixels; got size 0"),
        ({"size": "-3"}, "each side must have from 1 to 4096 pixels; got size -3"),
        ({"size": "99999999"}, "each side must have from 1 to 4096 pixels; got size 99999999"),
        ({"size": "8x4097"}, r"each side must have from 1 to 4096 pixels; got size \(8, 4097\)"),
        ({"size": "1x2x3"}, "size is one number, or height x width; got '1x2x3'"),
        ({"crop": "1.5"}, "crop is the part .* got 1.5"),
        ({"mean": "1,2"}, "mean has one number or one for each of three channels; got '1,2'"),
        ({"std": "0"}, "std divides and must not be zero"),
        ({"resize": "bend"}, "resize must be one of squash, crop; got 'bend'"),
        ({"order": "gbr"}, "order must be one of rgb, bgr; got 'gbr'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        Preprocessing().with_options(options)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "hamming", "lanczos"])
@pytest.mark.parametrize("size", [(2000, 40), (30, 1000), (1000, 1)])
@pytest.mark.parametrize("crop", [1.0, 0.875])
def test_of_a_narrow_image_the_middle_is_the_same_but_for_rounding(
    size: tuple[int, int], interpolation: Interpolation, crop: float
) -> None:
    # No black and white: what overshoots them is cut, and whether rows or columns come first then shows.
    noise = Image.fromarray(np.random.default_rng(0).integers(80, 176, (size[1], size[0], 3), dtype=np.uint8))
    preprocessing = Preprocessing(size=32, resize="crop", crop=crop, interpolation=interpolation)
    got = preprocessing.resize_to_shape(noise).astype(int)
    expected = preprocessing.resize_to_shape(noise, narrow=np.inf)
    assert np.abs(got - expected).max() <= 2  # of 255: it is rounded twice, after rows and after columns


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000), (100_000, 3)])
def test_a_narrow_image_costs_no_more_than_another(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    resize = Image.Image.resize

    def noting(image: Image.Image, wanted: tuple[int, int], *rest: Any) -> Image.Image:
        asked.append(wanted)
        return resize(image, wanted, *rest)

    monkeypatch.setattr(Image.Image, "resize", noting)
    assert Preprocessing(resize="crop", crop=0.5).resize_to_shape(Image.new("RGB", size, "red")).shape == (224, 224, 3)
    assert asked == [(224, 224)]
