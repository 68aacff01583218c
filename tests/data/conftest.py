"""What the tests of this folder share: nothing is fetched, and nothing is kept where the user keeps things."""

import os
import sys
import types
from pathlib import Path

import pytest

# Read when the hub's client is imported: what is not here is missing at once, without a word on the network.
os.environ["HF_HUB_OFFLINE"] = "1"

try:
    import torchvision  # noqa: F401
except ModuleNotFoundError:
    pass  # without the extra, the tests that need it are left out
except RuntimeError:
    # Built for another torch: its operators cannot be described, and nobody here uses them.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("UNDERSTUDY_HOME", str(folder))
    return folder
