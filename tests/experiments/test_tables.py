"""Tables show what the statistics say, fit into a terminal, and survive Markdown and LaTeX."""

import re

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from understudy.experiments.curves import Curves
from understudy.experiments.statistics import compare, penalty_matrix, rank_strategies
from understudy.experiments.tables import (
    Grid,
    as_latex,
    as_markdown,
    as_rich,
    comparison_grid,
    comparison_table,
    escape_latex,
    escape_markdown,
    interval_text,
    penalty_grid,
    pick_evenly,
    points_text,
    rank_grid,
    saved_table,
    savings_grid,
    shorten,
    width_of,
)

SCHEDULE = (600, 800, 1000, 2000, 3000, 4000)
NAMES = ("random", "margin", "badge", "surrogate(width=0.25)", "learning_loss (selection only)", "mine:own_one")


def made(repeats: int, names: tuple[str, ...] = NAMES, schedule: tuple[int, ...] = SCHEDULE) -> Curves:
    rng = np.random.default_rng(0)
    start = rng.normal(0.6, 0.02, (repeats, 1))
    rise = 0.05 * np.arange(1, len(schedule))
    later = [start + rise + 0.01 * i + rng.normal(0, 0.005, (repeats, len(rise))) for i in range(len(names))]
    return Curves("toy_set", schedule, {name: np.hstack([start, y]) for name, y in zip(names, later, strict=True)})


def printed(table: Table, width: int = 100) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


TWO = Curves(
    "toy",
    (10, 20, 40),
    {
        "random": np.array([[0.5, 0.6, 0.7], [0.5, 0.5, 0.8]]),
        "margin": np.array([[0.5, 0.7, 0.9], [0.5, 0.8, 1.0]]),
    },
)


def test_a_table_by_hand() -> None:
    grid = comparison_grid(TWO, full=False)
    assert grid.headings == ("strategy", "10", "20", "40", "area", "minus random")
    # Areas are 22/30 and 24.5/30; 18.5/30 and 18/30. Their differences 3.5/30 and 6.5/30 have the interval
    # 5/30 ± 12.706 * 1.5/30.
    assert grid.rows == (
        ("margin", "50.0", "75.0", "95.0", "77.50±5.89", "+16.67 [-46.86, +80.20]"),
        ("random", "50.0", "55.0", "75.0", "60.83±1.18", "reference"),
    )
    assert grid.bold == {(0, 2), (0, 3), (0, 4)}  # at the first budget they are alike
    assert "p-values need at least 10 repetitions." in grid.notes


def test_the_full_table_has_deviations_all_areas_and_counts() -> None:
    grid = comparison_grid(TWO)
    assert grid.headings[4:] == ("area", "early area", "log area", "minus random", "bootstrap", "win/tie/loss")
    assert grid.rows[0][1:4] == ("50.0±0.0", "75.0±7.1", "95.0±7.1")
    assert grid.rows[0][5] == "50.00±0.00"  # the first third of three budgets is one
    assert grid.rows[0][-1] == "2/0/0"
    assert grid.rows[1][-1] == ""


def test_rows_are_sorted_by_area_and_say_what_the_statistics_say() -> None:
    curves = made(10)
    grid = comparison_grid(curves)
    areas = [curves.area(row[0]).mean() for row in grid.rows]
    assert areas == sorted(areas, reverse=True)
    rows = {row[0]: row for row in grid.rows}
    for found in compare(curves):
        cells = rows[found.strategy]
        assert points_text(found.area) in cells
        assert f"{found.wins}/{found.ties}/{found.losses}" in cells
        assert cells[-1] == f"{found.p_holm:.3f}"
        assert interval_text(found.bootstrap) in cells
    assert rows["random"][-4:] == ("reference", "", "", "")
    assert grid.headings[-1] == "p (Holm)"


def test_another_reference() -> None:
    grid = comparison_grid(TWO, "margin", full=False)
    assert grid.headings[-1] == "minus margin"
    assert grid.rows[1][-1].startswith("-16.67 [")


def test_without_deviations_there_is_nothing_after_plus_and_minus() -> None:
    grid = comparison_grid(made(1))
    assert not any("±" in cell or "nan" in cell or "[" in cell for row in grid.rows for cell in row)
    assert "p (Holm)" not in grid.headings
    assert "1 repetition" in grid.title


def test_a_strategy_alone_is_shown_without_comparison() -> None:
    grid = comparison_grid(TWO.only(["margin"]))
    assert grid.rows[0][-2] == "reference"
    assert not any("Minus" in note or "p-values" in note for note in grid.notes)


def test_context_stands_apart() -> None:
    curves = made(10, ("margin_x10", "random", "margin", "ceiling"))
    grid = comparison_grid(curves)
    assert sorted(row[0] for row in grid.rows) == ["margin", "random"]
    assert [row[0] for row in grid.apart] == ["margin_x10"]
    assert grid.apart[0][-3:] == ("", "", "")  # no difference, no count, no p
    assert {len(row) for row in (*grid.rows, *grid.apart)} == {len(grid.headings)}
    assert any(note.startswith("Ceiling, trained on all labels: ") for note in grid.notes)
    assert "corrected for 1 comparison." in " ".join(grid.notes)


