"""A zero-shot classifier of texts from a local encoder: a text is of the class whose description it is nearest to.

    cd examples
    understudy label ../reviews.jsonl --classes negative,positive --predictions zero_shot_texts:zero_shot
    understudy annotate ../reviews.jsonl --with zero_shot_texts:zero_shot --threshold 0.95
    understudy compare ../reviews.features --strategies understudy,margin --predictions zero_shot_texts:zero_shot

Nothing is trained and no label is used. Similarities alone favour some classes, since their descriptions are nearer to
any text, so each is compared with its mean over texts without labels. Their spread is set to one, which makes
probabilities of moderate confidence: how good they are cannot be known without labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy import ActiveLoop
from understudy.data.encoders.protocol import Encoder
from understudy.data.encoders.registry import make_encoder
from understudy.data.items import Texts
from understudy.data.pool import Pool

ENCODER = "text:sentence-transformers/all-MiniLM-L6-v2"  # or text: and a folder
DESCRIPTION = "a {} review"
LEAST_SPREAD = 0.025  # of similarities: a few texts alike would make the model sure of everything
# What the mean of a similarity is taken over, unless texts of the pool are given.
ORDINARY = ("It is what it is.", "I saw it yesterday.", "There are two of them.", "It takes about two hours.")


def embed(encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """Features of unit length."""
    found = np.asarray(encoder.encode([encoder.prepare(text) for text in texts]), np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True).clip(min=1e-12)


@dataclass(frozen=True)
class ZeroShot:
    """Probabilities of the classes for texts, by their similarity to a description of each class."""

    encoder: Encoder
    classes: tuple[str, ...]
    description: str = DESCRIPTION
    mean: float | np.ndarray = 0.0  # (c,): of the similarities, over texts without labels
    spread: float = 1.0

    def similarities(self, texts: Sequence[str]) -> np.ndarray:
        """(n, c): the cosines of texts and descriptions."""
        prompts = [self.description.format(name) for name in self.classes]
        return np.asarray(embed(self.encoder, texts) @ embed(self.encoder, prompts).T)

    def calibrated(self, texts: Sequence[str]) -> "ZeroShot":
        """The same, with the mean and spread of these texts' similarities: as if the classes were equally frequent.

        Hundreds of texts of the pool make a better model than the few ordinary ones, and need no label either.
        """
        found = self.similarities(texts)
        centred = found - found.mean(0)
        return replace(self, mean=found.mean(0), spread=max(float(np.ptp(centred, axis=1).std()), LEAST_SPREAD))

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        scores = (self.similarities(texts) - self.mean) / self.spread
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return np.asarray(weights / weights.sum(1, keepdims=True))


def zero_shot(classes: Sequence[str]) -> ZeroShot:
    """What the commands above call: the classifier for these classes."""
    return ZeroShot(make_encoder(ENCODER), tuple(classes)).calibrated(ORDINARY)


def main() -> None:
    """The same with an encoder that needs no download, which only sees the words that texts share."""
    texts = [
        "Rain and wind, then more rain.",
        "A late goal won the match.",
        "Sunny, with wind from the west.",
        "Two goals in the first match.",
        "No rain until the evening.",
        "The team lost its last match.",
    ]
    encoder = make_encoder("words")
    classes = ("wind and rain", "goals of a match")
    predictor = ZeroShot(encoder, classes, "{}").calibrated(texts)
    pool = Pool(tuple(map(str, range(len(texts)))), Texts(texts), embed(encoder, texts), classes=classes)
    loop = ActiveLoop(pool, "logistic", "margin", predictions=predictor)
    for row in loop.ask(len(texts)).tolist():  # in the order of doubt, before there is any label
        probs = loop.view.probs[row].numpy()
        print(f"{texts[row]:34} {classes[probs.argmax()]:18} {probs.max():.0%}")


if __name__ == "__main__":
    main()
