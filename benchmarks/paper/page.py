"""The tables of docs/paper-reproduction.md, from what is kept here: figures on the page are those of the files.

python benchmarks/paper/page.py    # writes the tables into the page
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import text_claims
from claims import OURS, setting
from figures import SETS, SYSTEMS

from understudy.experiments.curves import CONTROLS
from understudy.experiments.results import Results
from understudy.experiments.statistics import holm_correction, paired_difference, round_off, signed_rank_p

sys.path.append(str(Path(__file__).parents[1]))  # what pages share lives there
from page_tables import fill_tables, markdown_table, signed

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "paper-reproduction.md"
RESULTS: Final = HERE / "results"
TIMES: Final = HERE.parent / "results"
BUDGETS: Final = (1000, 2000, 5000)
LONG_BUDGETS: Final = (1000, 3000, 5000, 7000, 9000, 11000)
ALSO: Final = ("surrogate_blind", "entropy", "margin_x10")
# Seconds a pick in the paper, by our names of its systems.
PAPER_SECONDS: Final = {
    "coreset": 0.05, "learning_loss": 0.12, "badge": 0.58, "weight_schedule": 0.03, "uncertain_gcn": 0.86,
}  # fmt: skip
SHOWN: Final = ("random", "margin", "entropy", "badge", "coreset", "typiclust", "weight_schedule", "learning_loss",
                "surrogate", "surrogate_influence", "surrogate_uncertainty", "surrogate_blind")  # fmt: skip


def kept(name: str, folder: Path = RESULTS) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(heads, rows, numbers="---")


def give(value: Mapping[str, Any], digits: int = 1, times: float = 1.0) -> str:
    """mean ± deviation."""
    return f"{times * value['mean']:.{digits}f} ± {times * value['std']:.{digits}f}".replace("-", "−")


def points(value: Mapping[str, Any]) -> str:
    """A difference of shares in points, with its interval."""
    mean, low, high = (signed(100 * one, 1) for one in (value["mean"], *value["interval"]))
    return f"{mean} [{low}, {high}]"


# -- the tables -------------------------------------------------------------------------------------------------------


def curves() -> str:
    """Accuracies of the systems on the four sets."""
    means: dict[str, dict[str, list[str]]] = {}
    for title, name in SETS.items():
        results = Results.open(HERE / name)
        found = results.curves([*SYSTEMS, *ALSO])
        for strategy, values in found.accuracy.items():
            at = [100 * values[:, found.schedule.index(budget)].mean() for budget in BUDGETS]
            means.setdefault(strategy, {})[title] = [f"{value:.1f}" for value in at]
        top = results.ceiling()
        if top is not None:
            means.setdefault("all labels", {})[title] = ["", "", f"{100 * float(np.mean(top)):.1f}"]
    heads = ["", *(f"{title} {budget:,}" for title in SETS for budget in BUDGETS)]
    return table(heads, [[name, *(cell for title in SETS for cell in of[title])] for name, of in means.items()])


def long_curves() -> str:
    """The same to the paper's last budget, of those that were run so far; differences to ours at the end."""
    parts = []
    for title, name in SETS.items():
        folder = HERE / f"long-{name}"
        if not (folder / "experiment.json").exists():
            continue
        results = Results.open(folder)
        found = results.curves(played_to_the_end(results))
        ours = found.accuracy.get(OURS)
        at = [i for i, budget in enumerate(found.schedule) if budget in LONG_BUDGETS]
        rows = []
        for strategy, values in found.accuracy.items():
            other = ours is not None and strategy != OURS
            ahead = paired_difference(100 * (ours - values)[:, -1]) if other else None
            ends = "" if ahead is None else text_claims.with_interval({"mean": ahead.mean, "interval": ahead.interval})
            rows.append([strategy, *(f"{100 * mean:.1f}" for mean in values.mean(0)[at]), ends])
        heads = ["", *(f"{found.schedule[i]:,}" for i in at), f"ours minus it at {found.schedule[-1]:,}"]
        parts.append(f"**{title}**, {found.repeats} repetitions\n\n{table(heads, rows)}")
    return "\n\n".join(parts) or "No run has gone so far yet."


