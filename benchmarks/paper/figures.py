"""The pictures of docs/paper-reproduction.md, from what is kept here.

python benchmarks/paper/figures.py [--kept benchmarks/paper] [--out docs/images]
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from claims import OURS
from matplotlib.figure import Figure
from PIL import Image
from text_claims import BLIND, U1, U2, UNIFORM, Body, read, short

from understudy.experiments.curves import Curves
from understudy.experiments.drawing import save_figure
from understudy.experiments.figures import draw_learning_curves, draw_offset_curves
from understudy.experiments.results import Results

SETS: Final = {
    "FashionMNIST": "fashion_mnist-paper", "CIFAR-10": "cifar10-paper", "CIFAR-100": "cifar100-paper",
    "Tiny-ImageNet": "tiny_imagenet-paper",
}  # fmt: skip
SYSTEMS: Final = (
    OURS, "random", "margin", "badge", "coreset", "typiclust", "learning_loss", "uncertain_gcn", "gradnorm",
    "weight_schedule",
)  # fmt: skip
PARTS: Final = (OURS, U1, U2, UNIFORM, BLIND)
SWEEPS: Final = {
    "basis points": tuple(f"surrogate(basis_size={k})" for k in (100, 250, 1000)),
    "width of the inputs, σx": tuple(f"surrogate(width={value})" for value in (0.015, 0.05, 0.15, 1, 2, 4)),
    "width of the outputs, σf": tuple(f"surrogate(output_width={value})" for value in (0.3, 1, 3, 20, 40, 80)),
}


def curves_of(kept: Path, strategies: Sequence[str]) -> list[Curves]:
    found = {title: Results.open(kept / name).curves(strategies) for title, name in SETS.items()}
    return [replace(curves, dataset=title) for title, curves in found.items()]


def sweep(body: Body, title: str, names: Sequence[str]) -> Curves:
    """Ours and its settings in the repetitions, and at the budgets, that all of them have."""
    runs = [body.runs[name] for name in (OURS, *names)]
    repeats = sorted(set.intersection(*(set(one) for one in runs)))
    budgets = sorted(set.intersection(*(set(one[repeat]) for one in runs for repeat in repeats)))
    accuracy = {
        short(name).replace("σx", "σ").replace("σf", "σ"): np.array(
            [[body.runs[name][repeat][at] for at in budgets] for repeat in repeats]
        )
        for name in (OURS, *names)
    }
    return Curves(f"{title} ({len(repeats)} repetitions)", tuple(budgets), accuracy)


def drawn(kept: Path) -> dict[str, Figure]:
    systems = curves_of(kept, SYSTEMS)
    tops = [Results.open(kept / name).ceiling() for name in SETS.values()]
    (cifar10,) = read([kept / "cifar10-paper", *sorted(kept.glob("sweep*-cifar10*"))])
    return {
        "paper-curves": draw_learning_curves(systems, [None if top is None else float(top.mean()) for top in tops]),
        "paper-offsets": draw_offset_curves(systems, "random"),
        "paper-ablation": draw_offset_curves(curves_of(kept, PARTS), OURS, all_strong=True),
        "paper-sweeps": draw_offset_curves([sweep(cifar10, title, names) for title, names in SWEEPS.items()], "ours",
                                      all_strong=True),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, default=Path("benchmarks/paper"))
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    for name, figure in drawn(given.kept).items():
        png, svg = save_figure(figure, given.out / name)
        svg.unlink()  # one is enough for a page
        with Image.open(png) as image:  # 128 colours are enough, and a third of the bytes
            small = image.convert("RGB").quantize(128)
        small.save(png, optimize=True)
        print(png, f"{png.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
