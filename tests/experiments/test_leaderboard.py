"""The leaderboard: groups of the same question, honest ranks, pairs only where repetitions are paired."""

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from tests.experiments.made_up import made_up
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.conditions import PICKS_OF
from understudy.experiments.leaderboard import (
    Contender,
    Source,
    Standing,
    find_groups,
    read_sources,
    shared_repeats,
    source_as_json,
)
from understudy.experiments.leaderboard_page import write_leaderboard
from understudy.experiments.metrics import METRICS
from understudy.experiments.results import EXPERIMENT, MADE_WITH, TIMINGS, Results
from understudy.experiments.statistics import MIN_REPEATS_RANKED, holm_correction, paired_difference


def only(*folders: Path) -> Source:
    (found,) = read_sources(folders)[0]
    return found


def with_seed(source: Source, seed: int) -> Source:
    return replace(source, conditions=replace(source.conditions, seed=seed))


def standing_of(*sources: Source, metric: str = "accuracy", to: int | None = None) -> Standing:
    (group,), _ = find_groups(sources, to)
    return group.standing(metric)


def entry_of(standing: Standing, name: str) -> Contender:
    return next(entry for entry in standing.entries if entry.strategy == name)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("ten"), ["surrogate", "margin", "random"], repeats=10)


@pytest.fixture(scope="module")
def source(results: Results) -> Source:
    return only(results.folder)


def test_areas_are_those_of_the_curves(source: Source, results: Results) -> None:
    for metric in METRICS:
        curves, standing = results.curves(["surrogate", "margin", "random"], metric), standing_of(source, metric=metric)
        for entry in standing.entries:
            np.testing.assert_allclose(entry.areas, curves.area(entry.strategy), rtol=1e-12)
            np.testing.assert_allclose(entry.last, curves.of(entry.strategy)[:, -1], rtol=1e-12)


def test_the_best_is_first_whichever_way_the_metric_goes(source: Source) -> None:
    for metric in ("accuracy", "log_loss"):
        standing = standing_of(source, metric=metric)
        assert [entry.strategy for entry in standing.entries] == ["surrogate", "margin", "random"]
        assert [standing.rank(entry) for entry in standing.entries] == [1, 2, 3]


def test_wins_are_the_pairs_that_paired_tests_tell_apart(source: Source) -> None:
    standing = standing_of(source)
    pairs = list(combinations(standing.ranked, 2))
    p = holm_correction(np.array([ttest_rel(one.areas, other.areas).pvalue for one, other in pairs]))
    wins = {entry.strategy: 0 for entry in standing.ranked}
    losses = dict(wins)
    for (one, other), value in zip(pairs, p, strict=True):
        if value < 0.05:
            better, worse = sorted((one, other), key=lambda entry: -entry.areas.mean())
            wins[better.strategy] += 1
            losses[worse.strategy] += 1
    assert {entry.strategy: standing.wins(entry) for entry in standing.ranked} == wins
    assert {entry.strategy: standing.losses(entry) for entry in standing.ranked} == losses
    assert sum(wins.values()) > 0


def test_the_same_seed_and_first_budget_are_paired_and_others_are_not(source: Source) -> None:
    own, paired, apart = (standing_of(one) for one in (source, source, with_seed(source, 7)))
    surrogate, random = entry_of(own, "surrogate"), entry_of(paired, "random")
    assert shared_repeats(surrogate, random) == list(range(10))
    assert own.against(surrogate, random) == paired_difference(np.round(surrogate.areas - random.areas, 12))
    stranger = entry_of(apart, "random")
    assert shared_repeats(surrogate, stranger) == []
    found = own.against(surrogate, stranger)
    welch = ttest_ind(surrogate.areas, stranger.areas, equal_var=False).confidence_interval(0.95)
    assert found.interval == pytest.approx((welch.low, welch.high))


def test_the_same_runs_in_two_folders_count_once(tmp_path: Path, source: Source) -> None:
    part = only(made_up(tmp_path, ["surrogate", "margin"], repeats=6).folder)
    standing = standing_of(part, source)
    assert [(entry.strategy, len(entry.areas)) for entry in standing.entries] == [
        ("surrogate", 10), ("margin", 10), ("random", 10),
    ]  # fmt: skip
    assert len(standing_of(with_seed(part, 7), source).entries) == 5


def test_two_comparisons_of_one_question_share_a_group(source: Source) -> None:
    theirs = replace(with_seed(source, 7), name="theirs", runs={"mine": source.runs["margin"]})
    standing = standing_of(source, theirs)
    assert {entry.strategy for entry in standing.entries} == {"surrogate", "margin", "random", "mine"}
    assert standing.rank(entry_of(standing, "mine")) == standing.rank(entry_of(standing, "margin"))


@pytest.mark.parametrize(
    "other",
    [{"dataset": "another"}, {"digest": "another"}, {"learner": "paper"}, {"regime": "start 0"}],
)
def test_another_question_is_another_group(other: dict[str, str], source: Source) -> None:
    stranger = replace(source, conditions=replace(source.conditions, **other))  # type: ignore[arg-type]
    assert len(find_groups([source, stranger])[0]) == 2