def played_to_the_end(results: Results) -> list[str]:
    """The strategies that reached the last budget of the comparison in all repetitions."""
    rounds = set(zip(*(results.table[name].to_pylist() for name in ("strategy", "repeat", "labels")), strict=True))
    rounds = {one for one in rounds if one[0] not in CONTROLS}
    last, repeats = max(labels for _, _, labels in rounds), {repeat for _, repeat, _ in rounds}
    names = dict.fromkeys(name for name in results.strategies if name not in CONTROLS)
    return [name for name in names if all((name, repeat, last) in rounds for repeat in repeats)]


def kernel() -> str:
    found = kept("kernel")["results"]
    heads = ["v of the basis", "bandwidth", *(f"{one['learner']}, fit to {to}" for one in found for to in "yf")]
    rows = []
    for key in found[0]["reduction_percent"]:
        reading, bandwidth = key.split()
        cells = [give(one["reduction_percent"][key][f"{to} labelled"]) for one in found for to in "yf"]
        rows.append([reading, bandwidth.replace("^2", "²"), *cells])
    return table(heads, rows)


def snr() -> str:
    words = {
        "f^": "the surrogate, f̂", "old": "the network before, f: as if nothing had been learnt",
        "retrained": "f' trained again, another seed", "softmax f^": "the softmax of f̂ that u² takes",
    }  # fmt: skip
    found = kept("snr")["results"]
    rows = [[says, *(give(one["found"][key], 2) for one in found)] for key, says in words.items()]
    return table(["dB", *(one["learner"] for one in found)], rows)


def neighbours() -> str:
    found = kept("neighbours")["change_percent"]
    words = {"told u1": "u¹, a label", "told u2": "u², a label", "one label": "entropy of a network, a label",
             "round, u1": "u¹, a round of 500", "round, u2": "u², a round of 500",
             "round, network": "entropy of a network, a round of 500"}  # fmt: skip
    heads = ["change in %", *(f"{link}, {place}" for link in found for place in ("near", "random"))]
    rows = [
        [says, *(give(of[f"{key} {place}"], 2) for of in found.values() for place in ("near", "random"))]
        for key, says in words.items()
    ]
    return table(heads, rows)


def redundancy() -> str:
    """The round of 1,000 picks from 1,000 labels."""
    (of,) = [one for one in kept("redundancy")["rounds"] if one["picks"] == 1000]
    rows = []
    for name in SHOWN:
        pool, copies = (of[kind]["strategies"][name]["summary"] for kind in ("pool", "copies"))
        rows.append(
            [
                name,
                f"{pool['within_over_random, mean']['mean']:.2f}",
                f"{pool['balance']['mean']:.2f}",
                f"{copies['in_groups']['mean']:.0f}",
                f"{copies['repeats']['mean']:.0f}",
                f"{100 * pool['accuracy']['mean']:.1f}",
            ]
        )
    chance = of["copies"]["by_chance"]
    rows.append(["by chance", "", "", f"{chance['in_groups']:.0f}", f"{chance['repeats']:.0f}", ""])
    heads = ["strategy", "distance to the next pick, over random's", "class balance", "picks with near copies",
             "of these, again", "accuracy after, without copies"]  # fmt: skip
    return table(heads, rows)


def ideal() -> str:
    found = kept("ideal")
    area = {name: one["area"] for name, one in found["accuracy"].items()}
    gaps = {one["ideal"]: one for one in found["gaps"]}
    rows = [[name, give(area[name], 1, 100), "", ""] for name in area]
    for row in rows:
        for column, (title, one) in enumerate(gaps.items(), start=2):
            if row[0] in one["others"]:
                row[column] = points(one["others"][row[0]]["beyond_ideal"])
            elif row[0] == one["batches"]:
                low, high = one["gap"]["interval"]
                row[column] = points({"mean": -one["gap"]["mean"], "interval": (-high, -low)})
            elif row[0] == title:
                row[column] = "the ideal"
    return table(["strategy", "mean accuracy", *(f"minus {title}" for title in gaps)], rows)


