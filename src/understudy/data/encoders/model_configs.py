"""What the files beside a model say of it, in the layout of the official repositories: images' size, texts' length."""

import json
from pathlib import Path
from typing import Any, Final

from understudy.data.encoders.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Interpolation, Preprocessing
from understudy.errors import UnderstudyError

GRAPH_FOLDER: Final = "onnx"  # where repositories keep their graphs, below the files that describe the model
INTERPOLATIONS: Final[tuple[Interpolation, ...]] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
UNKNOWN_LENGTH: Final = 512  # tokens of a text, where nothing says how many the model takes
MAX_LENGTH: Final = 100_000  # tokenisers that know no limit write a very large number


def config_folders(file: Path) -> list[Path]:
    """The folders in which what belongs to a model's file may lie."""
    return [file.parent, file.parent.parent] if file.parent.name == GRAPH_FOLDER else [file.parent]


def find_config(folders: list[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _read_config(folders: list[Path], name: str) -> dict[str, Any]:
    """What a JSON file in one of the folders says; nothing where there is none."""
    path = find_config(folders, name)
    if path is None:
        return {}
    found = _read_json(path)
    if not isinstance(found, dict):
        raise UnderstudyError(f"{path} does not describe a model; copy the model's folder again")
    return found


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"{path} cannot be read ({error}); copy the model's folder again") from error


def preprocessing_in(folders: list[Path]) -> Preprocessing | None:
    """What `preprocessor_config.json` says of images; None where there is no such file."""
    found = _read_config(folders, "preprocessor_config.json")
    if not found:
        return None
    path = find_config(folders, "preprocessor_config.json")
    try:
        size = found.get("size", 224)
        cropped = found.get("crop_size", size) if found.get("do_center_crop") else None
        height, width = _sides(size if cropped is None else cropped)
        shortest = _shortest_side(size)
        normalises = found.get("do_normalize", True)
        return Preprocessing(
            size=height if height == width else (height, width),
            resize="squash" if cropped is None and shortest is None else "crop",
            crop=1.0 if cropped is None or shortest is None else min(1.0, min(height, width) / shortest),
            interpolation=INTERPOLATIONS[int(found.get("resample", 2))],
            mean=_three(found.get("image_mean", IMAGENET_MEAN)) if normalises else (0.0, 0.0, 0.0),
            std=_three(found.get("image_std", IMAGENET_STD)) if normalises else (1.0, 1.0, 1.0),
            scale=float(found.get("rescale_factor", 1 / 255)) if found.get("do_rescale", True) else 1.0,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UnderstudyError(f"{path} does not say how images are prepared ({error}); copy it again") from error


def _sides(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if "shortest_edge" in size:
        return int(size["shortest_edge"]), int(size["shortest_edge"])
    return int(size["height"]), int(size["width"])


def _shortest_side(size: Any) -> int | None:
    """To how many pixels the short side of an image is brought; None where both sides are given."""
    if isinstance(size, int):
        return size
    return int(size["shortest_edge"]) if "shortest_edge" in size else None


def _three(numbers: Any) -> tuple[float, float, float]:
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue


def text_length_in(folders: list[Path]) -> int:
    """How many tokens of a text the model takes."""
    told = [
        _read_config(folders, "sentence_bert_config.json").get("max_seq_length"),
        _read_config(folders, "tokenizer_config.json").get("model_max_length"),
        _read_config(folders, "config.json").get("max_position_embeddings"),
    ]
    lengths = [int(number) for number in told if isinstance(number, int | float) and 0 < number < MAX_LENGTH]
    return min(lengths, default=UNKNOWN_LENGTH)


def pooling_in(folders: list[Path]) -> str:
    """How the tokens of a text become one row: "cls" takes the first, "mean" the mean of all."""
    found = _read_config(folders, "1_Pooling/config.json")
    mode = found.get("pooling_mode")
    if mode == "cls" or found.get("pooling_mode_cls_token") is True:
        return "cls"
    wanted = [name for name, value in found.items() if name.startswith("pooling_mode_") and value is True]
    if mode not in (None, "mean") or any(name != "pooling_mode_mean_tokens" for name in wanted):
        raise UnderstudyError(f"the model pools its tokens by {mode or wanted[0]}; only cls and mean are known here")
    return "mean"


def is_normalised_in(folders: list[Path]) -> bool:
    """Whether the model brings its rows to length 1 at the end."""
    path = find_config(folders, "modules.json")
    listed = [] if path is None else _read_json(path)
    return isinstance(listed, list) and any(str(part.get("type", "")).endswith("Normalize") for part in listed)
