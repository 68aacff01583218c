"""Models from the Hugging Face hub: one question what a repository holds, then its files, resumed and checked.

What was downloaded is used without asking again. Models that Hugging Face's own libraries have in their cache are found
there.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal
from urllib.parse import quote

from rich.console import Console

from understudy.data.downloads import download
from understudy.data.encoders.model_folders import BRANCH, is_repository, own_folder, snapshots
from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError
from understudy.messages import reason_of

Layout = Literal["onnx", "hf", "text"]
HUB: Final = "https://huggingface.co"
OFFLINE: Final = "HF_HUB_OFFLINE"
GRAPHS: Final = ("onnx/model.onnx", "model.onnx")
NETWORKS: Final = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")  # the first that is there
DESCRIPTIONS: Final = (".json", ".txt", ".model")  # configurations, vocabularies, and those of SentencePiece
FOREIGN: Final = ("onnx", "openvino", "coreml", "flax", "tf")  # folders of the same weights for other libraries
MAX_DESCRIPTION_BYTES: Final = 50_000_000
SECONDS_TO_ANSWER: Final = 10.0
USUAL_BYTES_A_SECOND: Final = 5_000_000  # of a line of 40 Mbit/s, by which people are told how long it takes


class NotOnHub(UnderstudyError):
    """The hub cannot be asked, or does not have the model."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository, with its size and what its content is checked against."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True)
class HubModel:
    """One version of a repository, and the files of it that an encoder needs."""

    repository: str
    commit: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def describe(self) -> str:
        """What is downloaded, how large it is and about how long it takes."""
        seconds = self.size / USUAL_BYTES_A_SECOND
        time = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
        megabytes = f"{self.size / 1e6:.0f}" if self.size >= 1e7 else f"{self.size / 1e6:.1f}"
        return f"downloading {self.repository}, once: {megabytes} MB, about {time} at 40 Mbit/s"


def model_folder(repository: str, layout: Layout) -> Path:
    """A folder with this model: the one that is here, or what is downloaded now."""
    return find_model(repository, layout) or _fetch_model(look_up_model(repository, layout))


def folder_or_name(model: str, layout: Layout) -> str:
    """The folder of a model, downloaded where need be; or its name, where only the library itself may know it.

    A library has ways that we have not: models of its own names, and of repositories that want a login.
    """
    if not is_repository(model):
        return model
    try:
        return str(model_folder(model, layout))
    except NotOnHub:
        return model


def find_model(repository: str, layout: Layout) -> Path | None:
    """A folder with this model, if all that an encoder needs of it is on this machine."""
    return next((path for path in snapshots(repository) if is_whole(path, layout)), None)


def is_whole(folder: Path, layout: Layout) -> bool:
    """Whether a folder has a graph or a network, and what describes it."""
    wanted = GRAPHS if layout == "onnx" else NETWORKS
    return (folder / "config.json").is_file() and any((folder / name).is_file() for name in wanted)


def look_up_model(repository: str, layout: Layout) -> HubModel:
    """What the hub has of this model now. NotOnHub where it cannot be asked or has nothing of use."""
    if os.environ.get(OFFLINE, "").lower() in ("1", "true", "yes", "on"):
        raise NotOnHub(f"{repository} is not on this machine, and {OFFLINE} is set; unset it, or give a folder")
    if not is_repository(repository):
        raise NotOnHub(f"{repository!r} is not the name of a repository; write OWNER/NAME, or a folder that exists")
    url = f"{_endpoint()}/api/models/{quote(repository)}/revision/{BRANCH}?blobs=true"
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "understudy"})
        with urllib.request.urlopen(request, timeout=SECONDS_TO_ANSWER) as response:
            return _read_answer(repository, json.load(response), layout)
    except urllib.error.HTTPError as error:
        with error:
            reason = f"the hub answered {error.code} {error.reason}"
        raise NotOnHub(
            f"{repository} could not be had from the hub ({reason}); check its name, or give a folder"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        cause = getattr(error, "reason", error)
        reason = getattr(cause, "strerror", None) or reason_of(cause)
        raise NotOnHub(
            f"{repository} could not be had from the hub ({reason}); be online, or give a folder with it"
        ) from error


def _fetch_model(model: HubModel) -> Path:
    """The folder with a model's files, downloaded where they are not there yet, each checked. It says what it does."""
    place = own_folder(model.repository)
    folder = place / "snapshots" / model.commit
    Console(stderr=True).print(model.describe(), highlight=False, markup=False, soft_wrap=True)
    for file in sorted(model.files, key=lambda file: file.size):
        url = f"{_endpoint()}/{quote(model.repository)}/resolve/{model.commit}/{quote(file.name)}"
        download(url, folder / file.name, checksum=file.checksum)
    (place / "refs").mkdir(exist_ok=True)
    write_atomically(place / "refs" / BRANCH, model.commit.encode())
    return folder


def _endpoint() -> str:
    """The hub, or the mirror that Hugging Face's libraries are told to use."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def _read_answer(repository: str, answer: Mapping[str, Any], layout: Layout) -> HubModel:
    commit = str(answer["sha"])
    if not commit.isalnum():
        raise ValueError(f"the hub calls its version {commit!r}")
    found = {file.name: file for file in map(_read_file, answer["siblings"])}
    names = _needed_names(list(found), layout)
    files = [
        found[name] for name in names if not name.endswith(DESCRIPTIONS) or found[name].size < MAX_DESCRIPTION_BYTES
    ]
    if not any(name in names for name in (*GRAPHS, *NETWORKS)):
        kind = "no ONNX graph" if layout == "onnx" else "no weights for torch"
        raise NotOnHub(f"{repository} has {kind}; name another repository")
    return HubModel(repository, commit, tuple(files))


def _read_file(entry: Mapping[str, Any]) -> HubFile:
    """Name, size and checksum of a file: SHA-256 for large ones, the number that git gives its content for others."""
    name, large = str(entry["rfilename"]), entry.get("lfs")
    if large:
        return HubFile(name, int(large["size"]), f"sha256:{large['sha256']}")
    return HubFile(name, int(entry["size"]), f"git:{entry['blobId']}")


def _needed_names(names: Sequence[str], layout: Layout) -> list[str]:
    """The files that an encoder needs: descriptions, and the weights in one form. Code is never among them."""
    safe = [name for name in names if _is_inside(name)]
    described = [
        name
        for name in safe
        if name.endswith(DESCRIPTIONS) and PurePosixPath(name).parts[0] not in FOREIGN and name not in NETWORKS
    ]
    if layout == "onnx":
        graph = next((name for name in GRAPHS if name in safe), None)
        # Large graphs keep their weights in files beside them, called like them and more.
        weights = [] if graph is None else [name for name in safe if name == graph or name.startswith(f"{graph}_data")]
        return [*described, *weights]
    network = next((name for name in NETWORKS if name in safe), None)
    weights = [] if network is None else [network]
    if network == NETWORKS[1]:
        weights += [name for name in safe if name.startswith("model-") and name.endswith(".safetensors")]
    # Of sentence encoders, later steps may have weights of their own: 2_Dense/model.safetensors.
    weights += [name for name in safe if name[0].isdigit() and name.endswith("/model.safetensors")]
    return [*described, *weights]


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name
