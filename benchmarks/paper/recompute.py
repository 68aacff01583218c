"""Numbers of the pages once more, by code that shares nothing with the harness: only the kept files and the pages.

    python benchmarks/paper/recompute.py [--all]      # a table of what differs, or of all; exit code 1 if any does

Accuracies are read from results.parquet; means, areas, intervals, Holm, ranks, penalties and labels saved are computed
in recompute_statistics.py, each in a way of its own: Wilcoxon's p by trying all signs, isotonic regression by pooling
neighbours, areas by summing trapezoids. What the pages print is read back and compared to the last printed digit and
the sign.
"""

import argparse
import itertools
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from recompute_statistics import (
    CONTROLS,
    Table,
    area,
    beats,
    holm,
    interval,
    labels_for,
    never_falling,
    plain,
    ranks_of,
    signed_ranks,
    table_of,
    whole_curves,
)

ROOT = Path(__file__).resolve().parents[2]
PAPER, DEFAULT = ROOT / "benchmarks" / "paper", ROOT / "benchmarks" / "default" / "results"
DOCS = ROOT / "docs"
PAPER_SETS = ("fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")
TITLES = dict(zip(PAPER_SETS, ("FashionMNIST", "CIFAR-10", "CIFAR-100", "Tiny-ImageNet"), strict=True))


# -- what is printed --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A number of a page and what it comes to here."""

    where: str
    what: str
    printed: str
    found: float | str

    @property
    def agrees(self) -> bool:
        if isinstance(self.found, str):
            return self.printed == self.found
        number = self.printed.replace("−", "-").replace(",", "")
        if not re.fullmatch(r"[+-]?\d+(\.\d+)?", number):
            return False
        digits = len(number.partition(".")[2])
        close = abs(float(number) - self.found) <= 0.5 * 10**-digits + 1e-9
        if float(number) != 0:
            return close
        # Nothing has no sign; what only rounds to nothing keeps its own, unless it is a share or a mean.
        sign = {"+": 1, "-": -1}.get(number[0], 0)
        return close and (abs(self.found) < 1e-9 if sign == 0 else self.found * sign > 0)


def rows_between(page: str, start: str, end: str) -> list[list[str]]:
    """The cells of the rows between two marks, heads too, without lines of dashes."""
    text = (DOCS / page).read_text().split(start)[1].split(end)[0]
    return rows_of(text)


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|\-: ]+", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def checks_of(where: str, what: str, printed: str, values: Sequence[float]) -> Iterator[Check]:
    """All numbers of a cell, in their order, beside these."""
    numbers = re.findall(r"[+−-]?\d[\d,]*(?:\.\d+)?", printed)
    if len(numbers) != len(values):
        yield Check(where, what, printed, f"{len(values)} numbers")
    for number, value in zip(numbers, values, strict=False):
        yield Check(where, what, number, value)


# -- the statements of the paper --------------------------------------------------------------------------------------


def full_name(word: str) -> str:
    """The strategy behind a short word of the tables."""
    if word in ("influence", "uncertainty", "uniform", "blind"):
        return f"surrogate_{word}"
    if word == "ours":
        return "surrogate"
    for start, option, scale in (("σx × ", "width", 0.5), ("σf × ", "output_width", 10.0)):
        if word.startswith(start):
            return f"{option} {float(word.removeprefix(start)) * scale:.2g}"
    if word.startswith("K = "):
        return f"surrogate(basis_size={word[4:]})"
    return word


def same(word: str, name: str) -> bool:
    """Whether a word of a table means this strategy; factors are printed to three digits."""
    word = word.strip()
    wanted = full_name(word)
    if (found := re.fullmatch(r"surrogate\((width|output_width)=([\d.]+)\)", name)) is not None:
        return wanted == f"{found[1]} {float(found[2]):.2g}"
    if word.startswith("σ² = "):
        return name.startswith(f"surrogate(noise={word[5:]}")
    return name == wanted or (word == "float64" and name == "surrogate(dtype='float64')")


Sample = tuple[int, np.ndarray, float]  # the last labels, differences by repetition, the difference at the end
Case = dict[tuple[str, str], tuple[int, np.ndarray, float, float | None]]  # the same with its corrected p, by pair


