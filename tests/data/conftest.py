"""What the tests of this folder share: nothing is fetched, and nothing is kept where the user keeps things."""

import os
from pathlib import Path

import pytest

from understudy.data.encoders.extras import import_torchvision

# Read when the hub's client is imported: what is not here is missing at once, without a word on the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import_torchvision()  # one that was built for another torch is imported without its operators, as encoders do it


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("UNDERSTUDY_HOME", str(folder))
    return folder
