"""The user's cache folder: everything in it can be downloaded or computed again."""

import os
from pathlib import Path

from platformdirs import user_cache_path

HOME = "UNDERSTUDY_HOME"


def cache_folder() -> Path:
    """`$UNDERSTUDY_HOME`, or the cache folder of this system."""
    return Path(os.environ[HOME]).expanduser() if os.environ.get(HOME) else user_cache_path("understudy")


def datasets_folder() -> Path:
    return cache_folder() / "datasets"


def features_folder() -> Path:
    return cache_folder() / "features"


def models_folder() -> Path:
    return cache_folder() / "models"