class Statements:
    """The claims file, and the runs it is about."""

    def __init__(self) -> None:
        self.claims = json.loads((PAPER / "claims.json").read_text())
        self.folders: dict[tuple[str, str], dict[str, Table]] = defaultdict(dict)
        for file in sorted(PAPER.glob("*/experiment.json")):
            plan = json.loads(file.read_text())["plan"]
            self.folders[plan["dataset"], plan["learner"]][file.parent.name] = table_of(file.parent)

    def pair(self, place: tuple[str, str], ahead: str, behind: str) -> tuple[list[int], np.ndarray] | None:
        """Budgets and differences in points; from the folder that has both, unless two go further."""
        tables = self.folders[place]
        shared = [
            self.difference(table[ahead], table[behind]) for table in tables.values() if {ahead, behind} <= set(table)
        ]
        both = [one for one in shared if one is not None]
        runs = []
        for name in (ahead, behind):
            having = [table[name] for table in tables.values() if name in table]
            if not having:
                return None
            runs.append(max(having, key=lambda one: (max(b for _, b in one), len({r for r, _ in one}))))
        if both:
            best, across = max(both, key=lambda one: (one[0][-1], len(one[1]))), self.difference(*runs)
            return best if across is None or across[0][-1] <= best[0][-1] else across
        return self.difference(*runs)

    @staticmethod
    def difference(
        one: dict[tuple[int, int], float], other: dict[tuple[int, int], float]
    ) -> tuple[list[int], np.ndarray] | None:
        repeats = sorted({r for r, _ in one} & {r for r, _ in other})
        budgets = [b for b in sorted({b for _, b in one}) if all((r, b) in one and (r, b) in other for r in repeats)]
        if not repeats or not budgets:
            return None
        return budgets, np.array([[100 * (one[r, b] - other[r, b]) for b in budgets] for r in repeats])

    def sample(self, place: tuple[str, str], pair: Sequence[str], stage: str) -> Sample | None:
        found = self.pair(place, *map(plain, pair))
        if found is None:
            return None
        budgets, values = found
        early = [i for i, b in enumerate(budgets) if i > 0 and b <= 1000]
        late = [i for i, b in enumerate(budgets) if b >= 3000]
        last = float(values[:, -1].mean())
        if stage == "whole":
            return (budgets[-1], area(values, budgets), last) if budgets[-1] >= 2000 else None
        if (stage != "early" and not late) or (stage != "late" and not early):
            return None
        if stage == "early":
            return budgets[early[-1]], values[:, early].mean(1), last
        means = values[:, late].mean(1)
        return budgets[-1], means - values[:, early].mean(1) if stage == "change" else means, last

    def cases(self, claim: dict[str, Any]) -> dict[tuple[str, str, str], Case]:
        """Samples by set, learner and stage, then by pair, each with its corrected p (None below five repetitions)."""
        found: dict[tuple[str, str, str], dict[tuple[str, str], Sample]] = {}
        for name, place, stage in itertools.product(claim["sets"], self.folders, claim["stages"]):
            if place[0] == name or place[0].startswith(name + "_"):
                samples = {(one, other): self.sample(place, (one, other), stage) for one, other in claim["pairs"]}
                found[name, place[1], stage] = {pair: one for pair, one in samples.items() if one is not None}
        keys = [(case, pair) for case, of in found.items() for pair in of if len(of[pair][1]) >= 5]
        families = [keys] if claim["family"] == "statement" else [[k for k in keys if k[0] == case] for case in found]
        p: dict[Any, float] = {}
        for family in families:
            values = holm([self.p(found[case][pair][1], claim.get("within")) for case, pair in family])
            p.update(zip(family, values, strict=True))
        return {case: {pair: (*one, p.get((case, pair))) for pair, one in of.items()} for case, of in found.items()}

    @staticmethod
    def p(values: np.ndarray, within: float | None) -> float:
        if within is None:
            return signed_ranks(values)
        ends = [signed_ranks(values - within), signed_ranks(values + within)]
        mean = values.mean()
        return max(ends) if abs(mean) <= within else ends[0] if mean > 0 else ends[1]

    @staticmethod
    def verdict(case: Case, claim: dict[str, Any]) -> str:
        each = []
        for _, values, _, p in case.values():
            _, low, high = interval(values)
            within, sure = claim.get("within"), p is not None and p < 0.05
            yes = low >= -within and high <= within if within is not None else low > 0
            no = low > within or high < -within if within is not None else high < 0
            each.append("confirmed" if sure and yes else "not" if sure and no else "undecided")
        if not each:
            return "not measured"
        if "not" in each:
            return "not"
        return "confirmed" if set(each) == {"confirmed"} and len(each) == len(claim["pairs"]) else "undecided"


