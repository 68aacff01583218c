"""The pages of results in a real browser, wide and on a phone, light and dark: they answer, and ask for nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.experiments.made_up import made_up
from tests.web import axe, browser
from understudy.experiments.joint_report import write_joint_report
from understudy.experiments.leaderboard_page import write_leaderboard
from understudy.experiments.metrics import METRICS
from understudy.experiments.report import write_report
from understudy.experiments.results import Results
from understudy.experiments.statistics import compare
from understudy.experiments.styles import series_class
from understudy.experiments.tables import p_text, points_text

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

chromium = browser.chromium
NAMES = ["surrogate", "margin", "badge", "vaal", "vaal (selection only)", "random", "margin_x10"]
SCREENS = [pytest.param(width, scheme, id=f"{width}-{scheme}") for width in (1200, 390) for scheme in ("light", "dark")]
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
CELLS = """(headings) => Array.from(document.querySelectorAll("[data-live=table] tbody tr")).map((row) => {
  const found = Array.from(row.closest("table").tHead.rows[0].cells).map((cell) => cell.textContent);
  return headings.map((heading) => row.cells[found.indexOf(heading)]?.textContent);
})"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("one"), NAMES, repeats=10, schedule=(6, 12, 24, 48))


@pytest.fixture(scope="module")
def report(results: Results) -> Path:
    return write_report(results, with_figures=False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, results: Results) -> list[Path]:
    other = tmp_path_factory.mktemp("other")
    made_up(other, ["surrogate", "margin", "random", "entropy"], repeats=10, schedule=(6, 24, 96))
    return [results.folder, other]


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory, folders: list[Path]) -> Path:
    return write_joint_report(folders, tmp_path_factory.mktemp("joint"), with_figures=False)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, folders: list[Path]) -> Path:
    few = made_up(tmp_path_factory.mktemp("few"), ["coreset", "random"], repeats=3, schedule=(6, 24, 96))
    return write_leaderboard([*folders, few.folder], tmp_path_factory.mktemp("board") / "leaderboard.html")


@contextmanager
def opened(chromium: "Browser", path: Path, width: int = 1200, scheme: str = "light") -> "Iterator[Page]":
    """The page in a browser of its own; afterwards nothing was said on the console and nothing was asked for."""
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    context = chromium.new_context(**options, has_touch=width < 500, reduced_motion="reduce")
    said: list[str] = []
    asked: list[str] = []
    try:
        page = context.new_page()
        page.set_default_timeout(browser.WAIT)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        yield page
        assert said == []
        assert asked == [path.as_uri()]
    finally:
        context.close()


def point_at(page: "Page", kind: str, series: str, number: int) -> str:
    """The values that are shown when one points at a dot of a curve, or taps it."""
    dot = page.locator(f"[data-live={kind}] svg g.{series} path[transform]").nth(number)
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 1, y - 1)
    page.mouse.move(x, y)
    tip = page.locator(f"[data-live={kind}] svg [data-mark=tip] text")
    tip.wait_for()
    return " ".join(tip.locator("tspan").all_text_contents()).replace("\u200b", "")


def curve(page: "Page", name: str, kind: str = "learning") -> list[str | None]:
    """How the lines of a strategy run, one for each panel."""
    lines = page.locator(f"[data-live={kind}] svg g[data-mark=line].{series_class(name)} path")
    return [line.get_attribute("d") for line in lines.all()]


def choose(page: "Page", what: str, value: str) -> None:
    page.locator(f"[data-choose={what}]").first.select_option(value)


def test_the_curves_are_drawn_and_say_their_values(chromium: "Browser", report: Path, results: Results) -> None:
    curves = results.curves(["margin", "random"])
    margin = curves.of("margin")[:, 2]
    (found,) = compare(curves, "random")
    with opened(chromium, report) as page:
        told = re.sub(r"\s+", " ", point_at(page, "learning", series_class("margin"), 2))
        assert f"margin 24 labels {100 * margin.mean():.2f}±{100 * margin.std(ddof=1):.2f} %" in told
        assert points_text(found.budgets[2]) in told
        told = re.sub(r"\s+", " ", point_at(page, "offsets", series_class("margin"), 2))
        assert points_text(found.budgets[2]) in told


def test_a_tap_on_a_phone_says_the_values(chromium: "Browser", report: Path) -> None:
    with opened(chromium, report, 390) as page:
        dot = page.locator(f"[data-live=learning] svg g.{series_class('badge')} path[transform]").nth(3)
        dot.scroll_into_view_if_needed()
        box = dot.bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = page.locator("[data-live=learning] svg [data-mark=tip] text")
        tip.wait_for()
        assert "48 labels" in tip.evaluate("(one) => one.textContent")


@pytest.mark.parametrize("metric", METRICS)
def test_the_table_is_that_of_the_statistics_for_every_choice(
    metric: str, chromium: "Browser", report: Path, results: Results
) -> None:
    measure = METRICS[metric]
    curves = results.curves([name for name in results.strategies if name in NAMES], metric)
    with opened(chromium, report) as page:
        for reference in ("random", "badge"):
            choose(page, "metric", metric)
            choose(page, "reference", reference)
            headings = ["strategy", "12", f"against {reference}", "win/tie/loss", "p (Holm)"]
            shown = {row[0]: row[1:] for row in page.evaluate(CELLS, headings)}
            for one in compare(curves, reference):
                column = measure.scale * curves.of(one.strategy)[:, 1]
                assert shown[one.strategy] == [
                    f"{column.mean():.{measure.decimals}f}±{column.std(ddof=1):.{measure.decimals}f}",
                    points_text(one.area, measure),
                    f"{one.wins}/{one.ties}/{one.losses}",
                    p_text(one.p_holm),
                ]


