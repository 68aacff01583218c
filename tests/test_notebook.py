"""What a notebook shows: whole, escaped, cheap, and never an error."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

from tests.experiments.made_up import made_up
from tests.strategies.pools import make_arrays
from understudy import ActiveLoop, Surrogate
from understudy.core import surrogate as surrogate_module
from understudy.data.items import ArrayImages, Texts
from understudy.data.pool import Dataset, Pool
from understudy.experiments.compare import Outcome
from understudy.journal import TrainingScore
from understudy.loop_card import draw_loop
from understudy.notebook import Line, Share, draw_class_counts, draw_curves, draw_safely, draw_shares

ARRAYS = make_arrays(80)
EVIL = '<script>alert("1")</script>'
OPEN_ENDED = {"img", "rect", "line", "circle", "polyline"}


class Reader(HTMLParser):
    """Tags that are opened and closed, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag not in OPEN_ENDED:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(thing: Any) -> Reader:
    html = thing._repr_html_()
    assert html is not None
    assert not re.search(r"#(?:000|fff)(?:000|fff)?\b|(?<!-)color:(?:black|white)", html), "for light or dark alone"
    return Reader(html)


def evil_pool(**more: Any) -> Pool:
    return Pool(tuple(map(str, range(80))), labels=ARRAYS.truth, classes=("a", EVIL, "c"), **more)


def test_a_pool_has_its_counts_and_eight_of_its_pictures() -> None:
    pool = evil_pool(items=ArrayImages(ARRAYS.images), features=ARRAYS.features)
    shown = read(Dataset("mine", pool, pool.take([1, 2])))
    for said in ("mine", "80 images", "6 features", "3 classes", "2 more to test on", "80 labelled", EVIL):
        assert said in shown.text
    assert "script" not in shown.tags
    assert (pool._repr_html_() or "").count('src="data:image/png;base64,') == 8


def test_texts_are_cut_and_broken_items_left_out() -> None:
    texts = [EVIL, "word " * 99, "  "]
    shown = read(Pool(("a", "b", "c"), items=Texts(texts)))
    assert EVIL in shown.text
    assert "script" not in shown.tags
    assert "word…" in shown.text
    assert "3 texts" in shown.text


def test_a_loop_says_what_was_labelled_and_how_the_model_did() -> None:
    loop = ActiveLoop(ARRAYS.features, "logistic", "margin", schedule=[20, 40], classes=["a", EVIL, "c"])
    assert "Not trained yet; due at 20." in read(loop).text
    loop.rehearse(20, ARRAYS.truth)
    right = judged = 0
    for _ in range(25):  # across a training
        row = loop.ask()
        right, judged = right + int(loop.predict_classes(row)[0] == ARRAYS.truth[row[0]]), judged + 1
        loop.tell(row, ARRAYS.truth[row])
    loop.ask(2)
    loop.skip([0])
    assert loop.history == [TrainingScore(20, 0, 0), TrainingScore(40, 20, loop.history[1].right)]
    shown = read(loop)
    for said in (
        "logistic",
        "margin",
        "45 labelled",
        "2 pending",
        "1 skipped",
        EVIL,
        "Trained 2 times, last at 40 labels.",
    ):
        assert said in shown.text
    assert f"Of {judged} labels that came after a training, its model had {right} right" in shown.text
    assert "polyline" in shown.tags
    counts = [int((loop.labels == place).sum()) for place in range(3)]
    assert all(
        re.search(rf"{re.escape(name)}\s*{count}", shown.text) for name, count in zip("ac", counts[::2], strict=True)
    )


def test_the_history_of_a_loop_is_saved() -> None:
    loop, again = (
        ActiveLoop(ARRAYS.features, "logistic", "margin", [20, 40], classes=["a", "b", "c"]) for _ in range(2)
    )
    loop.rehearse(45, ARRAYS.truth)
    assert again.resume(loop.state_dict()).history == loop.history
    assert again._repr_html_() == loop._repr_html_()


def test_a_surrogate_is_drawn_from_its_ledger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Surrogate(ARRAYS.features, 3)
    assert "No labels yet." in read(s).text
    s.anchor(ARRAYS.probs, [0, 1]).tell(np.arange(2, 32), ARRAYS.truth[2:32])
    s.ask(3)
    s.skip(s.askable[-1:])
    monkeypatch.setattr(surrogate_module.Surrogate, "_ready", None)  # nothing of the engine is needed
    shown = read(s)
    right, judged = s.tally
    for said in (
        "80 rows",
        "30 told",
        "2 trained on, not told",
        "3 pending",
        "1 skipped",
        f"had {right} of {judged} labels",
    ):
        assert said in shown.text
    assert "polyline" in shown.tags


def test_a_comparison_has_a_line_and_a_row_for_each_strategy(tmp_path: Path) -> None:
    results = made_up(tmp_path, repeats=2)
    curves = results.curves()
    shown = read(curves)
    assert read(results).text == shown.text
    for name in curves.accuracy:
        assert name in shown.text
        assert f"{100 * curves.area(name).mean():.1f}" in shown.text
    assert f"{EVIL} failed" in read(Outcome(results.folder, {EVIL: "no memory"})).text
    assert (curves._repr_html_() or "").count("<polyline") == len(curves.accuracy)


def test_what_cannot_be_drawn_is_plain_text_and_no_error(tmp_path: Path) -> None:
    def fail() -> Markup:
        raise RuntimeError("broken")

    assert draw_safely(fail) is None
    assert Outcome(tmp_path, {})._repr_html_() is None  # nothing is stored there
    loop = ActiveLoop(ARRAYS.features, "logistic", n_classes=3)
    del loop.labels
    assert loop._repr_html_() is None


def test_of_many_classes_the_largest_have_bars() -> None:
    shown = Reader(str(draw_class_counts(list(range(30)), [f"class {place}" for place in range(30)], "labels")))
    assert "class 29" in shown.text
    assert "class 20" not in shown.text
    assert f"21 more classes with {sum(range(21)):,} in all" in shown.text
    assert draw_class_counts([0, 0], "ab", "labels") == ""


def test_pieces_of_a_bar_are_as_wide_as_their_shares() -> None:
    html = str(
        draw_shares([Share("told", 30, "#123456"), Share("pending", 10, "#654321"), Share("none", 0, "#111")], 80)
    )
    assert re.findall(r'x="([\d.]+)%" width="([\d.]+)%"', html) == [("0.00", "37.50"), ("37.50", "12.50")]


def test_a_curve_goes_through_its_points() -> None:
    html = str(draw_curves({"one": Line([0, 10], [0.0, 1.0]), "none": Line([], [])}, "accuracy"))
    assert re.findall(r'points="([^"]+)"', html) == ["38.0,98.0 294.0,8.0"]
    assert draw_curves({"none": Line([], [])}, "accuracy") == ""
    alone = str(draw_curves({"one": Line([5], [0.5])}, "accuracy"))
    assert re.findall(r'<circle cx="([\d.]+)"', alone) == ["294.0"]  # above its number
    assert "5 labels" in alone
    assert ">4<" not in alone


def test_a_loop_without_labels_is_a_card_too() -> None:
    none = TrainingScore(0, 0, 0)
    html = draw_loop([], np.full(3, -1), ["a"], pending=0, skipped=0, history=[], since=none, due=None)
    assert "Not trained yet." in Reader(str(html)).text