NUMBER = r"[+−]?\d+\.\d\d"
DIFFERENCE = re.compile(
    rf"([^;|]+?) − ([^;|:]+?): ({NUMBER}) \[({NUMBER}), ({NUMBER})\](?: to ([\d,]+) labels)?(?:, p = (\d\.\d+))?"
)


def statements() -> Iterator[Check]:
    """Every difference, interval, p, range and verdict in the tables of what the text says."""
    page, told = "paper-reproduction.md", Statements()
    by_words = {one["says"]: one for one in told.claims["claims"]}
    for name in ("text of the paper", "beside the text"):
        says = ""
        for row in rows_between(page, f"<!-- {name} -->", f"<!-- end of {name} -->")[1:]:
            says = row[0] or says
            if not row[2]:
                continue
            claim, (dataset, _, learner) = by_words[says], row[1].partition(", ")
            case = told.cases(claim)[dataset, learner or "paper", row[2]]
            where = f"{says[:40]}, {row[1]}, {row[2]}"
            for ahead, behind, mean, low, high, to, p in DIFFERENCE.findall(row[3]):
                (pair,) = [one for one in case if same(ahead, one[0]) and same(behind, one[1])]
                reached, values, _, corrected = case[pair]
                what = f"{ahead.strip()} − {behind}"
                for printed, value in zip((mean, low, high), interval(values), strict=True):
                    yield Check(where, what, printed, value)
                if to:
                    yield Check(where, f"{what}, range", to, reached)
                if p or corrected is not None:
                    yield Check(where, f"{what}, p", p or "none", corrected if corrected is not None else "none")
            yield Check(where, "verdict", re.split(r",| to ", row[4])[0], told.verdict(case, claim))
            ends = {one[0] for one in case.values()}
            if len(ends) == 1:
                yield Check(where, "labels", re.findall(r"to ([\d,]+) labels", row[4])[0], ends.pop())
            if (end := re.search(rf"({NUMBER}) at the end", row[4])) is not None:
                worst = [one[2] for one in case.values()]
                yield Check(where, "at the end", end[1], max(worst, key=abs) if "within" in claim else min(worst))


def paper_means() -> Iterator[Check]:
    page, of = "paper-reproduction.md", {}
    heads, *rows = rows_between(page, "<!-- curves -->", "<!-- end of curves -->")
    for name, title in TITLES.items():
        of[title] = table_of(PAPER / f"{name}-paper")
    for row in rows:
        for head, printed in zip(heads[1:], row[1:], strict=True):
            title, _, budget = head.rpartition(" ")
            if printed and row[0] != "all labels":
                labels = int(budget.replace(",", ""))
                values = [value for (_, at), value in of[title][row[0]].items() if at == labels]
                yield Check("curves of the paper", f"{row[0]}, {head}", printed, 100 * sum(values) / len(values))
            elif printed:
                tops = list(of[title]["ceiling"].values())
                yield Check("curves of the paper", f"{row[0]}, {title}", printed, 100 * sum(tops) / len(tops))


