"""An ONNX file as an encoder of texts, with the tokeniser that lies beside it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from understudy.data.encoders.extras import import_library, major_version, one_line
from understudy.data.encoders.model_configs import (
    config_folders,
    find_config,
    is_normalised_in,
    pooling_in,
    text_length_in,
)
from understudy.data.encoders.onnx_weights import digests
from understudy.data.encoders.protocol import Prepared, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.items import Kind
from understudy.errors import UnderstudyError, UsageError

INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
TYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
OPTIONS: Final = ("output", "pool", "length", "normalise", "tokenizer")
READY: Final = "sentence_embedding"  # the output of graphs that pool themselves
TEXTS_AT_ONCE: Final = 8  # of like length, so that little is computed for padding


@dataclass(frozen=True)
class TextOptions:
    """How texts become rows: tokens up to `length`, pooled by "mean" or "cls", and brought to length 1 or not."""

    length: int
    pool: str
    normalise: bool


class OnnxTextEncoder:
    """Rows of an output (b, d), or of tokens (b, t, d) that are pooled; the precision is the graph's own."""

    kind: Kind = "text"

    def __init__(self, name: str, identity: str, session: Any, tokenizer: Any, output: str, options: TextOptions):
        self.name, self.identity, self.output, self.options = name, identity, output, options
        self.session, self.tokenizer = session, tokenizer
        # What fills short texts; the mask leaves it out, whatever it is.
        fillers = [tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>")]
        self.filler = next((number for number in fillers if number is not None), 0)
        self.inputs = {entry.name: TYPES[entry.type] for entry in session.get_inputs()}
        self.dim = self.encode(["a text"]).shape[1]

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, str)
        return item.encode("utf-8", "replace").decode()  # halves of characters cannot be tokenised

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        tokens = self.tokenizer.encode_batch([str(text) for text in batch])
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place].ids))
        rows: list[np.ndarray] = [np.empty(0)] * len(tokens)
        for start in range(0, len(order), TEXTS_AT_ONCE):
            places = order[start : start + TEXTS_AT_ONCE]
            for place, row in zip(places, self.run([tokens[place] for place in places]), strict=True):
                rows[place] = row
        return np.stack(rows)

    def run(self, tokens: Sequence[Any]) -> np.ndarray:
        """(b, d): features of some tokenised texts."""
        longest = max(1, *(len(text.ids) for text in tokens))
        mask = np.array([_fill([1] * len(text.ids), longest, 0) for text in tokens])
        values = {
            "input_ids": np.array([_fill(text.ids, longest, self.filler) for text in tokens]),
            "attention_mask": mask,
            "token_type_ids": np.array([_fill(text.type_ids, longest, 0) for text in tokens]),
            "position_ids": np.tile(np.arange(longest), (len(tokens), 1)),
        }
        given = {name: values[name].astype(dtype) for name, dtype in self.inputs.items()}
        found = np.asarray(self.session.run([self.output], given)[0], dtype=np.float32)
        if found.ndim == 3:
            found = found[:, 0] if self.options.pool == "cls" else _mean_of_tokens(found, mask)
        if found.ndim != 2:
            raise UnderstudyError(f"{self.name} gives shape {found.shape}; choose another output, ?output=NAME")
        if self.options.normalise:
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found.astype(np.float32)


def _fill(numbers: list[int], length: int, value: int) -> list[int]:
    return numbers + [value] * (length - len(numbers))


def _mean_of_tokens(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
    weights = mask[:, :, None].astype(np.float32)
    mean: np.ndarray = (tokens * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
    return mean


def takes_texts(session: Any) -> bool:
    """Whether a graph takes tokens rather than images."""
    return any(entry.name == INPUTS[0] for entry in session.get_inputs())


def onnx_text_encoder(spec: Spec, path: Path, session: Any, library: str) -> OnnxTextEncoder:
    """The encoder of a graph that takes tokens. The tokeniser is the `tokenizer.json` beside it, or the one named."""
    unknown = [name for name in spec.options if name not in OPTIONS]
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r} for a graph of texts; there are {', '.join(OPTIONS)}")
    for entry in session.get_inputs():
        if entry.name not in INPUTS or entry.type not in TYPES:
            raise UnderstudyError(
                f"{path} takes {entry.name}, {entry.type}; a graph of texts takes {', '.join(INPUTS)} as integers"
            )
    folders = config_folders(path)
    file = _tokenizer_file(path, folders, spec.options.get("tokenizer"))
    folders = [*folders, *(folder for folder in [file.parent] if folder not in folders)]
    options = _text_options(folders, spec.options)
    outputs = [output.name for output in session.get_outputs()]
    output = spec.options.get("output", READY if READY in outputs else outputs[0])
    if output not in outputs:
        raise UsageError(f"{path} has no output {output!r}; it has {', '.join(outputs)}")
    tokenizers = import_library("tokenizers", "onnx")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises the plain Exception
        raise UnderstudyError(f"{file} is not a tokeniser ({one_line(error)}); copy it again") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(options.length)
    identity = identity_of(
        kind="onnx text",
        library=f"{library}, tokenizers {major_version(tokenizers)}",
        files=digests(path),
        tokenizer=hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest(),
        output=output,
        options=[options.length, options.pool, options.normalise],
    )
    return OnnxTextEncoder(spec.name, identity, session, tokenizer, output, options)


def _tokenizer_file(path: Path, folders: list[Path], given: str | None) -> Path:
    if given is not None:
        file = Path(given).expanduser()
        file = file / "tokenizer.json" if file.is_dir() else file
        if not file.is_file():
            raise UsageError(f"there is no tokeniser at {given}; give a tokenizer.json or its folder")
        return file
    found = find_config(folders, "tokenizer.json")
    if found is None:
        raise UsageError(
            f"{path} takes tokens, and no tokenizer.json lies beside it; copy the model's there, "
            f"or write onnx:{path}?tokenizer=FILE"
        )
    return found


def _text_options(folders: list[Path], given: Mapping[str, str]) -> TextOptions:
    """What the files beside the model say, with what people say in its place."""
    length = given.get("length", str(text_length_in(folders)))
    if not (length.isascii() and length.isdigit() and int(length) > 0):
        raise UsageError(f"length is a number of tokens, such as 256; got {length!r}")
    pool = given["pool"] if "pool" in given else pooling_in(folders)
    if pool not in ("mean", "cls"):
        raise UsageError(f"pool must be mean or cls; got {pool!r}")
    normalise = given.get("normalise", "1" if is_normalised_in(folders) else "0")
    if normalise not in ("0", "1"):
        raise UsageError(f"normalise is 0 or 1; got {normalise!r}")
    return TextOptions(int(length), pool, normalise == "1")
