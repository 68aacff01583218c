from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.encoders.pictures import picture
from understudy.data.encoders import make_encoder
from understudy.errors import UnderstudyError

ROOT = Path(__file__).parents[3]
OWN = """
import torch
from understudy.data.encoders import ImageEncoder, Preprocessing, load_weights

def encoder(weights, device):
    network = torch.nn.Conv2d(3, 7, 4)
    if weights is not None:
        load_weights(network, weights)
    return ImageEncoder(network, Preprocessing(size=16), name="mine", device=device)

def nothing(weights, device):
    return 3

def wrong(path):
    return None

def failing(weights, device):
    raise KeyError("a\\nb")

class Odd:
    @property
    def name(self):
        raise RuntimeError("not yet")

def odd(weights, device):
    return Odd()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def test_a_function_in_a_file_makes_the_encoder(file: Path, tmp_path: Path) -> None:
    torch.save(torch.nn.Conv2d(3, 7, 4).state_dict(), tmp_path / "w.pt")
    name = f"python:{file}:encoder@{tmp_path / 'w.pt'}"
    first, second = make_encoder(name), make_encoder(name)
    assert (first.name, first.dim, first.identity) == ("mine", 7, second.identity)
    image = first.prepare(picture(0))
    np.testing.assert_array_equal(first.encode([image]), second.encode([image]))
    assert make_encoder(f"python:{file}:encoder").identity != first.identity  # random weights


def test_a_function_in_a_module_makes_the_encoder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(file.parent)
    assert make_encoder("python:own:encoder").dim == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python:{}", "write python:FILE_OR_MODULE:NAME"),
        ("python:{}:absent", "has no function 'absent'"),
        ("python:{}:nothing", "lacks name, identity, kind, dim, prepare, encode; return an ImageEncoder"),
        ("python:{}x.py:encoder", "cannot be imported .*check the path"),
        ("python:no_such_module:encoder", "cannot be imported .*No module named 'no_such_module'"),
        ("python:{}:encoder?size=3", "takes no options"),
        ("python:{}:wrong", r"own\.py:wrong takes \(path\), .*; write def wrong\(weights, device\)"),
        ("python:{}:failing", r"own\.py:failing failed \(KeyError: .*\); mend it, --debug shows where"),
        ("python:{}:odd", r"own\.py:odd failed \(RuntimeError: not yet\)"),
        ("python:{}:encoder@weights", r"a file of weights ends in \.safetensors, .*; got 'python:.*@weights'"),
        ("python:{}:encoder@nowhere.pt", "there is no file of weights at nowhere.pt"),
    ],
)
def test_what_is_wrong_with_the_hook_is_one_line(file: Path, name: str, message: str) -> None:
    if name == "python:{}":
        name = "python:own"
    with pytest.raises(UnderstudyError, match=message) as caught:
        make_encoder(name.format(file))
    assert "\n" not in str(caught.value)


def test_the_keras_resnet_of_the_examples_goes_through_the_hook() -> None:
    encoder = make_encoder(f"python:{ROOT / 'examples' / 'keras_resnet50.py'}:encoder")
    assert (encoder.name, encoder.dim) == ("keras_resnet50", 2048)
    red = encoder.prepare(picture(0))
    assert np.asarray(red).shape == (224, 224, 3)


def test_a_precision_cannot_be_given_from_outside(file: Path) -> None:
    with pytest.raises(UnderstudyError, match="choose their precision themselves"):
        make_encoder(f"python:{file}:encoder", precision="bfloat16")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", r"cannot be imported \(ZeroDivisionError: division by zero\); mend it"),
        ("def encoder(:", r"cannot be imported \(SyntaxError: "),
        ("import no_such_module", r"cannot be imported \(ModuleNotFoundError: .*no_such_module.*install it"),
        ("raise ValueError", r"cannot be imported \(ValueError\)"),
    ],
)
def test_a_file_that_fails_is_one_line_and_its_own_error_is_kept(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "own.py").write_text(code)
    with pytest.raises(UnderstudyError, match=rf"own\.py {message}") as caught:
        make_encoder(f"python:{tmp_path / 'own.py'}:encoder")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_path_may_have_an_at(tmp_path: Path) -> None:
    folder = tmp_path / "me@home"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    torch.save(torch.nn.Conv2d(3, 7, 4).state_dict(), tmp_path / "w.pt")
    assert make_encoder(f"python:{folder / 'own.py'}:encoder").dim == 7
    assert make_encoder(f"python:{folder / 'own.py'}:encoder@{tmp_path / 'w.pt'}").dim == 7
