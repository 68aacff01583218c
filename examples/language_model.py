"""A local language model as a predictor: how likely is each class's name after the text?

    cd examples
    LANGUAGE_MODEL=path/to/model understudy annotate ../reviews.jsonl --with language_model:language_model

Any causal language model that transformers loads will do. `python examples/language_model.py` makes a tiny one on the
spot, which has learnt from a few sentences and nothing else, and lets it start a loop.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import ActiveLoop
from understudy.data.encoders.extras import import_library
from understudy.data.encoders.registry import make_encoder
from understudy.data.items import Texts
from understudy.data.pool import Pool

PROMPT = "{} In one word, this is"


@dataclass(frozen=True)
class LanguageModel:
    """Probabilities of the classes for texts, by the likelihood of their names as the next words."""

    model: Any
    tokenizer: Any
    classes: tuple[str, ...]
    prompt: str = PROMPT

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        scores = np.array([[self.log_likelihood(text, name) for name in self.classes] for text in texts])
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return np.asarray(weights / weights.sum(1, keepdims=True))

    @torch.inference_mode()
    def log_likelihood(self, text: str, name: str) -> float:
        """Of a class's name after the prompt: the mean over its tokens, so that long names are no less likely."""
        before = self.tokenizer(self.prompt.format(text))["input_ids"]
        after = self.tokenizer(f" {name}", add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*before, *after]])
        logs = self.model(input_ids=ids).logits[0].log_softmax(1)
        return float(logs[torch.arange(len(before), ids.shape[1]) - 1, ids[0, len(before) :]].mean())


def language_model(classes: Sequence[str]) -> LanguageModel:
    """What `--with` and `--predictions` call: the model in the folder LANGUAGE_MODEL, for these classes."""
    transformers = import_library("transformers", "finetune")
    folder = os.environ["LANGUAGE_MODEL"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    return LanguageModel(model, transformers.AutoTokenizer.from_pretrained(folder), tuple(classes))


# -- a tiny model, made on the spot ---------------------------------------------------------------------------------

PRAISE, BLAME = ("a joy", "truly warm", "great fun"), ("a bore", "rather dull", "no fun")


def make_tiny_model(folder: Path) -> None:
    """A language model of two thin layers that has read which words go with which verdict."""
    transformers = import_library("transformers", "finetune")
    from tokenizers import Tokenizer, models, pre_tokenizers

    verdicts = [(words, "good") for words in PRAISE] + [(words, "bad") for words in BLAME]
    sentences = [f"{PROMPT.format(f'It is {words} .')} {verdict}".split() for words, verdict in verdicts]
    words = ["<unk>", *dict.fromkeys(word for sentence in sentences for word in sentence)]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(words), n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.tensor([tokenizer(" ".join(sentence))["input_ids"] for sentence in sentences])  # all of one length
    for _ in range(100):
        loss = torch.nn.functional.cross_entropy(
            model(input_ids=ids).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
        )
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    texts = [f"It is {words} ." for words in (*PRAISE, *BLAME)] * 2
    truth = np.array([1, 1, 1, 0, 0, 0] * 2)
    with tempfile.TemporaryDirectory() as folder:
        make_tiny_model(Path(folder))
        os.environ["LANGUAGE_MODEL"] = folder
        predictor = language_model(("bad", "good"))
        encoder = make_encoder("words")
        features = encoder.encode([encoder.prepare(text) for text in texts])
        pool = Pool(tuple(map(str, range(len(texts)))), Texts(texts), features, classes=predictor.classes)
        loop = ActiveLoop(pool, "logistic", "margin", predictions=predictor)
    right = (loop.predict_classes(range(len(texts))) == truth).mean()
    row = int(loop.ask()[0])
    print(f"without a label the language model has {right:.0%} right; it doubts most of {texts[row]!r}")


if __name__ == "__main__":
    main()
