"""Texts as features: any model of sentence-transformers, from the hub or a folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from understudy.data.encoders.extras import explain_hub_errors, import_library, major_version, quiet_transformers
from understudy.data.encoders.hub_models import folder_or_name
from understudy.data.encoders.protocol import Prepared, digest_of, identity_of
from understudy.data.encoders.spec import Spec
from understudy.data.encoders.weights import load_weights
from understudy.data.items import Kind
from understudy.errors import UnderstudyError, UsageError


class SentenceEncoder:
    kind: Kind = "text"

    def __init__(self, spec: Spec, identity: str, model: Any) -> None:
        self.name, self.identity, self.precision = spec.name, identity, spec.precision
        self.device = torch.device(spec.device)
        self.model = model
        self.dim = self.encode(["a text"]).shape[1]

    def prepare(self, item: Image.Image | str) -> Prepared:
        assert isinstance(item, str)
        return item

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            features = self.model.encode(
                list(batch), batch_size=len(batch), convert_to_tensor=True, show_progress_bar=False
            )
        return features.float().cpu().numpy()


def sentence_encoder(spec: Spec) -> SentenceEncoder:
    if spec.options:
        raise UsageError(f"text:{spec.model} takes no options; leave out what follows ?")
    library_of_sentences = import_library("sentence_transformers", "text")
    model = folder_or_name(spec.model, "text")
    _require_no_code(Path(model))
    remedy = "give a folder that its save() wrote, text:FOLDER"
    # A checkpoint may lack a pooler, which is then random. Sentences do not use it, but it is among the weights.
    with quiet_transformers(), torch.random.fork_rng(devices=[]), explain_hub_errors(f"the model {spec.model}", remedy):
        torch.manual_seed(0)
        network = library_of_sentences.SentenceTransformer(model, device=spec.device, trust_remote_code=False).eval()
    if spec.weights is not None:
        load_weights(network, spec.weights)
    identity = identity_of(
        kind="text",
        library=f"sentence-transformers {major_version(library_of_sentences)}",
        network=[repr(network), digest_of(network)],
        tokenizer=_tokenizer_of(network),
        longest=network.max_seq_length,
        prompts=[network.prompts, network.default_prompt_name],
        precision=spec.precision,
    )
    return SentenceEncoder(spec, identity, network)


def _tokenizer_of(network: Any) -> str:
    """All a tokeniser does, in one string; of a slow one, which does not tell, what it knows."""
    backend = getattr(network.tokenizer, "backend_tokenizer", None)
    return backend.to_str() if backend is not None else repr(sorted(network.tokenizer.get_vocab().items()))


def _require_no_code(folder: Path) -> None:
    """A folder may name modules of its own, and older libraries would run them."""
    listed = folder / "modules.json"
    if not listed.is_file():
        return
    try:
        kinds = [str(module["type"]) for module in json.loads(listed.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UnderstudyError(f"{listed} is not a list of modules; save the model again") from error
    foreign = [kind for kind in kinds if not kind.startswith("sentence_transformers.")]
    if foreign:
        raise UnderstudyError(
            f"{folder} wants to run code of its own ({foreign[0]}), which is not done; "
            "wrap it yourself and use python:FILE:NAME"
        )