def test_a_system_that_changes_training_stands_apart_and_its_selection_is_compared() -> None:
    curves = made(10, ("random", "vaal", "vaal (selection only)", "margin_x10"))
    for full, words in ((True, "changes training; not ranked"), (False, "not ranked")):
        grid = comparison_grid(curves, full=full)
        assert sorted(row[0] for row in grid.rows) == ["random", "vaal (selection only)"]
        assert [row[0] for row in grid.apart] == ["vaal", "margin_x10"]
        assert words in grid.apart[0]
        assert {len(row) for row in (*grid.rows, *grid.apart)} == {len(grid.headings)}
        assert "corrected for 1 comparison." in " ".join(grid.notes)
        assert "so only its selection is ranked: vaal." in " ".join(grid.notes)
    assert "vaal" not in {row[0] for row in savings_grid(curves).rows}


def test_the_ceiling_is_given_apart_where_it_has_budgets_of_its_own() -> None:
    notes = comparison_grid(TWO, ceiling=np.array([0.9, 0.92])).notes
    assert "Ceiling, trained on all labels: 91.0±1.4." in notes


def test_it_is_said_where_no_p_can_be_small() -> None:
    many = made(10, tuple(f"s{i}" for i in range(28)))
    assert any("so many comparisons cannot give a p below 0.05" in note for note in comparison_grid(many).notes)
    assert not any("cannot" in note for note in comparison_grid(made(10)).notes)


def test_it_is_said_that_some_budgets_are_left_out() -> None:
    grid = comparison_grid(made(2), n_budgets=3)
    assert grid.headings[1:4] == ("800", "2,000", "4,000")
    assert grid.notes[0].startswith("3 of 6 budgets shown")
    assert "budgets shown" not in comparison_grid(made(2), n_budgets=6).notes[0]


@pytest.mark.parametrize("n", range(1, 16))
def test_spaced_budgets_are_as_many_as_asked_and_end_with_the_last(n: int) -> None:
    for of in range(1, 30):
        chosen = pick_evenly(range(of), n)
        assert len(set(chosen)) == len(chosen) == min(n, of)
        assert chosen == sorted(chosen)
        assert chosen[-1] == of - 1
        assert chosen[0] >= 0


@pytest.mark.parametrize("repeats", [1, 3, 10])
@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits_into_the_terminal(repeats: int, width: int) -> None:
    names = (*NAMES, "a_module.of.my_own.somewhere_deep:and_a_strategy(setting=0.125, other=3)", "margin_x10")
    curves = made(repeats, names, (*SCHEDULE, *range(5000, 12000, 1000)))
    for table, n in ((comparison_table(curves, width=width), len(names)), (saved_table(curves, width=width), 7)):
        lines = printed(table, width)
        first = next(i for i, line in enumerate(lines) if line.lstrip().startswith("──")) + 1
        body = [line for line in lines[first : first + n + 1] if line.strip()]
        assert len(body) == n  # a line a strategy
        assert not any(line.endswith("…") or "… " in line for line in body)  # names lose their middle, numbers nothing
        assert max(map(len, lines)) <= width


def test_the_width_is_known_before_it_is_drawn() -> None:
    for grid in (comparison_grid(made(10)), comparison_grid(made(10), full=False), savings_grid(made(3))):
        width = width_of(grid, 34)
        assert not any("…" in line for line in printed(as_rich(grid), width))
        assert any("…" in line for line in printed(as_rich(grid), width - 1))


def test_a_wide_terminal_shows_more_budgets() -> None:
    narrow, wide = (len(comparison_table(made(10), width=width).columns) for width in (80, 160))
    assert narrow < wide == len(SCHEDULE) + 4


def test_labels_saved_by_hand() -> None:
    curves = Curves(
        "toy",
        (100, 200, 4000),
        {
            "random": np.array([[0.5, 0.6, 0.7]]),
            "fast": np.array([[0.5, 0.7, 0.8]]),
            "slow": np.array([[0.5, 0.55, 0.6]]),
        },
    )
    grid = savings_grid(curves)
    assert grid.headings == ("strategy", "60.0 %", "70.0 %", "efficiency", "range")
    assert grid.rows == (
        ("fast", "150 (50, 25 %)", "200 (3,800, 95 %)", "20.00", "50.0 to 70.0 %"),
        ("random", "200", "4,000", "", ""),
        ("slow", "4,000 (-3,800, -1,900 %)", "–", "0.05", "50.0 to 60.0 %"),
    )
    assert savings_grid(curves, accuracies=[0.65, 0.9], full=False).rows[1] == ("random", "2,100", "–")


