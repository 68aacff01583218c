import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import make_encoder
from understudy.errors import UnderstudyError

sentence_transformers: Any = import_or_leave_out("sentence_transformers")
modules: Any = import_or_leave_out("sentence_transformers.sentence_transformer.modules")
transformers: Any = import_or_leave_out("transformers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "text", "cat", "dog", "runs", "sleeps", "##s"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder of one layer, as save() writes it."""
    root = tmp_path_factory.mktemp("sentences")
    (root / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).save_pretrained(root / "bert")
    transformers.BertTokenizerFast(str(root / "vocab.txt")).save_pretrained(root / "bert")
    words = modules.Transformer(str(root / "bert"), max_seq_length=16)
    sentence_transformers.SentenceTransformer(modules=[words, modules.Pooling(16)], device="cpu").save(
        str(root / "model")
    )
    return root / "model"


def test_texts_become_the_means_of_their_words(folder: Path) -> None:
    encoder = make_encoder(f"text:{folder}")
    assert (encoder.dim, encoder.kind) == (16, "text")
    texts = ["a cat sleeps", "dog runs", "a"]
    got = encoder.encode([encoder.prepare(text) for text in texts])
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    bert, tokenizer = model[0].auto_model.eval(), model.tokenizer
    for text, row in zip(texts, got, strict=True):
        with torch.inference_mode():
            expected = bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def test_the_identity_follows_weights_and_length(folder: Path, tmp_path: Path) -> None:
    encoder = make_encoder(f"text:{folder}")
    assert make_encoder(f"text:{folder}").identity == encoder.identity
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 8
    model.save(str(tmp_path / "short"))
    assert make_encoder(f"text:{tmp_path / 'short'}").identity != encoder.identity
    state = model.state_dict()
    torch.save(
        {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in state.items()},
        tmp_path / "w.pt",
    )
    assert make_encoder(f"text:{folder}@{tmp_path / 'w.pt'}").identity != encoder.identity


def test_a_folder_with_code_of_its_own_is_refused_and_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "evil.py").write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\nclass Thing: pass\n")
    (tmp_path / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Thing"}]))
    with pytest.raises(UnderstudyError, match=r"wants to run code of its own \(evil\.Thing\), which is not done"):
        make_encoder(f"text:{tmp_path}")
    assert not marker.exists()


def test_what_cannot_be_had_is_one_line() -> None:
    with pytest.raises(UnderstudyError, match=r"nobody/nothing could not be had from the hub .*text:FOLDER") as caught:
        make_encoder("text:nobody/nothing")
    assert "\n" not in str(caught.value)


def test_a_pooler_that_was_never_trained_does_not_change_the_identity(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    state = load_file(tmp_path / "model.safetensors")
    trained = {name: tensor for name, tensor in state.items() if "pooler" not in name}
    assert len(trained) < len(state)
    save_file(trained, tmp_path / "model.safetensors", metadata={"format": "pt"})
    before = torch.random.get_rng_state()
    assert make_encoder(f"text:{tmp_path}").identity == make_encoder(f"text:{tmp_path}").identity
    assert torch.equal(torch.random.get_rng_state(), before)
