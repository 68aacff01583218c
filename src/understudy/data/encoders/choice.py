"""The encoder where nobody names one: what the field would take, if it can be had here; and what features are worth."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch

from understudy.data.encoders.extras import is_found
from understudy.data.encoders.found_models import FoundModel, find_models
from understudy.data.encoders.protocol import Encoder
from understudy.data.encoders.registry import make_encoder
from understudy.data.items import Kind
from understudy.errors import UnderstudyError
from understudy.messages import install_command, reason_of


@dataclass(frozen=True)
class DefaultEncoder:
    """An encoder that is taken where nobody names one and these libraries are installed, which the extra brings."""

    name: str
    libraries: tuple[str, ...]
    extra: str


MINILM: Final = "sentence-transformers/all-MiniLM-L6-v2"
# With a graph, an install of 20 MB is enough. On a GPU what runs in torch is faster.
DEFAULTS: Final[Mapping[Kind, tuple[DefaultEncoder, ...]]] = {
    "image": (
        DefaultEncoder("onnx:onnx-community/dinov2-small", ("onnxruntime",), "onnx"),
        DefaultEncoder("hf:facebook/dinov2-small", ("transformers",), "vision"),
    ),
    "text": (
        DefaultEncoder(f"onnx:{MINILM}", ("onnxruntime", "tokenizers"), "onnx"),
        DefaultEncoder(f"text:{MINILM}", ("sentence_transformers",), "text"),
    ),
}
PLAIN_ENCODERS: Final[Mapping[Kind, str]] = {"image": "pixels", "text": "words"}  # need no download
PLAIN_FEATURES: Final[Mapping[Kind, str]] = {"image": "colours and shapes only", "text": "shared words only"}
MAX_OFFERED: Final = 3  # models that people are asked about, one after the other
BE_ONLINE: Final = "be online once"
PROMISE: Final = "for far fewer labels"
HOW_TO_CHANGE: Final = "Stop the server, run this, and start it again"


@dataclass(frozen=True)
class ChosenEncoder:
    """The encoder that is used, and why it is not a better one, where it is a plain one.

    `offered` are models that were found on this machine, which people may prefer to a plain one.
    """

    encoder: Encoder
    reason: str = ""
    remedy: str = ""
    offered: tuple[FoundModel, ...] = ()

    @property
    def is_plain(self) -> bool:
        return bool(self.reason)

    def describe(self, project: str, *, lists_found: bool = True) -> str:
        """The choice in one line, with what to do for better features; `project` is how the project is named."""
        if not self.is_plain:
            return f"features are made by {self.encoder.name}"
        found = f"; found here: --encoder {self.offered[0]}" if self.offered and lists_found else ""
        then = f", then understudy encoder {project}" if self.remedy == BE_ONLINE else ""
        return f"{PLAIN_FEATURES[self.encoder.kind]}: {self.reason}; {self.remedy}{then} {PROMISE}{found}"


def choose_encoder(kind: Kind, device: str) -> ChosenEncoder:
    """The best encoder that can be had here and now: downloaded where need be, which is announced; else a plain one."""
    wanted = default_encoder(kind, device)
    if wanted is None:
        reason = f"no {kind} encoder is installed"
        remedy = install_command(DEFAULTS[kind][0].extra)
    else:
        try:
            return ChosenEncoder(make_encoder(wanted.name, device=device))
        except UnderstudyError as error:
            said = reason_of(error)
            reason = said.rpartition("; ")[0] or said  # what to do comes next, and here it is something else
            remedy = BE_ONLINE
    plain = make_encoder(PLAIN_ENCODERS[kind], device=device)
    return ChosenEncoder(plain, reason, remedy, tuple(find_models(kind)[:MAX_OFFERED]))


def default_encoder(kind: Kind, device: str = "auto") -> DefaultEncoder | None:
    """The first of the defaults whose libraries are installed; None where there is none."""
    wants_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    ordered = DEFAULTS[kind][::-1] if wants_gpu else DEFAULTS[kind]
    return next((each for each in ordered if all(map(is_found, each.libraries))), None)


@dataclass(frozen=True)
class FeaturesNote:
    """What the features of a project are: made by which encoder, whether that is a weak one, and how to get better.

    `advice` is a sentence for people and `command` what they type; both None where nothing better is to be had simply.
    """

    encoder: str
    what: str
    is_weak: bool = False
    advice: str | None = None
    command: str | None = None


@functools.cache  # asked for whenever somebody looks at the page
def describe_features(kind: Kind, encoder: str, project: str) -> FeaturesNote:
    """What the features of this encoder are worth; `project` is how the project is named in a command."""
    if encoder.partition("?")[0] != PLAIN_ENCODERS[kind]:
        return FeaturesNote(encoder, f"made by {encoder}")
    wanted, what = default_encoder(kind), PLAIN_FEATURES[kind]
    if wanted is None:
        command = install_command(DEFAULTS[kind][0].extra)
        advice = (
            f"no {kind} encoder is installed. With one far fewer labels are needed, and yours stay. {HOW_TO_CHANGE}"
        )
        return FeaturesNote(encoder, what, True, advice, f"{command} && understudy encoder {project}")
    advice = (
        f"far fewer labels are needed with {wanted.name}, which is downloaded once, and yours stay. {HOW_TO_CHANGE}"
    )
    return FeaturesNote(encoder, what, True, advice, f"understudy encoder {project} {wanted.name}")
