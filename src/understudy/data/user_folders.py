"""Where files are kept: one folder for everything that can be had again."""

import os
from pathlib import Path

from platformdirs import user_cache_path

HOME = "UNDERSTUDY_HOME"


def cache_folder() -> Path:
    """`$UNDERSTUDY_HOME`, or the place this system has for such things."""
    return Path(os.environ[HOME]).expanduser() if os.environ.get(HOME) else user_cache_path("understudy")


def datasets_folder() -> Path:
    return cache_folder() / "datasets"


def features_folder() -> Path:
    return cache_folder() / "features"
