"""Figures: readable without colour, harmless whatever a name contains, and the same wherever they are drawn."""

import re
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image

from understudy.experiments import drawing, figures
from understudy.experiments.curves import Curves
from understudy.experiments.styles import (
    COLOURS,
    FADED,
    KNOWN_STYLES,
    MARK,
    assign_styles,
    grows_by_ratios,
    series_class,
    shared_styles,
)

MANY = ["surrogate", "margin", "random", *(f"rival_{i}" for i in range(17)), "margin_x10"]


def curves(names: list[str], repeats: int = 3, schedule: tuple[int, ...] = (10, 20, 40)) -> Curves:
    rng = np.random.default_rng(0)
    rise = np.linspace(0.5, 0.9, len(schedule))
    return Curves("toy", schedule, {name: rise + rng.normal(0, 0.01, (repeats, len(schedule))) for name in names})


def test_no_two_strategies_look_alike_in_black_and_white() -> None:
    seen = assign_styles(MANY)
    assert len({(look.marker, look.hollow, look.dashed) for look in seen.values()}) == len(MANY)


def test_of_many_a_few_stand_out_and_of_few_all_do() -> None:
    strong = [name for name, look in assign_styles(MANY).items() if look.strong]
    assert strong == ["surrogate", "margin", "random", "rival_0", "rival_1", "rival_2"]
    assert all(look.strong for look in assign_styles(MANY[:6]).values())


def test_context_and_whole_systems_are_grey_and_like_nobody_else() -> None:
    seen = assign_styles(["margin", "vaal (selection only)", "vaal", "random", "margin_x10"])
    for name in ("vaal", "margin_x10"):
        assert not seen[name].strong
        assert seen[name].colour == FADED
    assert seen["margin_x10"].marker not in {look.marker for name, look in seen.items() if name != "margin_x10"}
    assert seen["vaal (selection only)"].strong


def test_context_comes_last_however_good_it_is() -> None:
    high = {"margin_x10": 0.9, "vaal": 0.8, "random": 0.5, "vaal (selection only)": 0.6}
    of = Curves("toy", (1, 2), {name: np.full((2, 2), value) for name, value in high.items()})
    early = Curves("toy", (1,), {"gcn": np.full((2, 1), 0.95)})
    assert list(shared_styles([of], False)) == ["vaal (selection only)", "random", "vaal", "margin_x10"]
    assert list(shared_styles([of], False, [early]))[-2:] == ["gcn", "margin_x10"]


def test_a_curve_that_ended_early_is_drawn_to_its_end_in_grey() -> None:
    early = Curves("toy", (10, 20), {"gcn": np.array([[0.5, 0.6], [0.5, 0.8]])})
    axes = figures.draw_learning_curves([curves(MANY[:3])], ended=[early]).axes[0]
    (drawn,) = [line for line in axes.lines if line.get_gid() == f"{series_class('gcn')}-line"]
    np.testing.assert_allclose(np.asarray(drawn.get_xdata(), float), [10, 20])
    np.testing.assert_allclose(np.asarray(drawn.get_ydata(), float), [50, 70])
    assert drawn.get_color() == FADED


def test_a_figure_that_cannot_be_stored_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = figures.draw_learning_curves([curves(MANY[:2])])
    before = [path.read_bytes() for path in drawing.save_figure(figure, tmp_path / "a")]

    def breaks_off(_: Figure, file: Any, **__: object) -> None:
        file.write(b"half" if isinstance(file, BytesIO) else "half")
        raise OSError

    monkeypatch.setattr(Figure, "savefig", breaks_off)
    with pytest.raises(OSError):  # noqa: PT011
        drawing.save_figure(figure, tmp_path / "a")
    assert [(tmp_path / f"a.{ending}").read_bytes() for ending in ("png", "svg")] == before


def test_no_strategy_has_the_colour_of_bars_and_heat_maps() -> None:
    assert MARK not in COLOURS
    faces = {patch.get_facecolor() for patch in figures.draw_seconds({"a": 1.0}, {"a": 0.1}).axes[0].patches}
    assert to_rgba(MARK) in faces


@pytest.mark.parametrize("name", KNOWN_STYLES)
def test_a_known_strategy_looks_the_same_in_any_company(name: str) -> None:
    alone, among = assign_styles([name])[name], assign_styles([*KNOWN_STYLES])[name]
    assert (alone.colour, alone.marker) == (among.colour, among.marker) == KNOWN_STYLES[name]


def test_a_long_name_still_says_that_it_is_the_selection_only() -> None:
    assert drawing.short_label("weight_schedule (selection only)", 24) == "weight_schedule (sel.)"
    assert drawing.short_label("vaal (selection only)", 24) == "vaal (selection only)"
    assert len(drawing.short_label("x" * 40 + " (selection only)", 24)) == 24


