"""Models of Hugging Face that are small enough to be trained in a test, and texts and images for them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from understudy.data.encoders.extras import import_library

GOOD, BAD = ("good", "fine", "great"), ("bad", "poor", "awful")
OTHERS = ("film", "the", "was", "a", "very", "story")


def tiny_bert(folder: Path) -> Path:
    """A model of texts with two layers of width 32 and random weights, with its tokeniser."""
    from tokenizers import Tokenizer, models, pre_tokenizers  # here, so that the images below need no extra

    transformers = import_library("transformers", "finetune")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *GOOD, *BAD, *OTHERS]
    tokens = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_resnet(folder: Path) -> Path:
    """A model of images with two stages and random weights, with its image processor."""
    transformers = import_library("transformers", "finetune")
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.ResNetForImageClassification(config).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    return folder


def reviews(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of four words, two of which say whether they are praise (1) or not (0)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    telling = [rng.choice(GOOD if label else BAD, 2) for label in labels]
    texts = [" ".join(rng.permutation([*rng.choice(OTHERS, 2), *words])) for words in telling]
    return texts, labels


def coloured_images(n: int, seed: int = 0) -> tuple[list[Image.Image], np.ndarray]:
    """Images of several sizes, mostly red (0) or mostly blue (1)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    images = []
    for row, label in enumerate(labels):
        pixels = rng.integers(0, 100, (20 + row % 3, 24, 3), dtype=np.uint8)
        pixels[:, :, 2 * label] += 150
        images.append(Image.fromarray(pixels))
    return images, labels


class Breaking(list[Image.Image]):
    """Images of which some can be read, and then no more: what reading the next raises is given."""

    def __init__(self, images: list[Image.Image], reads: int, error: BaseException) -> None:
        super().__init__(images)
        self.reads_left, self.error = reads, error

    def __getitem__(self, row: Any) -> Any:
        self.reads_left -= 1
        if self.reads_left == 0:
            raise self.error
        return super().__getitem__(row)
