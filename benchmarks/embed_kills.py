"""`understudy embed`, killed at ten random moments and run again: is the output that of an undisturbed run?

    python benchmarks/embed_kills.py --encoder python:examples/keras_resnet50.py:thumbnails@WEIGHTS.safetensors

Each run is a process of its own that is ended by SIGKILL. Images are made by the script: colours that change smoothly,
saved as JPEG, and a few files that are empty. An encoder of any kind can be named.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from kill_results import measure_in_scratch
from PIL import Image

FILES = ("features.npy", "items.parquet", "faults.jsonl", "embedding.json")
OUTPUT = (*FILES, *(f"test/{name}" for name in FILES))
COMMAND = "from understudy.cli import main; main()"


def make_images(folder: Path, count: int, size: int) -> None:
    """Nine in ten to train on, the others to test."""
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(count):
        colours = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((size, size), Image.Resampling.BICUBIC).save(file_of(folder, i))
    for i in range(0, count, 400):
        file_of(folder, i).write_bytes(b"")


def file_of(folder: Path, i: int) -> Path:
    return folder / ("test" if i % 10 == 9 else "train") / f"{i:05}.jpg"


def started(images: Path, out: Path, home: Path, encoder: str, batch_size: int, device: str) -> subprocess.Popen[bytes]:
    arguments = ["embed", str(images), "--encoder", encoder, "--out", str(out), "--batch-size", str(batch_size)]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, "--device", device],
        env={**os.environ, "UNDERSTUDY_HOME": str(home)},
        stdout=subprocess.DEVNULL,
    )


def finished(process: subprocess.Popen[bytes]) -> float:
    """Seconds until it is done; it must be done well."""
    start = time.perf_counter()
    if process.wait() != 0:
        raise SystemExit("embed failed; see above")
    return time.perf_counter() - start


def kept(home: Path, columns: int) -> int:
    """Vectors in the store."""
    return sum(path.stat().st_size for path in home.glob("features/*/vectors.f32")) // (4 * columns)


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in OUTPUT}


def measure(given: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    images = scratch / "images"
    make_images(images, given.images, given.size)
    command = (given.encoder, given.batch_size, given.device)
    seconds = finished(started(images, scratch / "whole", scratch / "whole_home", *command))
    about, test = (
        json.loads((scratch / "whole" / name).read_text()) for name in ("embedding.json", "test/embedding.json")
    )
    print(f"undisturbed: {seconds:.0f} s, {about['n']} + {test['n']} x {about['d']}", flush=True)
    rng = np.random.default_rng(given.seed)
    home, out = scratch / "home", scratch / "out"
    kills: list[dict[str, Any]] = []
    while len(kills) < given.kills:
        # Some die while they start, some while they compute, and together they get about to the end.
        process = started(images, out, home, *command)
        wait = float(rng.uniform(0, given.longest or seconds / 3))
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills.append({"after_s": round(wait, 2), "kept": kept(home, about["d"])})
            print(f"killed after {wait:.2f} s, {kills[-1]['kept']} vectors kept", flush=True)
            continue
        if process.returncode != 0:
            raise SystemExit("embed failed; see above")
        # All kills are of one run: if it is done before them, everything begins anew.
        print("done before all kills; the next run begins from nothing: give a smaller --longest", flush=True)
        kills.clear()
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
    before = kept(home, about["d"])
    rest = finished(started(images, out, home, *command))
    identical = digests(out) == digests(scratch / "whole")
    print(f"the last run took {rest:.0f} s; identical: {identical}", flush=True)
    return {
        "encoder": about["encoder"],
        "images": given.images,
        "size": given.size,
        "faulty": given.images - about["n"] - test["n"],
        "columns": about["d"],
        "undisturbed_s": round(seconds, 1),
        "kills": kills,
        "kept_before_last": before,
        "last_s": round(rest, 1),
        "identical": identical,
        "sha256": digests(out),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--longest", type=float, help="Seconds that a run lives at most before it is killed.")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    measure_in_scratch(measure, given, device=given.device)


if __name__ == "__main__":
    main()