def test_what_is_chosen_is_drawn(chromium: "Browser", report: Path) -> None:
    with opened(chromium, report) as page:
        before, offset = curve(page, "margin"), curve(page, "margin", "offsets")
        choose(page, "metric", "log_loss")
        assert curve(page, "margin") != before
        assert page.locator("[data-live=learning] svg").get_attribute("aria-label", timeout=1000)
        choose(page, "metric", "accuracy")
        assert curve(page, "margin") == before
        choose(page, "reference", "badge")
        assert curve(page, "margin") == before
        assert curve(page, "margin", "offsets") != offset
        assert curve(page, "random", "offsets")
        assert not curve(page, "badge", "offsets")
        choose(page, "scale", "log")
        assert curve(page, "margin") != before
        lines = page.locator(f"[data-live=learning] svg g[data-mark=line].{series_class('margin')} path")
        assert lines.count() == 1
        page.locator("[data-choose=each]").first.check()
        assert lines.count() == 1 + 10


def test_strategies_are_chosen_by_their_names(chromium: "Browser", report: Path) -> None:
    with opened(chromium, report) as page:
        chip = page.locator('.chip[data-name="margin"]')
        chip.click()
        assert chip.get_attribute("aria-pressed") == "false"
        assert not curve(page, "margin")
        assert curve(page, "badge")
        assert "margin" not in [row[0] for row in page.evaluate(CELLS, ["strategy"])]
        chip.click()
        assert curve(page, "margin")
        page.locator("[data-choose-all=none]").click()
        assert not curve(page, "badge")
        page.locator("[data-choose-all=all]").click()
        assert curve(page, "badge")


def test_a_click_on_a_heading_sorts(chromium: "Browser", report: Path) -> None:
    with opened(chromium, report) as page:
        table = page.locator("[data-live=table] table")
        heading = table.locator("th", has_text="48")

        def column() -> list[float]:
            rows = page.evaluate(CELLS, ["strategy", "48"])
            return [float(value.split("±")[0]) for name, value in rows if name not in ("vaal", "margin_x10")]

        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "descending"
        assert column() == sorted(column(), reverse=True)
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "ascending"
        assert column() == sorted(column())
        assert {row[0] for row in page.evaluate(CELLS, ["strategy"])[-2:]} == {"vaal", "margin_x10"}
        table.locator("th button").first.click()
        ranked = [row[0] for row in page.evaluate(CELLS, ["strategy"])][:-2]
        assert ranked == sorted(ranked)


def test_several_sets_are_panels_or_one_of_them(chromium: "Browser", joint: Path) -> None:
    with opened(chromium, joint) as page:
        assert len(curve(page, "margin")) == 2
        assert len(curve(page, "entropy")) == 1
        both = curve(page, "margin")
        choose(page, "set", "1")
        assert len(curve(page, "margin")) == 1
        assert not curve(page, "badge")
        choose(page, "reference", "badge")
        assert "badge was not run on this set" in page.locator("[data-live=offsets]").inner_text()
        choose(page, "set", "all")
        assert curve(page, "margin") == both


def test_a_leaderboard_shows_what_is_chosen(chromium: "Browser", board: Path) -> None:
    with opened(chromium, board) as page:
        shown = page.locator(".board:visible")
        assert shown.count() == 2
        page.locator("select[data-shows=group]").select_option(index=1)
        assert shown.count() == 1
        assert "log loss" not in shown.inner_text()
        page.locator("select[data-shows=metric]").select_option("log_loss")
        assert "log loss" in shown.inner_text()
        page.locator("select[data-shows=group]").select_option("")
        heading = shown.first.locator("th", has_text="area")
        heading.locator("button").click()
        areas = [float(text.split(" ±")[0]) for text in shown.first.locator("tbody td:nth-child(4)").all_inner_texts()]
        assert areas == sorted(areas, reverse=True)


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize("which", ["report", "joint", "board"])
def test_nothing_is_wrong_on_any_screen(
    which: str, width: int, scheme: str, chromium: "Browser", request: pytest.FixtureRequest
) -> None:
    with opened(chromium, request.getfixturevalue(which), width, scheme) as page:
        page.evaluate(axe.source())
        assert axe.findings(page) == []
        assert page.evaluate(OVERFLOW) <= 0
        for svg in page.locator("[data-live] svg").all():
            box = svg.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width  # nobody has to scroll sideways
            sizes = svg.locator("text").evaluate_all(
                "all => all.map(one => parseFloat(getComputedStyle(one).fontSize))"
            )
            assert min(sizes) >= 11


def test_on_paper_are_the_figures_of_the_paper(chromium: "Browser", tmp_path: Path) -> None:
    page_of = write_report(made_up(tmp_path, repeats=2))
    visible: Callable[[Page], list[bool]] = lambda page: [  # noqa: E731
        page.locator("[data-live=learning] svg").first.is_visible(),
        page.locator("figure.on-paper").first.is_visible(),
    ]
    with opened(chromium, page_of) as page:
        assert visible(page) == [True, False]
        page.emulate_media(media="print")
        assert visible(page) == [False, True]
        assert not page.locator(".choices").first.is_visible()


def test_the_page_works_with_any_names(chromium: "Browser", tmp_path: Path) -> None:
    evil = "</script><script>alert('x')</script>\"&$"
    made = made_up(tmp_path, [evil, "a_very_" + "long_" * 20 + "name", "random"], repeats=2)
    with opened(chromium, write_report(made, with_figures=False), 390) as page:
        assert evil in [row[0] for row in page.evaluate(CELLS, ["strategy"])]
        assert page.evaluate(OVERFLOW) <= 0
        assert all(curve(page, name) for name in (evil, "random"))
