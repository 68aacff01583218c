"""Real weights end to end: images, an encoder, a features folder, and on it a linear probe and two heads.

    python benchmarks/probe.py --data fashion_mnist --train 2000 --test 1000 --out FILE \
        --encoder python:examples/keras_resnet50.py:encoder@WEIGHTS.safetensors

The first so many images of the training set and of the test set are embedded. The linear probe is scikit-learn's
logistic regression on standardised features. The same on plain pixels stands beside it.
"""

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from understudy.data.embedding import embed_dataset
from understudy.data.encoders import make_encoder
from understudy.data.features import open_dataset
from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.learners.registry import make_learner


def first(dataset: Dataset, train: int, test: int) -> Dataset:
    if dataset.test is None:
        raise SystemExit(f"{dataset.name} has no test set")
    return Dataset(
        dataset.name,
        dataset.pool.take(range(min(train, len(dataset.pool)))),
        dataset.test.take(range(min(test, len(dataset.test)))),
    )


def probes(folder: Path, device: str) -> dict[str, float]:
    """Test accuracies on a features folder: of a logistic regression, and of heads that learn all rows."""
    (X, y), (Xt, yt) = (part.arrays() for part in open_dataset(folder).parts)
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000)).fit(X, y)
    found = {"linear": float(linear.score(Xt, yt))}
    for name in ("paper", "modern"):
        model = make_learner(name, device).fit(X, y, int(y.max()) + 1)
        found[name] = float((model.predict_proba(Xt).argmax(1) == yt).mean())
    return found


def measure(dataset: Dataset, name: str, device: str, batch_size: int) -> dict[str, Any]:
    encoder = make_encoder(name, device=device)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "features"
        start = time.perf_counter()
        pool, test = embed_dataset(dataset, encoder, out=out, batch_size=batch_size, cache=Path(scratch) / "cache")
        seconds = time.perf_counter() - start
        assert test is not None
        start = time.perf_counter()
        accuracy = probes(out, device)
    return {
        "encoder": encoder.name,
        "identity": encoder.identity,
        "columns": encoder.dim,
        "train": pool.n,
        "test": test.n,
        "faults": len(pool.faults) + len(test.faults),
        "embed_s": round(seconds, 1),
        "items_per_s": round((pool.computed + test.computed) / seconds, 1),
        "probe_s": round(time.perf_counter() - start, 1),
        "accuracy": {name: round(share, 4) for name, share in accuracy.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    dataset = first(load(given.data), given.train, given.test)
    results = []
    for name in (given.encoder, "pixels"):
        results.append(measure(dataset, name, given.device, given.batch_size))
        print(json.dumps(results[-1]), flush=True)
    if given.out is not None:
        about = {
            "data": dataset.name,
            "device": given.device if given.device == "cpu" else torch.cuda.get_device_name(),
            "threads": torch.get_num_threads(),
            "machine": platform.machine(),
            "torch": torch.__version__,
        }
        given.out.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