def encoders() -> str:
    found = kept("encoders")["results"]
    heads = ["encoder", *(f"{kind}, {n:,}" for n in found[0]["labels"] for kind in ("random", "ours"))]
    heads.append(f"ours minus random at {found[0]['labels'][-1]:,}")
    rows = [
        [
            one["encoder"],
            *(
                f"{100 * one[kind][i]['mean']:.1f}"
                for i in range(len(one["labels"]))
                for kind in ("random", "surrogate")
            ),
            points(one["surrogate_minus_random"][-1]),
        ]
        for one in found
    ]
    return table(heads, rows)


def times() -> str:
    """Seconds a pick: the paper's, ours on a GPU, and all on two threads of a CPU."""
    gpu = kept("picks-gpu", TIMES)["results"][0]
    cpu = {
        (one["name"], one["classes"]): one["seconds"][-1] / one["picks"][-1]
        for one in kept("strategies", TIMES)["results"]
        if one["who"] == "understudy" and one["picks"]
    }
    rows = [
        ["ours", "0.35", f"{cpu['surrogate', 10]:.4f}", f"{gpu['pick_ms'] / 1000:.4f}"],
        ["ours, in one call as in simulations", "", "", f"{gpu['rehearsed_ms'] / 1000:.5f}"],
        ["ours, the paper's O(NK²) form", "", "", f"{gpu['literal_ms'] / 1000:.4f}"],
    ]
    rows += [[name, f"{paper:.2f}", f"{cpu[name, 10]:.4f}", ""] for name, paper in PAPER_SECONDS.items()]
    runs = kept("adversaries-h200", TIMES)
    for name, paper in (("vaal", 23.73), ("ta_vaal", 23.78)):
        rows.append([name, f"{paper:.2f}", "", adversary_seconds(runs, name)])
    return table(["system", "paper", "CPU, two threads", "H200"], rows)


def adversary_seconds(runs: Mapping[str, Any], name: str) -> str:
    """From the measured round, at the published number of iterations."""
    one = runs["runs"][{"vaal": "vaal:4500", "ta_vaal": "ta_vaal:published"}[name]]
    whole = {"vaal": 46_875, "ta_vaal": one["iterations"]}[name]
    seconds = one["select_seconds"] * whole / one["iterations"] / runs["settings"]["picks"]
    return f"{seconds:.2f}" + (" (extrapolated)" if whole != one["iterations"] else "")


def text_of(whose: str) -> Callable[[], str]:
    return lambda: text_claims.markdown(text_report(), whose)


# -- the first table: each figure of the paper and ours ---------------------------------------------------------------


def overview() -> str:
    heads = ["claim", "paper", "ours", "setting", "what explains the difference", "verdict"]
    return table(heads, [*curve_rows(), *surrogate_rows(), *batch_rows()])


def said(which: str, dataset: str, stage: str = "whole", learner: str = "paper") -> Any:
    (found,) = [
        one
        for one in text_report()["claims"]
        if (one["id"], one["dataset"], one["stage"], one["learner"]) == (which, dataset, stage, learner)
    ]
    return found


@cache
def text_report() -> Any:
    """What text_claims.py found; refused where it was judged by other claims than those that stand there now."""
    text_claims.refuse_other_claims(RESULTS / "text_claims.json")
    return kept("text_claims")


def versus(case: Any, rival: str) -> str:
    """The difference of a case to one rival; in words where there is none."""
    found = [one for one in case["comparisons"] if rival in (one["ahead"], one["behind"])]
    return text_claims.with_interval(found[0]) if found else text_claims.MISSING


def setting_of(*cases: Any, head: str = "`paper` head") -> str:
    """Data, learner, range and repetitions of what these cases rest on."""
    ones = [one for case in cases for one in case["comparisons"]]
    sets = list(dict.fromkeys(TITLES[case["dataset"]] for case in cases if case["comparisons"]))
    if not ones:
        return ""
    ends = sorted({one["to"] for case in cases if case["stage"] != "early" for one in case["comparisons"]})
    labels = " or ".join(f"{end:,}" for end in ends or [text_claims.RULES.early_to])
    repeats = " or ".join(map(str, sorted({one["repeats"] for one in ones})))
    return f"{', '.join(sets)}; {head}, 600 to {labels} labels, {repeats} repetitions"


TITLES: Final = {name.partition("-")[0]: title for title, name in SETS.items()}
verdict = text_claims.in_full