def test_curves_without_a_common_accuracy_have_no_efficiency() -> None:
    apart = Curves("toy", (10, 20), {"random": np.array([[0.1, 0.2]]), "margin": np.array([[0.5, 0.6]])})
    assert savings_grid(apart).rows[0][-2:] == ("", "")


def test_one_budget_has_no_accuracy_to_reach() -> None:
    assert savings_grid(Curves("toy", (5,), {"random": np.array([[0.5]])})).rows == (("random",),)


def test_penalties_are_sorted_and_numbered() -> None:
    values = np.full((10, 2), 0.5)
    found = penalty_matrix(Curves("toy", (5, 6), {"random": values, "margin": values + 0.1, "a_b": values + 0.2}))
    grid = penalty_grid(found)
    assert grid.headings == ("strategy", "1", "2", "3")
    assert grid.rows == (
        ("1 a_b", "", "1.00", "1.00"),
        ("2 margin", "0.00", "", "1.00"),
        ("3 random", "0.00", "0.00", ""),
    )
    assert grid.apart == (("penalty (mean of column)", "0.00", "0.33", "0.67"),)
    assert grid.bold == {(3, 1)}
    assert "| **0.00** | 0.33 | 0.67 |" in as_markdown(grid)
    assert r"1 a\_b &  & 1.00 & 1.00 \\" in as_latex(grid)


def test_ranks_share_letters_where_they_are_not_told_apart() -> None:
    grid = rank_grid(rank_strategies(made(10)))
    assert [row[1] for row in grid.rows] == sorted(row[1] for row in grid.rows)
    apart = rank_grid(rank_strategies(made(10, ("worse", "better"))))
    assert apart.rows == (("better", "1.10", ""), ("worse", "1.90", ""))  # once it was the other way round
    assert rank_grid(rank_strategies(made(4))).headings == ("strategy", "rank")
    alike = made(10)
    same = Curves("toy", alike.schedule, dict.fromkeys("abc", alike.accuracy["random"]))
    assert [row[2] for row in rank_grid(rank_strategies(same)).rows] == ["a", "a", "a"]


def test_it_is_said_which_test_told_ranks_apart() -> None:
    few, many = (rank_grid(rank_strategies(made(10, tuple(f"s{i}" for i in range(n))))) for n in (7, 8))
    assert "no significant difference by signed ranks, corrected for 21 pairs." in " ".join(few.notes)
    assert "no significant difference by Nemenyi's test of mean ranks" in " ".join(many.notes)
    assert "corrected for 28 pairs, cannot give a p below 0.05 with 10 blocks" in " ".join(many.notes)


HARD = Grid(
    "50 % of_all",
    ("strategy", "1,000"),
    (("a_b|c*d [x]", "-1.00±0.50"), ("{x}~^\\&#$", "<0.001")),
    apart=(("beside", "–"),),
    bold=frozenset({(0, 1)}),
    notes=("Note_1.", "100 %."),
)


def test_markdown_by_hand() -> None:
    assert as_markdown(HARD).splitlines() == [
        r"**50 % of\_all**",
        "",
        "| strategy | 1,000 |",
        "|---|---:|",
        r"| a\_b\|c\*d \[x\] | **-1.00±0.50** |",
        r"| {x}~^\\&#$ | \<0.001 |",
        "| beside | – |",
        "",
        r"Note\_1.",
        "100 %.",
    ]


def test_latex_by_hand() -> None:
    assert as_latex(HARD).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \% of\_all. Note\_1. 100 \%.}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"strategy & 1,000 \\",
        r"\midrule",
        r"a\_b|c*d [x] & \textbf{$-$1.00$\pm$0.50} \\",
        r"\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}\&\#\$ & $<$0.001 \\",
        r"\midrule",
        r"beside & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_a_line_may_not_look_optional_to_latex() -> None:
    # After \\ LaTeX takes [x] for a length.
    grid = Grid("t", ("strategy", "n"), (("a", "1"), ("[x]", "2")))
    assert "{[}x]" in as_latex(grid)


def test_every_line_of_a_large_table_has_all_its_cells() -> None:
    grid = comparison_grid(made(10, (*NAMES, "margin_x10")))
    for line in as_markdown(grid).splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == len(grid.headings) + 1
    for line in as_latex(grid).splitlines():
        if line.endswith(r"\\"):
            assert len(re.findall(r"(?<!\\)&", line)) == len(grid.headings) - 1


def test_names_with_brackets_are_no_commands_to_the_terminal() -> None:
    lines = printed(as_rich(Grid("[red]t", ("strategy", "n"), (("x[bold]", "1"),), notes=("[b]",))))
    text = "\n".join(lines)
    assert all(word in text for word in ("[red]t", "x[bold]", "[b]"))


def test_words() -> None:
    assert escape_latex("a-1", numbers=True) == "a-1"
    assert escape_latex("+1 [-1, -2]", numbers=True) == "+1 [$-$1, $-$2]"
    assert escape_markdown("a\nb") == "a b"
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcd…ghijk"
    assert len(shorten("x" * 99)) == 34
