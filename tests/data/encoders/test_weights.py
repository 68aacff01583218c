import os
import pickle
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from understudy.data.encoders import load_weights
from understudy.data.encoders.weights import FORCED, tensors_only
from understudy.errors import UnderstudyError


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))


class Malicious:
    """Unpickled without care, it makes the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".safetensors"])
def test_every_format_gives_the_same_weights(tmp_path: Path, suffix: str) -> None:
    saved, filled = network(), network()
    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(saved.state_dict(), path)
    else:
        torch.save(saved.state_dict(), path)
    load_weights(filled, path)
    for name, tensor in saved.state_dict().items():
        assert torch.equal(filled.state_dict()[name], tensor)


def test_wrappings_of_training_scripts_are_taken_off(tmp_path: Path) -> None:
    saved, filled = network(), network()
    state = {f"module.{name}": tensor for name, tensor in saved.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "checkpoint.pth")
    load_weights(filled, tmp_path / "checkpoint.pth")
    assert torch.equal(next(iter(filled.parameters())), next(iter(saved.parameters())))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
@pytest.mark.parametrize("by", ["torch", "pickle"])
def test_code_in_a_file_is_not_run(tmp_path: Path, suffix: str, by: str) -> None:
    marker, path = tmp_path / "marker", tmp_path / f"weights{suffix}"
    content = network().state_dict() | {"extra": Malicious(marker)}
    if by == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    with pytest.raises(UnderstudyError, match="more than tensors, or is broken; what it holds was not run") as caught:
        load_weights(network(), path)
    assert "\n" not in str(caught.value)
    assert not marker.exists()
    if by == "pickle":
        pickle.loads(path.read_bytes())  # the attack is a real one
        assert marker.exists()


def test_names_that_do_not_fit_are_told(tmp_path: Path) -> None:
    state = network().state_dict()
    del state["0.weight"]
    torch.save(state | {f"fc.{i}": torch.zeros(1) for i in range(6)}, tmp_path / "w.pt")
    with pytest.raises(UnderstudyError, match=r"missing: 0\.weight; not known: fc\.0, fc\.1, fc\.2, fc\.3 and 2 more"):
        load_weights(network(), tmp_path / "w.pt")
    with pytest.raises(UnderstudyError, match=r"missing: 0\.weight\)"):
        load_weights(network(), tmp_path / "w.pt", ignored=["fc."])


def test_a_shape_that_does_not_fit_is_told_and_nothing_is_loaded(tmp_path: Path) -> None:
    state = network().state_dict()
    torch.save(state | {"1.bias": torch.ones(5)}, tmp_path / "w.pt")
    filled = network()
    before = filled[0].weight.clone()  # type: ignore[index]
    with pytest.raises(UnderstudyError, match=r"1\.bias has shape \(5,\), \(4,\) is needed"):
        load_weights(filled, tmp_path / "w.pt")
    assert torch.equal(filled[0].weight, before)  # type: ignore[index]


def test_a_counter_that_old_files_lack_may_be_missing(tmp_path: Path) -> None:
    state = network().state_dict()
    del state["1.num_batches_tracked"]
    torch.save(state, tmp_path / "w.pt")
    load_weights(network(), tmp_path / "w.pt")


@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04 half a zip"])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_broken_file_is_one_line(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(UnderstudyError, match=r"w\.\w+ (is|holds)") as caught:
        load_weights(network(), path)
    assert "\n" not in str(caught.value)


def test_what_is_no_state_dict_is_told(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "w.pt")
    with pytest.raises(UnderstudyError, match="is not a state dict"):
        load_weights(network(), tmp_path / "w.pt")
    with pytest.raises(UnderstudyError, match="there is no file of weights at"):
        load_weights(network(), tmp_path / "nowhere.pt")


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
def test_whatever_byte_is_damaged_a_file_loads_or_is_one_line(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("w.safetensors" if form == "safetensors" else "w.pt")
    if form == "safetensors":
        save_file(network().state_dict(), path)
    else:
        torch.save(network().state_dict(), path, _use_new_zipfile_serialization=form == "zip")
    whole, chance, refused = path.read_bytes(), random.Random(0), list[str]()
    for i in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randrange(len(damaged))] if i % 4 == 0 else damaged)
        try:
            load_weights(network(), path)
        except UnderstudyError as error:
            refused.append(str(error))
    assert len(refused) > 75
    assert not any("\n" in message for message in refused)


def test_names_that_are_no_text_are_no_state_dict(tmp_path: Path) -> None:
    torch.save({0: torch.zeros(1)}, tmp_path / "w.pt")
    with pytest.raises(UnderstudyError, match="is not a state dict"):
        load_weights(network(), tmp_path / "w.pt")


def test_other_libraries_run_nothing_either(tmp_path: Path) -> None:
    torch.save({"extra": Malicious(tmp_path / "marker")}, tmp_path / "w.pt")
    before = os.environ.get(FORCED)
    with tensors_only(), pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "w.pt", weights_only=False)  # as careless as an old library
    assert not (tmp_path / "marker").exists()
    assert os.environ.get(FORCED) == before