def curve_rows() -> Iterator[list[str]]:
    for dataset in text_claims.MANY:
        by = {stage: said("best", dataset, stage) for stage in text_claims.STAGES}
        ours = "; ".join(f"{stage} {versus(by[stage], 'badge')}" for stage in text_claims.STAGES)
        yield [f"best on {TITLES[dataset]}", "further significant improvements", f"minus BADGE: {ours}",
               setting_of(*by.values()), "early yes, late no: [why](paper-late-decline.md)",
               "; ".join(f"{stage}: {verdict(one)}" for stage, one in by.items())]  # fmt: skip
    par = said("par", "fashion_mnist")
    yield ["level with the best on FashionMNIST", "on par with WS and BADGE",
           f"minus WS {versus(par, 'weight_schedule')}; minus BADGE {versus(par, 'badge')}", setting_of(par),
           "level with margin too, which the paper does not show", verdict(par)]  # fmt: skip
    yield ["Caltech256", "behind ours", "", "", "no files", text_claims.MISSING]
    vaal = [said("vaal", name) for name in text_claims.claim_of("vaal").sets]
    known = [one for one in vaal if one["verdict"] != text_claims.MISSING]
    yield ["VAAL, TA-VAAL", "behind ours",
           "; ".join(f"{TITLES[one['dataset']]}: minus VAAL {versus(one, 'vaal')}, minus TA-VAAL "
                     f"{versus(one, 'ta_vaal')}" for one in known), setting_of(*known),
           "up to half an hour a round ([VAAL](strategies/vaal.md))",
           "; ".join(map(verdict, known)) or text_claims.MISSING]  # fmt: skip
    parts = {name: said("parts", name) for name in ("fashion_mnist", "cifar100", "cifar10")}
    yield ["both utilities beat one", "consistently",
           f"FashionMNIST: minus u² {versus(parts['fashion_mnist'], text_claims.U2)}; CIFAR-100: minus u¹ "
           f"{versus(parts['cifar100'], text_claims.U1)}", setting_of(*parts.values()),
           "on CIFAR-10 u² alone is as good", by_set(parts)]  # fmt: skip
    equal = {name: said("uniform", name) for name in ("fashion_mnist", "cifar100")}
    shown = "; ".join(f"{TITLES[name]} {versus(one, text_claims.UNIFORM)}" for name, one in equal.items())
    yield ["weighing by P beats equal weights", "slight degradation without", shown, setting_of(*equal.values()),
           "P stays low with many classes, so u¹ keeps too much weight", by_set(equal)]  # fmt: skip
    yield from sweep_rows()
    noise = kept("noise")
    agreed, picks = [one["agreed"] for one in noise["repetitions"]], noise["settings"]["picks"]
    yield ["σ² from 1e-8 to 1e-12, the picks", "no variation",
           f"all five choose the same {min(agreed)} of {picks} rows, in this order",
           f"CIFAR-10, float64, one round from 1,000 labels, {len(agreed)} repetitions",
           "the same picks give the same accuracy", by_few(len(agreed))]  # fmt: skip


def by_set(cases: Mapping[str, Any]) -> str:
    return "; ".join(f"{TITLES[name]}: {verdict(one)}" for name, one in cases.items())


def by_few(repeats: int, otherwise: str = "") -> str:
    """The verdict on a figure that is not among the statements: fewer than five repetitions decide nothing."""
    if repeats < text_claims.RULES.decided_from:
        return f"{text_claims.UNDECIDED}: {repeats} repetitions"
    return otherwise


