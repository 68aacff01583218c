"""Tiny ONNX graphs in the layout of the official repositories: one of tokens, one of patches of images."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "dog", "sleeps", "runs", "##s"]
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
PATCHES = np.random.default_rng(1).normal(size=(5, 3, 4, 4)).astype(np.float32)


def save_graph(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], tensors: list[Any]) -> Path:
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def token_graph(path: Path, *, names: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids")) -> Path:
    """Each token's row of a table, whatever stands beside it: (b, t, 6). The other inputs only have to be given."""
    kind = TensorProto.INT64
    inputs = [helper.make_tensor_value_info(name, kind, ["b", "t"]) for name in names]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    last = "rows"
    for name in names[1:]:  # used, times nothing
        nodes += [
            helper.make_node("Cast", [name], [f"{name} f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name} f", "zero"], [f"{name} z"]),
            helper.make_node("Unsqueeze", [f"{name} z", "axis"], [f"{name} u"]),
            helper.make_node("Add", [last, f"{name} u"], [f"{name} s"]),
        ]
        last = f"{name} s"
    nodes.append(helper.make_node("Identity", [last], ["last_hidden_state"]))
    tensors = [
        numpy_helper.from_array(TABLE, "table"),
        numpy_helper.from_array(np.zeros(1, np.float32), "zero"),
        numpy_helper.from_array(np.array([-1], np.int64), "axis"),
    ]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "t", 6])]
    return save_graph(path, nodes, inputs, outputs, tensors)


def patch_graph(path: Path) -> Path:
    """Patches of 4 x 4 as tokens after a first one of their mean: (b, 1 + t, 5), of images of any size."""
    shape = ["batch_size", "num_channels", "height", "width"]
    nodes = [
        helper.make_node("Conv", ["pixel_values", "kernel"], ["map"], strides=[4, 4]),
        helper.make_node("Reshape", ["map", "flat"], ["columns"]),
        helper.make_node("Transpose", ["columns"], ["tokens"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["tokens"], ["first"], axes=[1], keepdims=1),
        helper.make_node("Concat", ["first", "tokens"], ["last_hidden_state"], axis=1),
    ]
    tensors = [
        numpy_helper.from_array(PATCHES, "kernel"),
        numpy_helper.from_array(np.array([0, 5, -1], np.int64), "flat"),
    ]
    inputs = [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, None)]
    return save_graph(path, nodes, inputs, outputs, tensors)


def write_tokenizer(folder: Path) -> None:
    """The `tokenizer.json` of a BERT that knows ten words."""
    import tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    words = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(folder / "tokenizer.json"))


def sentence_repository(folder: Path, *, pooling: str = "mean", normalises: bool = True, length: int = 8) -> Path:
    """A repository of sentence-transformers with a graph, as the hub has it."""
    token_graph(folder / "onnx" / "model.onnx")
    write_tokenizer(folder)
    configs: dict[str, Any] = {
        "config.json": {"model_type": "bert", "max_position_embeddings": 512},
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
        "tokenizer_config.json": {"model_max_length": 512, "pad_token": "[PAD]"},
        "1_Pooling/config.json": {
            "word_embedding_dimension": 6,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": pooling == "max",
        },
        "modules.json": [
            {"idx": place, "name": str(place), "path": "", "type": f"sentence_transformers.models.{kind}"}
            for place, kind in enumerate(["Transformer", "Pooling", *(["Normalize"] if normalises else [])])
        ],
    }
    for name, content in configs.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


def image_repository(folder: Path) -> Path:
    """A repository of the DINOv2 family with a graph, as the hub has it."""
    patch_graph(folder / "onnx" / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"model_type": "dinov2", "hidden_size": 5}))
    preparing = {
        "do_resize": True, "size": {"shortest_edge": 16}, "do_center_crop": True,
        "crop_size": {"height": 12, "width": 12}, "resample": 3, "do_rescale": True, "rescale_factor": 1 / 255,
        "do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4],
        "image_processor_type": "BitImageProcessor",
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(preparing))
    return folder