def long_curves() -> Iterator[Check]:
    """Means to the end of the paper's range, where they were run, and what ours is ahead there."""
    text = (DOCS / "paper-reproduction.md").read_text().split("<!-- long curves -->")[1].split("<!-- end of long")[0]
    names = {title: name for name, title in TITLES.items()}
    for part in re.split(r"(?=^\*\*[A-Z])", text, flags=re.MULTILINE)[1:]:
        title = part.split("**")[1]
        heads, *rows = rows_of(part)
        budgets, curves = whole_curves(table_of(PAPER / f"long-{names[title]}-paper"))
        for row in rows:
            for head, printed in zip(heads[1:-1], row[1:-1], strict=True):
                value = 100 * curves[row[0]][:, budgets.index(int(head.replace(",", "")))].mean()
                yield Check(f"to the end, {title}", f"{row[0]}, {head}", printed, float(value))
            if row[-1]:
                found = interval(100 * (curves["surrogate"][:, -1] - curves[row[0]][:, -1]))
                yield from checks_of(f"to the end, {title}", f"ours minus {row[0]}", row[-1], found)


def decline_curves() -> Iterator[Check]:
    """Differences of the paper's method along whole curves, on the page that says why it falls behind."""
    heads = {"modern head": "modern", "paper's head": "paper"}
    names = {title: name for name, title in TITLES.items()}
    for row in rows_between("paper-late-decline.md", "<!-- table curves -->", "<!-- end -->")[1:]:
        title, _, head = row[0].partition(", ")
        budgets, curves = whole_curves(table_of(PAPER / f"{names[title]}-{heads[head]}"))
        ahead, behind = re.findall(r"`([^`]+)`", row[1])
        for i, printed in enumerate(row[2:], start=1):
            mean, _, high = interval(100 * (curves[ahead][:, i] - curves[behind][:, i]))
            yield from checks_of("late decline", f"{row[0]}, {row[1]}, {budgets[i]}", printed, (mean, high - mean))


# -- the default ------------------------------------------------------------------------------------------------------


def experiments() -> dict[tuple[str, str], str]:
    """The folder of each row, by table and title."""
    found = {}
    for study, name, head in itertools.product(("curves", "nothing", "long"), PAPER_SETS, ("modern", "paper")):
        words = "modern head" if head == "modern" else "paper's head"
        found[study, f"{TITLES[name]}, {words}"] = f"{study}-{name}-{head}"
    endings = {
        "classes 20:1, balanced accuracy": "imbalanced-modern", "10 % wrong answers": "wrong-modern",
        "a pool of 1,000": "rows1000-modern", "a training every 10": "rows20000-modern-every10",
        "a training every 100": "rows20000-modern-every100", "a training every 1,000": "rows20000-modern-every1000",
        "a training after every label": "rows5000-modern-every1",
    }  # fmt: skip
    for (words, end), name in itertools.product(endings.items(), ("fashion_mnist", "cifar100")):
        found["conditions", f"{TITLES[name]}, {words}"] = f"conditions-{name}-{end}"
    found["conditions", "movie reviews (texts), 2 classes"] = "conditions-reviews-modern"
    found["conditions", "FashionMNIST, pixels as features"] = "conditions-fashion_pixels-modern"
    found["conditions", "FashionMNIST images, ResNet18 end to end"] = "network-fashion_pixels-images-resnet18"
    return found


def default_curves(experiment: str) -> tuple[list[int], dict[str, np.ndarray]]:
    """What reached the last budget; budgets and repetitions that all of it has."""
    table = table_of(DEFAULT / experiment)
    last = max(b for runs in table.values() for _, b in runs)
    table = {name: runs for name, runs in table.items() if any(b == last for _, b in runs)}
    keys = set.intersection(*(set(runs) for runs in table.values()))
    repeats, budgets = sorted({r for r, _ in keys}), sorted({b for _, b in keys})
    return budgets, {name: np.array([[runs[r, b] for b in budgets] for r in repeats]) for name, runs in table.items()}