def sweep_rows() -> Iterator[list[str]]:
    more = said("more_basis", "cifar10")
    shown = [f"{text_claims.short(one['ahead']).removeprefix('K = ')}: {text_claims.with_interval(one)} to "
             f"{one['to']:,} labels" for one in more["comparisons"]]  # fmt: skip
    most = said("basis_4000", "cifar10")
    yield ["K beyond 500", "+0.06 up to 2,000", "; ".join(shown), setting_of(more),
           "the interval is wider than the claim" if more["verdict"] == text_claims.UNDECIDED else "",
           verdict(more)]  # fmt: skip
    yield ["K = 4,000 as good as 2,000", "saturated",
           versus(most, setting(basis_size=4000)) if most["comparisons"] else "", setting_of(most),
           "" if most["comparisons"] else most["until_run"], verdict(most)]  # fmt: skip
    for which, symbol in (("width_wide", "σx"), ("output_wide", "σf")):
        wide = said(which, "cifar10")
        worst = max(wide["comparisons"], key=lambda one: abs(one["mean"]), default=None)
        yield [f"{symbol} × 0.3 to 8", "negligible", "" if worst is None else text_claims.in_words(worst, False),
               setting_of(wide), "", verdict(wide)]  # fmt: skip
    for which, symbol in (("width_narrow", "σx"), ("output_narrow", "σf")):
        narrow = said(which, "cifar10")
        (one,) = narrow["comparisons"] or (None,)
        yield [f"{symbol} below × 0.1", "rapid decrease" if symbol == "σx" else "similar",
               "" if one is None else text_claims.in_words(one, False), setting_of(narrow),
               "probably: u¹ then tells nothing apart, and u² is left, which is good on CIFAR-10"
               if symbol == "σx" else "", verdict(narrow)]  # fmt: skip
    noise = said("noise", "cifar10")
    if noise["comparisons"]:
        yield ["σ² from 1e-8 to 1e-12", "no variation", text_claims.cell(noise), setting_of(noise), "",
               verdict(noise)]  # fmt: skip


def surrogate_rows() -> Iterator[list[str]]:
    paper, *_ = kept("kernel")["results"]
    less = {key: of["f labelled"]["mean"] for key, of in paper["reduction_percent"].items()}
    yield ["the product kernel is nearer to f", "MAD 34 % less",
           f"{abs(less['dirichlet C^2']):.0f} % with σf² = C²; {less['dirichlet C']:.0f} % with C; "
           f"{less['dirichlet 1']:.0f} % with 1", "FashionMNIST, 4,500 labels, 5 networks",
           "with C² the output kernel is almost constant. Between C and 1, or with v from the pool, 34 % is there",
           by_few(len(paper["values"]) if "values" in paper else 5, "not, as printed, at 4,500 labels")]  # fmt: skip
    found = kept("snr")["results"][0]["found"]
    yield ["f̂ is near a network trained on 500 labels more", "15.49 dB",
           f"{found['f^']['mean']:.2f} dB; trained again {found['retrained']['mean']:.2f}; before "
           f"{found['old']['mean']:.2f}", "FashionMNIST, `paper` head, 5 repetitions",
           "it is as near as the network of 500 labels ago: f̂ hardly moves",
           "not the figure, at 2,500 labels; that it follows f, not"]  # fmt: skip
    found = kept("lookahead")
    settings, times = found["about"]["settings"], found["times"]["u3 of all"]
    last = max(found["accuracy_points"], key=int)
    yield ["u³ in place of u²", "+0.16 points, 50 times slower",
           f"{give(found['accuracy_points'][last]['u3 - u2'], 2)} points; of all rows {times['over_u2']:,.0f} times "
           f"slower than our u², {times['over_u2_literal']:.0f} times than the O(NK²) form",
           f"FashionMNIST, pool of 5,000, {int(last):,} labels, {settings['repeats']} repetitions, CPU; accuracy with "
           f"u³ of {settings['candidates']} rows a pick",
           "too few repetitions to decide; u³ was kept to the rows that u¹ prefers or that reach furthest",
           f"{by_few(settings['repeats'])}; slower, as measured"]  # fmt: skip
    gpu = kept("picks-gpu", TIMES)["results"][0]
    yield ["seconds a pick", "0.35", f"{gpu['pick_ms'] / 1000:.4f}", "60,000 rows, K = 500, 10 classes, H200",
           f"a newer machine: the paper's own form takes {gpu['literal_ms'] / 1000:.4f} there", "faster"]  # fmt: skip