def test_only_shared_budgets_are_compared(tmp_path: Path) -> None:
    long = only(made_up(tmp_path / "long", ["margin"], repeats=5, schedule=(6, 12, 24, 48, 96)).folder)
    short = only(made_up(tmp_path / "short", ["random"], repeats=5, schedule=(6, 24, 48)).folder)
    groups, _ = find_groups([long, short])
    assert sorted(group.schedule for group in groups) == [(6, 12, 24, 48, 96), (6, 24, 48)]
    (group,), _ = find_groups([long, short], to=48)
    assert group.schedule == (6, 24, 48)
    (_, notes) = find_groups([long, short], to=5)
    assert len(notes) == 2


def test_few_repetitions_are_shown_and_not_ranked(tmp_path: Path) -> None:
    ended = {"margin": MIN_REPEATS_RANKED - 1}
    made = made_up(tmp_path, ["margin", "random", "badge"], repeats=MIN_REPEATS_RANKED, ended=ended)
    standing = standing_of(only(made.folder))
    assert [entry.strategy for entry in standing.ranked] == ["random", "badge"]
    assert standing.entries[-1].strategy == "margin"
    page = write_leaderboard([made.folder], tmp_path / "board.html").read_text()
    assert "Without a rank: fewer than 5 repetitions." in page


def test_a_system_is_there_by_its_selection_and_controls_are_not(tmp_path: Path) -> None:
    names = ["vaal", "vaal (selection only)", "random", "margin_x10"]
    assert set(only(made_up(tmp_path, names).folder).runs) == {"vaal (selection only)", "random"}


def test_a_page_is_read_like_the_folders_it_was_made_from(tmp_path: Path, results: Results) -> None:
    first = write_leaderboard([results.folder], tmp_path / "first.html")
    mine = made_up(tmp_path / "mine", ["coreset", "random"], repeats=5)
    from_page, _ = read_sources([first, mine.folder])
    from_folders, _ = read_sources([mine.folder, results.folder])
    assert sorted(one.name for one in from_page) == sorted(one.name for one in from_folders)
    known = {one.name: source_as_json(one)["runs"] for one in from_folders}
    assert {one.name: source_as_json(one)["runs"] for one in from_page} == known
    second = write_leaderboard([first], tmp_path / "second.html")
    assert len(read_sources([first, second, results.folder])[0]) == 1  # the same numbers once


def test_folders_are_found_at_any_depth_and_timings_are_not_needed(tmp_path: Path) -> None:
    made = made_up(tmp_path / "a" / "b", repeats=2)
    (made.folder / TIMINGS).unlink()
    for place in (tmp_path, made.folder, made.folder / "results.parquet"):
        assert only(place).name == "b"


def test_who_made_it_is_told(tmp_path: Path) -> None:
    made = made_up(tmp_path / "theirs")
    settings = json.loads((made.folder / "experiment.json").read_text())
    settings |= {"commits": ["0123456789abcdef", None], "versions": ["understudy 0.1.0", "torch 2"]}
    settings |= {"processors": ["Some Processor"], "devices": ["Some GPU"]}
    assert {*MADE_WITH} <= settings.keys()
    (made.folder / "experiment.json").write_text(json.dumps(settings))
    page = write_leaderboard([made.folder], tmp_path / "board.html").read_text()
    tools = "Some GPU; understudy 0.1.0, torch 2; Some Processor; commit 0123456789, no commit"
    for told in ("theirs", tools, str(made.folder)):
        assert told in page


def test_what_is_no_comparison_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no comparison"):
        read_sources([tmp_path])
    for other in ("<html></html>", '<script type="application/json" id="leaderboard-data">[]</script>'):
        (tmp_path / "page.html").write_text(other)
        with pytest.raises(UsageError, match="not the page of a leaderboard"):
            read_sources([tmp_path / "page.html"])
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(UnderstudyError):
        read_sources([tmp_path])


def test_a_replay_has_no_part_in_mean_ranks(tmp_path: Path) -> None:
    names = ["surrogate", "margin", "random"]
    folders = [made_up(tmp_path / name, names, repeats=6).folder for name in ("own", "replay")]
    settings = json.loads((folders[1] / EXPERIMENT).read_text())
    (folders[1] / EXPERIMENT).write_text(json.dumps(settings | {"protocol": f"{PICKS_OF}modern"}))
    both = write_leaderboard(folders, tmp_path / "both.html").read_text()
    own = write_leaderboard(folders[:1], tmp_path / "own.html").read_text()
    assert "have no part in mean ranks" in both
    assert "have no part in mean ranks" not in own

    def means(page: str) -> list[list[str]]:
        """Strategy, mean rank and number of groups, of the first overview."""
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.split("</table>")[0], re.DOTALL)
        return [re.findall(r"<t[dh][^>]*>(?:<[^>]+>)?([^<]*)", row)[:3] for row in rows]

    assert means(both) == means(own)
    assert [row[2] for row in means(own)[1:]] == ["1"] * 3