def leads() -> Iterator[Check]:
    """The default beside the best rival: areas, the difference, the largest p, where it is least ahead."""
    folders = experiments()
    for study in ("curves", "nothing", "long", "conditions"):
        for row in rows_between("default-method.md", f"<!-- {study} -->", f"<!-- end of {study} -->")[1:]:
            budgets, curves = default_curves(folders[study, row[0]])
            at = [math.log(b) for b in budgets] if study == "nothing" else budgets
            areas = {name: 100 * area(values, at) for name, values in curves.items()}
            ours, rivals = areas.pop("understudy"), sorted(areas, key=lambda name: -areas[name].mean())
            where, best = f"{study}, {row[0]}", rivals[0]
            yield Check(where, "area", row[1], ours.mean())
            yield Check(where, "best rival", row[2].split("`")[1], best)
            yield Check(where, "its area", row[2].split("` ")[1], areas[best].mean())
            yield from checks_of(where, f"minus {best}", row[3], interval(ours - areas[best]))
            if row[4] != "-":
                yield Check(
                    where, "largest p", row[4], max(holm([signed_ranks(ours - areas[name]) for name in rivals]))
                )
            gaps = []
            for i in range(0 if study == "nothing" else 1, len(budgets)):
                top = max(curves[name][:, i].mean() for name in rivals)
                gaps.append((100 * (curves["understudy"][:, i].mean() - top), budgets[i]))
            least = min(gaps)
            yield from checks_of(where, "least ahead", row[5].split(" (")[0], least)
            yield Check(where, "n", row[6], len(ours))
            sure = dict(zip(rivals, holm([signed_ranks(ours - areas[name]) for name in rivals]), strict=True))
            ahead = [name for name in rivals if sure[name] < 0.05 and interval(ours - areas[name])[1] > 0]
            behind = [name for name in rivals if sure[name] < 0.05 and interval(ours - areas[name])[2] < 0]
            words = "undecided" if 2 / 2 ** len(ours) >= 0.05 else "behind" if behind else "ahead"
            how_many = "all" if len(ahead) == len(rivals) else str(len(ahead))
            said, of, number, *_ = f"{row[7]} . .".split()
            yield Check(where, "verdict", said, words)
            if of == "of":
                yield Check(where, "ahead of", number, how_many)
            yield Check(where, "to", re.findall(r"to ([\d,]+) labels", row[7])[0], budgets[-1])


def default_means() -> Iterator[Check]:
    """Mean accuracies at every budget."""
    folders = experiments()
    for table, study in (("first labels", "nothing"), ("longest budgets", "long"), ("all budgets", "curves")):
        text = (
            (DOCS / "default-method.md").read_text().split(f"<!-- {table} -->")[1].split(f"<!-- end of {table} -->")[0]
        )
        for part in re.split(r"(?=^\*\*[A-Z])", text, flags=re.MULTILINE)[1:]:
            title = part.split("**")[1]
            budgets, curves = default_curves(folders[study, title])
            for row in rows_of(part)[1:]:
                values = 100 * curves[row[0].strip("`")].mean(0)
                for budget, printed, value in zip(budgets, row[1:], values, strict=True):
                    yield Check(f"{table}, {title}", f"{row[0]}, {budget}", printed.strip("*"), float(value))


def ablations() -> Iterator[Check]:
    folders = ("ablations-cifar100-held_out-modern", "ablations-fashion_mnist-held_out20000-modern")
    both = [default_curves(folder) for folder in folders]
    for row in rows_between("default-method.md", "<!-- ablations -->", "<!-- end of ablations -->")[1:]:
        name = plain(row[0].strip("`"))
        for (budgets, curves), printed in zip(both, row[1:], strict=True):
            if "to the end" in printed:
                continue
            values = 100 * area(curves[name], budgets)
            found = (
                [values.mean()]
                if name == "understudy"
                else interval(values - 100 * area(curves["understudy"], budgets))
            )
            yield from checks_of("ablations", name, printed, found)


def widths() -> Iterator[Check]:
    _, curves = default_curves("decline-cifar100-modern")
    _, others = default_curves("curves-cifar100-modern")
    curves |= {name: others[name] for name in ("margin", "badge", "understudy")}
    for row in rows_between("default-method.md", "<!-- decline -->", "<!-- end of decline -->")[1:]:
        values = curves[plain(row[0].strip("`"))]
        for printed, value in zip(row[1:-1], 100 * values.mean(0), strict=True):
            yield Check("widths", row[0], printed, float(value))
        if row[-1]:
            found = interval(100 * (values[:, -1] - curves["margin"][:, -1]))
            yield from checks_of("widths", f"{row[0]} minus margin", row[-1], found)


