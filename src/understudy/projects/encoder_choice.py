"""Which encoder a project gets where nobody names one: the best that can be had here and now, and what to say of it."""

from typing import Final

from understudy.data.encoders import Encoder, make_encoder
from understudy.data.items import Kind
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import install_command

IMAGES: Final = "resnet18"
TEXTS: Final = "text:sentence-transformers/all-MiniLM-L6-v2"
PLAIN: Final[dict[Kind, str]] = {"image": "pixels", "text": "words"}  # need no download


def chosen(kind: Kind, device: str) -> tuple[Encoder, str]:
    """An encoder and a line that says which, and how to get a better one where it is the plain one."""
    best = IMAGES if kind == "image" else TEXTS
    try:
        return make_encoder(best, device=device), f"features are made by {best}"
    except UnderstudyError as error:
        plain = make_encoder(PLAIN[kind], device=device)
        extra = "vision" if kind == "image" else "text"
        reason = " ".join(str(error).split())
        return plain, (
            f"features are made by {plain.name}, which needs no download and is weak. For better ones, "
            f"{install_command(extra)}, be online once, and begin another project "
            f"(--encoder {best} --project NEW). {best} cannot be used now: {reason}"
        )


def named(name: str, kind: Kind, device: str) -> Encoder:
    """The encoder of this name; an error where it takes items of another kind."""
    encoder = make_encoder(name, device=device)
    if encoder.kind != kind:
        instead = f"{TEXTS} or words" if kind == "text" else f"{IMAGES} or pixels"
        raise UsageError(f"{name} takes {encoder.kind}s, these items are {kind}s; give one such as {instead}")
    return encoder
