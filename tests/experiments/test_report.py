"""The report: one page that fetches nothing, says only what is known, and stands any name."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.experiments.made_up import made_up
from understudy.data.datasets import load_named
from understudy.data.items import Texts
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError
from understudy.experiments import drawing, pages, report
from understudy.experiments.curves import Curves
from understudy.experiments.headline import headline
from understudy.experiments.report import write_report
from understudy.experiments.report_sections import means_over_labels, seconds_a_pick
from understudy.experiments.results import Results
from understudy.experiments.styles import series_class
from understudy.experiments.summary import Findings, summarise

XML_NAMES = {  # of the drawing library; names, never fetched
    f"http://www.w3.org/{name}"
    for name in ("1999/xhtml", "1999/xlink", "2000/svg", "2000/xmlns/", "XML/1998/namespace")
}
EVIL = "<script>alert('x')</script>\"&$"


class Seen(HTMLParser):
    """What a browser would make of a page: its tags with their attributes, its text, and the ids in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(re.sub(r"(<script[^>]*>).*?</script>", r"\1</script>", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def sections(self) -> set[str]:
        return {str(attributes["id"]) for tag, attributes in self.tags if tag == "section"}


def seen(path: Path) -> Seen:
    return Seen(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def few_dots() -> Iterator[None]:
    """Figures are drawn in full by their own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "DOTS_PER_INCH", 30)
        patch.setattr(drawing, "DOTS_PER_INCH_INSIDE", 30)
        yield


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_named("digits")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, digits: Dataset) -> Path:
    names = ["surrogate", "surrogate_blind", "margin", "learning_loss", "learning_loss (selection only)", "random"]
    folder = tmp_path_factory.mktemp("whole")
    return write_report(made_up(folder, [*names, "margin_x10"], dataset=digits, schedule=(20, 40, 80, 160)), digits)


def test_a_page_has_all_its_sections_figures_and_tables(whole: Path) -> None:
    page = seen(whole)
    expected = "curves labels-needed differences ablations selection-only pairs items balance map calibration time cost"
    assert page.sections == {*expected.split(), "settings", "repeat"}
    figures = "learning-curves differences areas ablations selection-only ranks class-balance map"
    stems = {path.stem for path in (whole.parent / "figures").glob("*.png")}
    assert stems == {path.stem for path in (whole.parent / "figures").glob("*.svg")} == {
        *figures.split(), "calibration", "time",
    }  # fmt: skip
    tables = {path.name for path in (whole.parent / "tables").iterdir()}
    assert {"curves.md", "curves.tex", "curves-2.md", "pairs.md", "pairs.tex", "time.md", "cost.md"} <= tables
    assert sum(tag == "svg" for tag, _ in page.tags) == len(stems)
    assert not list(whole.parent.rglob("*.part"))  # nothing half written is left


def test_a_page_fetches_nothing(whole: Path) -> None:
    text = whole.read_text()
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= XML_NAMES
    for tag, attributes in seen(whole).tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            assert str(attributes.get(name) or "#").startswith(("#", "data:image/"))
    assert all(found.startswith(("#", "'#", '"#')) for found in re.findall(r"url\(([^)]*)\)", text))


def test_every_link_leads_to_a_place_on_the_page(whole: Path) -> None:
    page = seen(whole)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.tags:
        if tag == "a" and attributes.get("href") not in (None, "#"):
            assert str(attributes["href"])[1:] in ids


def test_every_strategy_can_be_found_in_the_figures(whole: Path) -> None:
    page = seen(whole)
    chips = {attributes["data-series"] for _, attributes in page.tags if attributes.get("data-series")}
    classes = {one for _, attributes in page.tags for one in str(attributes.get("class") or "").split()}
    assert len(chips) == 7
    assert chips <= classes


def test_settings_versions_and_commands_are_told(whole: Path) -> None:
    text = seen(whole).text
    assert "understudy compare 'some where/pool.npz' --strategies" in text
    assert "--repeats 3 --schedule 20,40,80,160 --seed 0 --learner modern" in text
    assert f"understudy report {whole.parent}" in text
    assert "version of torch" in text
    assert "mean ± one standard deviation" in text


def test_names_and_texts_are_harmless_whatever_they_contain(tmp_path: Path) -> None:
    n = 60
    classes = (EVIL, "$b$", "c" * 80)
    pool = Pool(
        tuple(f"{EVIL}{i}" for i in range(n)),
        Texts([f"{EVIL} text {i} http://example.org" for i in range(n)]),
        np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32),
        np.arange(n) % 3,
        classes,
    )
    dataset = Dataset(EVIL, pool, pool.take(range(20)))
    names = [EVIL, "surrogate(width=0.25)", "my_module:name", "surrogate", "random"]
    page = seen(write_report(made_up(tmp_path, names, dataset=dataset, schedule=(6, 12, 24)), dataset))
    assert sum(tag == "script" for tag, _ in page.tags) == 4  # the data, and what shows them
    assert f"{EVIL} text" in page.text
    assert "surrogate(width=0.25)" in page.text
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.sections >= {"items", "map", "ablations"}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"repeats": 1}, {"pairs"}),
        ({"schedule": (20,)}, {"time", "map", "items", "ablations"}),
        ({"strategies": ["margin"]}, {"pairs", "differences", "ablations"}),
        ({"strategies": ["margin", "entropy"], "ceiling": False}, {"ablations"}),
    ],
)
def test_what_is_not_there_is_left_out(
    given: dict[str, object], missing: set[str], tmp_path: Path, digits: Dataset
) -> None:
    defaults = {"dataset": digits, "schedule": (20, 40, 80)}
    page = seen(write_report(made_up(tmp_path, **{**defaults, **given}), digits))  # type: ignore[arg-type]
    assert not page.sections & missing
    assert "curves" in page.sections
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+", "", page.text.lower())


def test_without_the_data_set_there_are_no_items_and_no_map(tmp_path: Path) -> None:
    page = seen(write_report(made_up(tmp_path), None))
    assert not page.sections & {"items", "map"}
    assert "The data set was not available" in page.text
    assert {"balance", "curves"} <= page.sections


def test_without_matplotlib_there_are_tables_and_a_word_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Dataset
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = seen(write_report(made_up(tmp_path, dataset=digits, schedule=(20, 40)), digits))
    assert "understudy-al[plot]" in page.text
    assert not [tag for tag, _ in page.tags if tag == "svg"]
    assert sum(tag == "table" for tag, _ in page.tags) >= 4
    assert not list((tmp_path / "figures").iterdir())
    assert page.sections == {
        *["curves", "differences", "labels-needed", "pairs", "items", "time", "cost", "settings", "repeat"],
    }


def test_an_unfinished_comparison_says_who_is_missing(tmp_path: Path) -> None:
    results = made_up(tmp_path, ended={"margin": 1}, repeats=4, wanted=["surrogate", "margin", "random", "badge"])
    text = seen(write_report(results)).text
    assert "Left out: margin has 1 of 4 repetitions; --repeats 4 to compare it." in text
    assert "Unfinished, in repetitions: badge 0 of 4. Run the same command to continue." in text


def without(results: Results, strategy: str, labels: int) -> Results:
    rows = zip(results.table["strategy"].to_pylist(), results.table["labels"].to_pylist(), strict=True)
    return replace(results, table=results.table.filter([row != (strategy, labels) for row in rows]))


def test_who_ended_early_everywhere_is_drawn_and_not_compared(tmp_path: Path) -> None:
    results = without(made_up(tmp_path, ["surrogate", "core_gcn", "random"], repeats=10), "core_gcn", 48)
    page = seen(write_report(results))
    assert "core_gcn got no further than 24 of 48 labels, so it is not compared" in page.text
    assert "Of 2 strategies" in page.text
    drawn = (tmp_path / "figures" / "learning-curves.svg").read_text()
    assert f"{series_class('core_gcn')}-line" in drawn
    assert "core_gcn" not in (tmp_path / "tables" / "curves.md").read_text().replace("\\", "")
    chips = {attributes["data-series"] for _, attributes in page.tags if attributes.get("data-series")}
    assert series_class("core_gcn") in chips


def test_a_system_that_changes_training_is_counted_once(tmp_path: Path) -> None:
    names = ["vaal", "vaal (selection only)", "margin", "random"]
    page = seen(write_report(made_up(tmp_path, names, repeats=10)))
    assert "Of 3 strategies" in page.text
    assert "changes training; not ranked" in page.text
    ranks = (tmp_path / "tables" / "pairs.md").read_text()
    assert [line.split(" |")[0] for line in ranks.splitlines() if line.startswith("| ")][1:] == [
        "| vaal (selection only)", "| margin", "| random",
    ]  # fmt: skip


def test_below_ten_repetitions_there_is_no_penalty_matrix(tmp_path: Path) -> None:
    page = seen(write_report(made_up(tmp_path, repeats=9)))
    assert "significantly" not in page.text
    assert "there is no penalty matrix" in page.text
    assert not (tmp_path / "tables" / "pairs-2.md").exists()
    assert not (tmp_path / "figures" / "penalties.svg").exists()
    assert "significantly better" in seen(write_report(made_up(tmp_path / "ten", repeats=10))).text


def test_bars_join_by_nemenyi_where_signed_ranks_cannot_tell(tmp_path: Path) -> None:
    names = ["surrogate", "margin", "badge", "entropy", "coreset", "typiclust", "gradnorm", "random"]
    page = seen(write_report(made_up(tmp_path, names, repeats=10)))
    assert "A bar joins those that do not differ significantly by Nemenyi's test of mean ranks" in page.text
    assert "Not significantly different from it (Nemenyi's test of mean ranks): " in page.text


def test_figures_beside_the_curves_are_of_the_same_repetitions(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=4, ended={"margin": 3})
    found = summarise(results).findings
    assert found is not None
    assert found.repeats == (0, 1, 2)
    assert found.ceiling is not None
    assert len(found.ceiling) == 3
    labels, means = means_over_labels(results, "ece", ["random"], found.repeats)["random"]
    rows = [row for row in results.table.to_pylist() if row["strategy"] == "random" and row["repeat"] < 3]
    for at, mean in zip(labels, means, strict=True):
        assert mean == pytest.approx(np.mean([row["ece"] for row in rows if row["labels"] == at]))


def test_a_page_holds_its_own_drawings_whatever_others_write_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturbed(_: object, stem: Path, *__: object) -> None:
        stem.with_name(f"{stem.name}.svg").write_text("half of another")

    monkeypatch.setattr(drawing, "save_figure", disturbed)
    page = seen(write_report(made_up(tmp_path)))
    assert sum(tag == "svg" for tag, _ in page.tags) >= 5


def test_labels_saved_are_on_the_page_and_among_the_tables(tmp_path: Path) -> None:
    page = seen(write_report(made_up(tmp_path, repeats=2)))
    table = (tmp_path / "tables" / "curves-2.md").read_text()
    for text in (page.text, table):
        assert "efficiency" in text
    assert "bootstrap" in (tmp_path / "tables" / "curves.md").read_text()


def test_what_was_not_kept_is_named_in_a_line(tmp_path: Path, digits: Dataset) -> None:
    results = made_up(tmp_path, dataset=digits, schedule=(20, 40, 80))
    table = results.table
    for name in ("picks", "was_right", "class_counts", "ece", "asked_accuracy"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.nulls(len(table), table.schema.field(name).type))
    page = seen(write_report(replace(results, table=table), digits))
    assert page.sections == {"curves", "labels-needed", "cost", "differences", "pairs", "settings", "repeat"}
    for said in ("The picked rows were not stored", "The classes of the picks", "The learner's calibration was not"):
        assert page.text.count(said) == 1


def test_with_nothing_to_compare_the_page_says_so(tmp_path: Path) -> None:
    page = seen(write_report(made_up(tmp_path, strategies=[])))
    assert "nothing to compare yet" in page.text
    assert page.sections == {"settings", "repeat"}


def test_a_page_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = made_up(tmp_path, schedule=(6, 12))
    before = write_report(results, with_figures=False).read_text()

    def fails(*_: object) -> str:
        raise RuntimeError

    monkeypatch.setattr(pages, "read_script", fails)
    with pytest.raises(RuntimeError):
        write_report(results, with_figures=False)
    assert (tmp_path / "report.html").read_text() == before


def test_seconds_a_pick_leave_out_the_initial_labels(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=2)
    choosing, training = seconds_a_pick(results, ["margin"])
    rows = [row for row in results.timings.to_pylist() if row["strategy"] == "margin" and row["round"] > 0]
    picks = 2 * (48 - 6)
    assert training["margin"] == pytest.approx(sum(row["train_seconds"] for row in rows) / picks)
    assert choosing["margin"] == pytest.approx(
        sum(row["choose_seconds"] + row["predict_seconds"] for row in rows) / picks
    )


def test_the_data_set_is_looked_for_where_it_came_from(tmp_path: Path, digits: Dataset) -> None:
    results = made_up(tmp_path)
    assert report.find_dataset(results) is None
    with pytest.raises(UnderstudyError):
        report.find_dataset(results, "no such thing")
    found = report.find_dataset(results, "digits")
    assert found is not None
    assert found.pool.ids == digits.pool.ids


def test_a_replay_is_repeated_by_a_replay(tmp_path: Path) -> None:
    results = made_up(tmp_path / "replay-paper", ceiling=False)
    assert "--no-controls" in report.commands_to_repeat(results)[0]
    again = Results(results.folder, {**results.settings, "protocol": "picks of modern"}, results.table, results.timings)
    assert report.commands_to_repeat(again)[0].startswith(f"understudy replay {tmp_path} --learner modern")


def test_the_page_names_the_options_that_make_it_again(tmp_path: Path) -> None:
    results = made_up(tmp_path)
    first, second = (summarise(results, metric) for metric in ("balanced_accuracy", "log_loss"))
    page = report.write_report(results, summary=first, others=[second], targets=[0.5, 0.25], with_figures=False)
    assert "--metric balanced_accuracy,log_loss --reach 0.5,0.25</" in page.read_text()
    assert report.commands_to_repeat(results)[1] == f"understudy report {tmp_path}"


# The headline


def two(best: list[float], other: list[float], repeats: int, noise: float = 0.001, name: str = "margin") -> Curves:
    rng = np.random.default_rng(0)
    given = {name: best, "random": other}
    return Curves(
        "toy", (10, 20, 40), {key: np.array(row) + rng.normal(0, noise, (repeats, 3)) for key, row in given.items()}
    )


def test_the_headline_tells_how_many_labels_random_needed() -> None:
    found = headline(Findings(two([0.5, 0.8, 0.9], [0.5, 0.6, 0.8], 10, noise=1e-6), np.array([0.95])))
    assert (
        found.sentence
        == "margin reached 90.0 % with 40 labels; to reach 80.0 %, random needed 2.0 times as many as margin."
    )
    assert ("95.0 %", "with all labels: the ceiling") in found.numbers


def test_below_ten_repetitions_no_significance_is_claimed() -> None:
    words = " ".join(headline(Findings(two([0.5, 0.8, 0.9], [0.5, 0.6, 0.8], 3))).verdicts)
    assert "With 3 repetitions no significance is claimed" in words
    assert "significantly" not in words
    assert "p =" not in words


def test_random_has_its_own_test_and_is_not_among_those_not_told_apart() -> None:
    rng, rise = np.random.default_rng(0), np.array([0.5, 0.7, 0.8])
    names = ["badge", "margin", "random", *(f"rival_{i}" for i in range(7))]
    accuracy = {name: rise - 0.01 * i + rng.normal(0, 1e-4, (10, 3)) for i, name in enumerate(names)}
    words = " ".join(headline(Findings(Curves("toy", (10, 20, 40), accuracy))).verdicts)
    assert "significant, p = 0.018" in words
    assert "Not significantly different from it (Nemenyi's test of mean ranks): margin, rival_0, rival_1." in words


def test_a_lead_within_the_noise_is_called_so() -> None:
    found = headline(Findings(two([0.5, 0.71, 0.81], [0.5, 0.7, 0.8], 5, noise=0.1)))
    assert "times as many" not in found.sentence
    assert "within the noise" in found.sentence or "Nothing did better" in found.sentence


def test_a_single_repetition_tells_nothing_apart() -> None:
    assert "a single repetition is too few" in headline(Findings(two([0.5, 0.8, 0.9], [0.5, 0.6, 0.8], 1, 0))).sentence


def test_random_may_win() -> None:
    assert headline(Findings(two([0.5, 0.6, 0.7], [0.5, 0.7, 0.8], 3))).sentence.startswith(
        "Nothing did better than random"
    )


def test_ours_is_named_where_it_did_not_win() -> None:
    curves = two([0.5, 0.8, 0.9], [0.5, 0.6, 0.8], 3)
    curves.accuracy["surrogate"] = curves.accuracy["margin"] - 0.01
    assert "surrogate is 2nd: " in " ".join(headline(Findings(curves)).verdicts)


def test_a_page_by_another_metric_and_the_tables_of_further_ones(tmp_path: Path) -> None:
    results = made_up(tmp_path, ["surrogate", "margin", "random"], repeats=3)
    first, other = (summarise(results, name) for name in ("balanced_accuracy", "log_loss"))
    page = write_report(results, summary=first, others=[other], targets=[0.6], with_figures=False)
    assert {"by-log-loss", "labels-needed"} <= seen(page).sections
    text = seen(page).text
    assert "test balanced accuracy in %" in text
    assert "less than random" in text
    written = (tmp_path / "tables" / "labels-needed.md").read_text()
    assert "| strategy | 60.0 % | of random |" in written
    assert (tmp_path / "tables" / "by-log-loss.tex").exists()


def test_every_budget_is_in_the_written_tables(tmp_path: Path) -> None:
    budgets = tuple(range(10, 190, 10))
    write_report(made_up(tmp_path, repeats=2, schedule=budgets), with_figures=False)
    for ending, between in (("md", " | "), ("tex", " & ")):
        heading = between.join(map(str, budgets))
        assert heading in (tmp_path / "tables" / f"curves.{ending}").read_text()


def test_what_a_terminal_shows_has_a_table_for_each_metric_and_for_the_targets(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=3)
    *found, page = report.publish(results, width=100, metrics=("brier", "accuracy"), targets=(0.5, 0.4))
    titles = [str(one.title) for one in found if not isinstance(one, str)]
    assert [title.partition(",")[0] for title in titles] == [
        "made up: test Brier score", "made up: test accuracy in %", "made up: labels needed for a test Brier score",
    ]  # fmt: skip
    assert str(page).startswith("report: ")
