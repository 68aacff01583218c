"""The page on the method's decline says what the kept files say, in its tables and in its sentences."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.benchmarks.scripts import script
from understudy.experiments.statistics import half_width

page, keep = script("decline_page"), script("decline_keep")
TEXT = (Path(__file__).parents[1] / "docs" / "paper-late-decline.md").read_text()
SENTENCES = " ".join(TEXT.split())  # wherever lines break
EARLY, LATE, LATER = ("random", 600), ("literal", 2000), ("literal", 4000)


@pytest.fixture(scope="module")
def kept() -> Any:
    return page.Kept()


def mean(kept: Any, name: str, state: tuple[str, int]) -> str:
    """As the sentences have it."""
    return f"{np.mean(kept.lever(name, state)[0]):+.2f}".replace("-", "−")


@pytest.mark.parametrize("name", page.TABLES)
def test_every_table_of_the_page_is_made_of_the_kept_files(name: str, kept: Any) -> None:
    assert f"<!-- table {name} -->\n{page.TABLES[name](kept)}<!-- end -->" in TEXT


def test_sentences_on_single_changes_have_the_numbers_of_the_files(kept: Any) -> None:
    for name, words in {
        "margin": "`margin` shows the gap: {}",
        "P=0.9": "P goes up to 0.9: {}",
        "u2=margin": "P as it is: {}",
        "u2=margin, P=0.9": "Both: {}",
        "link=simplex": "simplex {}",
        "link=logit": "logit {}",
        "sigma_f=sqrt(C)": "sqrt(C): {}",
    }.items():
        start = words.format(mean(kept, name, LATE))
        found = re.search(re.escape(start) + r".{0,30}?([+−]\d\.\d\d)", SENTENCES)
        assert found is not None, start
        assert found[1] == mean(kept, name, LATER)


def test_early_labels_do_no_harm_and_late_choices_do(kept: Any) -> None:
    at = page.by_variant([r for r in kept.paths if r["labels"] == 3000], lambda r: 100 * r["accuracy"])
    switched = list(page.differences(at, "literal>margin@2000", "literal").values())
    assert len(switched) == 5
    assert min(switched) > 0.5
    back = np.array(list(page.differences(at, "margin>literal@2000", "literal").values()))
    half = half_width(back.std(ddof=1), 5)
    assert f"{back.mean():.2f} ± {half:.2f} better than from its own (five repetitions, all positive)" in SENTENCES
    assert back.min() > 0


def test_p_stands_still_while_the_learner_improves(kept: Any) -> None:
    own = [r for r in kept.paths if r["variant"] == "literal" and 1000 <= r["labels"] <= 4000 and r.get("gauges")]
    looks: dict[int, list[float]] = {}
    for record in own:
        for gauge in record["gauges"]:
            looks.setdefault(record["labels"] + int(gauge["asked"]), []).append(gauge["P"])
    means = [np.mean(values) for labels, values in looks.items() if labels > 1300]
    assert 0.42 <= min(means) <= max(means) <= 0.44


def test_dense_regions_pay_early_and_cost_late(kept: Any) -> None:
    for state, said in ((EARLY, "−0.76"), (LATER, "+0.75")):
        records = page.at_state(kept.one_round, state)
        gains = page.by_variant(records, page.gain)
        near = page.by_variant(records, lambda record: record["picks"]["neighbours"])
        found = spearmanr(*([np.mean(list(some[name].values())) for name in gains] for some in (gains, near))).statistic
        assert f"{found:+.2f}".replace("-", "−") == said
        assert said in SENTENCES


def test_class_counts_are_as_the_page_says(kept: Any) -> None:
    uneven = kept.curves["cifar100-modern"]["unevenness"]
    numbers = [np.mean([row[-1] for row in uneven[name]]) for name in ("surrogate", "random", "margin")]
    assert "literal {:.2f}, random {:.2f}, margin {:.2f}".format(*numbers) in SENTENCES


def test_pooled_deviations_are_those_of_all_variants_with_some_repetitions() -> None:
    values = {"a": {0: 1.0, 1: 3.0}, "b": {0: 0.0, 1: 4.0}, "c": {0: 9.0}, "margin": {0: 0.0, 1: 0.0}}
    assert page.pooled(values, "margin") == (pytest.approx(((2 + 8) / 2) ** 0.5), 2)
    assert np.isnan(page.pooled({"margin": {0: 1.0}}, "margin")[0])


def test_fewer_than_five_repetitions_decide_nothing(kept: Any) -> None:
    for line in page.verdicts_table(kept).splitlines()[2:]:
        suspect, *_, n, p, verdict = (part.strip() for part in line.strip("|").split("|"))
        assert (p == "") == (int(n) < 5), suspect
        assert verdict.startswith("undecided") == (p == "" or float(p) >= 0.05), suspect


def test_what_is_called_decided_is_the_width_the_head_and_labels_within_the_round(kept: Any) -> None:
    decided = [line for line in page.verdicts_table(kept).splitlines()[2:] if "undecided" not in line]
    assert [re.split(r" − | \| ", line)[1].strip("` ") for line in decided] == [
        "width 1.0",
        "width 1.3",
        "surrogate_blind",
        "surrogate",
    ]
    assert "**Only the width is decided**" in SENTENCES


def test_cells_are_bold_where_zero_lies_outside_and_tell_few_repetitions() -> None:
    assert page.cell([1.0, 2.0, 3.0, 2.0, 2.0], 0.5) == "**+2.00 ± 0.50**"
    assert page.cell([1.0, 2.0, 3.0, 2.0], 0.5) == "+2.00 ± 0.50 (4)"
    assert page.cell([-0.25], 0.5) == "−0.25 ± 0.50 (1)"
    assert page.cell([], 0.5) == ""


def test_kept_numbers_have_five_digits_and_the_rest_is_kept() -> None:
    given = {"a": [0.123456789, {"b": 12345678.9}], "c": "text", "n": 3, "none": None}
    assert keep.shortened(given) == {"a": [0.12346, {"b": 12346000.0}], "c": "text", "n": 3, "none": None}


def test_kept_files_are_small() -> None:
    assert sum(file.stat().st_size for file in page.KEPT.glob("*.json")) < 1_500_000
