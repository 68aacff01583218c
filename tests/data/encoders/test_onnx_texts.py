import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.encoders.graphs import TABLE, WORDS, sentence_repository, token_graph, write_tokenizer
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import make_encoder
from understudy.errors import UnderstudyError

onnxruntime: Any = import_or_leave_out("onnxruntime")
import_or_leave_out("tokenizers")

TEXTS = ["a cat sleeps", "Dogs", "", "a dog runs a dog runs a dog runs", "a cat sleeps", *["cat"] * 9]


def rows_of(text: str, length: int) -> np.ndarray:
    """The tokens of a text by hand: words in small letters, cut so that [CLS] and [SEP] still fit."""
    words = ["dog", "##s"] if text == "Dogs" else text.split()
    kept = ["[CLS]", *words[: length - 2], "[SEP]"]
    return TABLE[[WORDS.index(word) for word in kept]]


def encode(name: str) -> np.ndarray:
    encoder = make_encoder(name)
    assert encoder.kind == "text"
    return encoder.encode([encoder.prepare(text) for text in TEXTS])


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalises", [True, False])
def test_texts_are_pooled_as_the_repository_says(tmp_path: Path, pooling: str, normalises: bool) -> None:
    folder = sentence_repository(tmp_path / "m", pooling=pooling, normalises=normalises)
    expected = np.stack([rows_of(text, 8).mean(0) if pooling == "mean" else rows_of(text, 8)[0] for text in TEXTS])
    expected = unit(expected) if normalises else expected
    for name in (f"onnx:{folder}", f"onnx:{folder / 'onnx' / 'model.onnx'}"):
        got = encode(name)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_options_take_the_place_of_what_the_repository_says(tmp_path: Path) -> None:
    folder = sentence_repository(tmp_path / "m")
    got = encode(f"onnx:{folder}?length=4&pool=mean&normalise=0")
    np.testing.assert_allclose(got, [rows_of(text, 4).mean(0) for text in TEXTS], rtol=1e-5, atol=1e-6)


def test_a_tokeniser_may_lie_elsewhere(tmp_path: Path) -> None:
    path = token_graph(tmp_path / "m.onnx", names=("input_ids", "attention_mask"))
    with pytest.raises(
        UnderstudyError, match=r"m\.onnx takes tokens, and no tokenizer\.json lies beside it; .*\?token"
    ):
        make_encoder(f"onnx:{path}")
    write_tokenizer(tmp_path / "words")
    for place in (tmp_path / "words", tmp_path / "words" / "tokenizer.json"):
        got = encode(f"onnx:{path}?tokenizer={place}")
        np.testing.assert_allclose(got, [rows_of(text, 512).mean(0) for text in TEXTS], rtol=1e-5, atol=1e-6)
    write_tokenizer(tmp_path)
    assert encode(f"onnx:{path}").shape == (len(TEXTS), 6)


def test_the_pooling_of_the_tokenisers_folder_counts_too(tmp_path: Path) -> None:
    path = token_graph(tmp_path / "m.onnx")
    folder = sentence_repository(tmp_path / "repository", pooling="cls", normalises=False)
    got = encode(f"onnx:{path}?tokenizer={folder}")
    np.testing.assert_allclose(got, [rows_of(text, 8)[0] for text in TEXTS], rtol=1e-5, atol=1e-6)


def test_the_identity_follows_all_that_changes_the_numbers(tmp_path: Path) -> None:
    folder = sentence_repository(tmp_path / "m")
    copy = shutil.copytree(folder, tmp_path / "copy")
    first = make_encoder(f"onnx:{folder}").identity
    assert make_encoder(f"onnx:{copy}").identity == first
    names = [f"onnx:{folder}?{option}" for option in ("length=4", "pool=cls", "normalise=0")]
    assert len({first, *(make_encoder(name).identity for name in names)}) == 4
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["normalizer"] = None
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert make_encoder(f"onnx:{copy}").identity != first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("?size=8", "there is no option 'size' for a graph of texts; there are output, pool, length"),
        ("?pool=max", "pool must be mean or cls; got 'max'"),
        ("?length=many", "length is a number of tokens, such as 256; got 'many'"),
        ("?normalise=yes", "normalise is 0 or 1; got 'yes'"),
        ("?output=odd", "has no output 'odd'; it has last_hidden_state"),
        ("?tokenizer=nowhere", "there is no tokeniser at nowhere; give a tokenizer.json or its folder"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, options: str, message: str) -> None:
    folder = sentence_repository(tmp_path / "m")
    with pytest.raises(UnderstudyError, match=message):
        make_encoder(f"onnx:{folder}{options}")


def test_broken_repositories_are_told(tmp_path: Path) -> None:
    folder = sentence_repository(tmp_path / "m", pooling="max")
    with pytest.raises(UnderstudyError, match="pools its tokens by pooling_mode_max_tokens; only cls and mean"):
        make_encoder(f"onnx:{folder}")
    (folder / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(UnderstudyError, match=r"1_Pooling/config\.json cannot be read .*copy the model's folder again"):
        make_encoder(f"onnx:{folder}")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UnderstudyError, match=r"tokenizer\.json is not a tokeniser"):
        make_encoder(f"onnx:{folder}?pool=mean")
    other = token_graph(tmp_path / "other.onnx", names=("input_ids", "odd"))
    with pytest.raises(UnderstudyError, match=r"takes odd, tensor.int64.; a graph of texts takes input_ids, attention"):
        make_encoder(f"onnx:{other}?tokenizer={folder}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnderstudyError, match="has no ONNX files; write onnx:FILE"):
        make_encoder(f"onnx:{tmp_path / 'empty'}")
