"""Small data to label: images made here, texts, and what a project of them is."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from understudy.projects.opening import create_or_open
from understudy.projects.project import Project


def image(seed: int, size: int = 6) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def images(folder: Path, names: Sequence[str], first: int = 0) -> Path:
    for seed, name in enumerate(names, first):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image(seed).save(path)
    return folder


def texts(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def prepared(source: str | Path | None, **given: object) -> Project:
    """The project of a source, with its features."""
    project = create_or_open(source, **{"device": "cpu", **given})  # type: ignore[arg-type]
    project.prepare()
    return project


def pixels(project: Project, row: int, size: int = 4) -> np.ndarray:
    """The features that `pixels?size=4` makes of an item."""
    item = project.pool.item(row)
    assert isinstance(item, Image.Image)
    return np.asarray(item.resize((size, size), Image.Resampling.BILINEAR), np.float32).reshape(-1) / 255