def test_names_are_moved_apart_and_stay_in_order() -> None:
    wanted = np.array([0.1, 0.5, 0.5, 0.51, 0.98])
    places = drawing.move_apart(wanted, 0.1)
    assert (np.diff(places) >= 0.1 - 1e-9).all()
    np.testing.assert_allclose(places[[0, 4]], [0.1, 0.98])
    np.testing.assert_allclose(places[1:4].mean(), wanted[1:4].mean())


def test_names_that_would_leave_the_figure_are_kept_inside() -> None:
    places = drawing.move_apart(np.array([0.97, 0.98, 0.99, 1.0]), 0.2)
    np.testing.assert_allclose(places, [0.4, 0.6, 0.8, 1.0])


def test_budgets_that_would_touch_are_not_all_written() -> None:
    assert drawing.choose_ticks((600, 800, 1000, 2000, 3000), 0.15) == [600, 1000, 2000, 3000]
    assert drawing.choose_ticks((5,), 0.1) == [5]


@pytest.mark.parametrize(("schedule", "expected"), [((20, 40, 80, 160, 320), True), ((600, 800, 1000, 2000), False)])
def test_budgets_that_grow_by_ratios_are_drawn_so(schedule: tuple[int, ...], expected: bool) -> None:
    assert grows_by_ratios(schedule) is expected


def test_a_band_is_one_sample_deviation_each_way() -> None:
    values = np.array([[1.0, 2.0], [3.0, 6.0]])
    np.testing.assert_allclose(figures.deviation(values), [2**0.5, 8**0.5])
    np.testing.assert_allclose(figures.deviation(values[:1]), [0, 0])


def test_offsets_are_paired_with_the_reference() -> None:
    two = Curves("toy", (1, 2), {"a": np.array([[0.5, 0.7], [0.7, 0.9]]), "random": np.array([[0.4, 0.5], [0.6, 0.7]])})
    axes = figures.draw_offset_curves([two], "random").axes[0]
    drawn = [line for line in axes.lines if line.get_gid() == f"{series_class('a')}-line"]
    np.testing.assert_allclose(np.asarray(drawn[0].get_ydata(), float), [10, 20])


def test_a_figure_is_stored_for_paper_and_screen(tmp_path: Path) -> None:
    png, svg = drawing.save_figure(figures.draw_learning_curves([curves(MANY[:4])], [0.95]), tmp_path / "a")
    with Image.open(png) as image:
        assert image.width == pytest.approx(2100, abs=2)  # 7 inches, 300 dots each
    assert "random" in "".join(ElementTree.parse(svg).getroot().itertext())  # type is text, not paths


def test_several_data_sets_make_one_figure_with_one_legend() -> None:
    figure = figures.draw_learning_curves([curves(MANY[:3]), curves(MANY), curves(MANY[:2])], [None, 0.9, None])
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["toy"] * 3
    assert len(figure.legends) == 1
    assert len(figure.legends[0].get_texts()) == len(MANY)


def test_inside_a_page_a_figure_has_its_own_names_and_the_colours_of_the_page() -> None:
    names = ["surrogate", "a<b>&\"'</text><script>alert(1)</script>", "$x_1$ \\frac"]
    drawn = drawing.inline_svg(figures.draw_learning_curves([curves(names)]), "key", 'the "title" <b>')
    root = ElementTree.fromstring(drawn)  # well-formed
    assert "script" not in {element.tag for element in root.iter()}
    assert all(name.startswith("key-") for name in re.findall(r'\bid="([^"]*)"', drawn))
    classes = " ".join(element.get("class", "") for element in root.iter()).split()
    assert {series_class(name) for name in names} <= set(classes)
    assert "var(--colour-0)" in drawn
    assert "#d55e00" not in drawn.lower()
    assert "http" not in drawn


def test_the_same_numbers_make_the_same_drawing() -> None:
    first, second = (drawing.inline_svg(figures.draw_learning_curves([curves(MANY[:5])]), "k", "t") for _ in range(2))
    assert first == second


def test_letters_that_no_font_has_are_no_reason_to_stop(tmp_path: Path) -> None:
    counts = {"random": np.array([3, 4])}
    figure = figures.draw_class_balance(["猫", "🦉"], counts, None, ["random"])
    assert all(path.exists() for path in drawing.save_figure(figure, tmp_path / "a"))


def test_a_pick_that_took_no_time_has_a_bar_too() -> None:
    figure = figures.draw_seconds({"random": 0.0, "margin": 1e-3}, {"random": 0.5})
    assert figure.axes[0].get_xscale() == "log"
    assert [drawing.duration_text(value) for value in (0.0, 2e-9, 3e-6, 0.0042, 12)] == [
        "0",
        "2 ns",
        "3 µs",
        "4.2 ms",
        "12 s",
    ]


def test_penalties_show_every_pair_but_a_strategy_with_itself() -> None:
    matrix = np.array([[0, 0.5], [0.2, 0]])
    texts = [text.get_text() for text in figures.draw_penalties(["a", "b"], matrix, matrix.mean(0)).axes[0].texts]
    assert texts == [".50", ".20", ".10", ".25"]