def batch_rows() -> Iterator[list[str]]:
    (of,) = [one for one in kept("redundancy")["rounds"] if one["picks"] == 1000]
    again = {name: one["summary"]["repeats"]["mean"] for name, one in of["copies"]["strategies"].items()}
    yield ["batches are redundant, ours are not", "in words",
           f"near copies taken again, of 1,000 picks: entropy {again['entropy']:.0f}, margin {again['margin']:.0f}, "
           f"BADGE {again['badge']:.0f}, ours {again['surrogate']:.0f}, by chance "
           f"{of['copies']['by_chance']['repeats']:.0f}", "FashionMNIST, 2,000 rows with 4 near copies, 3 repetitions",
           f"u¹ alone takes {again[text_claims.U1]:.0f}, u² alone {again[text_claims.U2]:.0f}",
           f"{by_few(kept('redundancy')['settings']['repeats'])}; fewer, not none, in these"]  # fmt: skip
    near = kept("neighbours")["change_percent"]["softmax"]
    yield ["a label lowers the utility around it", "in words",
           f"u¹ {near['told u1 near']['mean']:.1f} %, u² {near['told u2 near']['mean']:.2f} %; a network's entropy "
           f"{near['one label near']['mean']:.1f} %".replace("-", "−"), "FashionMNIST, 10 nearest rows, 2 repetitions",
           "a softmax of probabilities is nearly flat",
           f"{by_few(kept('neighbours')['about']['settings']['repeats'])}; of u¹ yes, of u² not, in these"]  # fmt: skip
    gap = next(one for one in kept("ideal")["gaps"] if one["batches"] == "entropy")["others"]
    p = holm_correction(np.array([signed_rank_p(round_off(np.array(gap[name]["beyond_ideal"]["values"])))
                                  for name in ("surrogate", "surrogate_uncertainty")]))  # fmt: skip
    yield ["the surrogate imitates retraining after every label", "in words",
           f"minus the ideal: ours {points(gap['surrogate']['beyond_ideal'])}, u² alone "
           f"{points(gap['surrogate_uncertainty']['beyond_ideal'])}", "digits, 20 to 200 labels, 10 repetitions",
           "ours gets there by u¹, not by imitation: u² alone is as entropy in batches",
           f"not of u², to 200 labels ({text_claims.p_in_words(p[1])})"]  # fmt: skip
    blind = {(name, stage): said("blind", name, stage) for name in text_claims.ALL for stage in ("early", "whole")}
    shown = [("fashion_mnist", "early"), ("cifar10", "early"), ("cifar100", "early"), ("cifar100", "whole")]
    ours = "; ".join(f"{TITLES[name]} {stage} {versus(blind[name, stage], text_claims.BLIND)}" for name, stage in shown)
    sure = {stage: sum(blind[name, stage]["verdict"] == text_claims.CONFIRMED for name in text_claims.ALL)
            for stage in ("early", "whole")}  # fmt: skip
    to = max(one["to"] for case in blind.values() for one in case["comparisons"])
    yield ["labels within a round help", "the idea of the method", f"minus blind: {ours}",
           setting_of(*blind.values()), "blind, P is 0 in the first round: u¹ alone",
           f"early, to 1,000 labels, confirmed on {sure['early']} of 4 sets; to {to:,} labels on {sure['whole']}"
           + (text_claims.OLDER if any(one["older"] for one in blind.values()) else "")]  # fmt: skip


def judged_by() -> str:
    """Which claims the verdicts are by, and which runs are older."""
    told = text_report()["judged_by"]
    runs = {folder for one in text_report()["claims"] for each in one["comparisons"] for folder in each["folders"]}
    older = [name for name in sorted(text_report()["runs_before_the_claims"]) if name in runs]
    newer = sorted(runs - set(older))
    lines = [f"`benchmarks/paper/{told['file']}`, sha256 `{told['sha256']}`, written {told['written']}.", ""]
    lines.append(f"Runs that are older than it, {text_claims.OLDER} beside the verdict: {', '.join(older) or 'none'}. "
                 f"Runs that are newer: {', '.join(newer) or 'none so far'}.")  # fmt: skip
    return "\n".join(lines)


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "judged by": judged_by,
    "overview": overview,
    "curves": curves,
    "long curves": long_curves,
    "text of the paper": text_of("paper"),
    "beside the text": text_of("ours"),
    "kernel": kernel,
    "snr": snr,
    "neighbours": neighbours,
    "redundancy": redundancy,
    "ideal": ideal,
    "encoders": encoders,
    "times": times,
}


if __name__ == "__main__":
    PAGE.write_text(fill_tables(PAGE.read_text(), TABLES))
    print(PAGE)