# -- the tables that are kept -----------------------------------------------------------------------------------------


def kept_tables(name: str) -> Iterator[Check]:
    """Ranks, penalties, differences and labels saved in the tables/ of a kept comparison."""
    folder, where = PAPER / f"{name}-paper", f"{name}-paper/tables"
    budgets, curves = whole_curves(table_of(folder))
    areas = {one: np.round(area(values, budgets), 12) for one, values in curves.items() if one not in CONTROLS}

    def rows(file: str) -> list[list[str]]:
        return [[cell.replace("\\", "") for cell in row] for row in rows_of((folder / "tables" / file).read_text())]

    ranked = [row[0] for row in rows("pairs.md")[1:]]
    by_repeat = [ranks_of(np.array([-areas[one][r] for one in ranked])) for r in range(len(areas[ranked[0]]))]
    for row in rows("pairs.md")[1:]:
        mean = sum(ranks[ranked.index(row[0])] for ranks in by_repeat) / len(by_repeat)
        yield Check(where, f"rank of {row[0]}", row[1], mean)
    penalties = [row for row in rows("pairs-2.md")[1:] if re.match(r"\d+ ", row[0])]
    names = [row[0].partition(" ")[2] for row in penalties]
    for row, own in zip(penalties, names, strict=True):
        for printed, other in zip(row[1:], names, strict=False):
            if printed:
                yield Check(where, f"{own} beats {other}", printed, beats(curves[own], curves[other]))
    heads, *lines = rows("curves.md")
    for row in lines:
        for column, head in enumerate(heads):
            if re.fullmatch(r"[\d,]+", head):
                values = 100 * curves[row[0]][:, budgets.index(int(head.replace(",", "")))]
                found = (values.mean(), math.sqrt(((values - values.mean()) ** 2).sum() / (len(values) - 1)))
                yield from checks_of(where, f"{row[0]} at {head}", row[column].replace("±", " "), found)
    against = {row[0]: row for row in lines if "[" in row[heads.index("minus random")]}
    p = dict(zip(against, holm([signed_ranks(areas[one] - areas["random"]) for one in against]), strict=True))
    for one, row in against.items():
        difference = interval(100 * (areas[one] - areas["random"]))
        yield from checks_of(where, f"{one} minus random", row[heads.index("minus random")], difference)
        yield Check(where, f"p of {one}", row[heads.index("p (Holm)")], p[one])
    theirs = never_falling(curves["random"].mean(0))
    for row in rows("curves-2.md")[1:]:
        ours = never_falling(curves[row[0]].mean(0))
        levels = list(dict.fromkeys(theirs[1:]))
        for printed, level in zip(row[1 : 1 + len(levels)], levels, strict=True):
            needed, by_random = labels_for(ours, budgets, level), labels_for(theirs, budgets, level)
            saved = re.match(r"([\d,]+) \((-?[\d,]+)", printed.replace("−", "-"))
            if needed is not None and by_random is not None and saved is not None:
                yield Check(where, f"labels of {row[0]} for {100 * level:.1f} %", saved[1], needed)
                yield Check(where, f"labels saved by {row[0]} at {100 * level:.1f} %", saved[2], by_random - needed)


def all_checks() -> Iterator[Check]:
    yield from statements()
    yield from paper_means()
    yield from long_curves()
    yield from decline_curves()
    yield from leads()
    yield from default_means()
    yield from ablations()
    yield from widths()
    for name in PAPER_SETS:
        yield from kept_tables(name)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="list every number, not only those that differ")
    given = parser.parse_args(arguments)
    checks = list(all_checks())
    wrong = [one for one in checks if not one.agrees]
    for one in checks if given.all else wrong:
        found = one.found if isinstance(one.found, str) else f"{one.found:.6g}"
        same = "same" if one.agrees else "DIFFERS"
        print(f"{same:8}{one.where} | {one.what} | printed {one.printed} | here {found}")
    print(f"{len(checks)} numbers recomputed, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
