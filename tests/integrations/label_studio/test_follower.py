"""Following a project: an exchange with a real Label Studio 1.23, played again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.label_studio.exchange import Acts, Played, Replay, followed, play, replayed
from tests.sessions.small_projects import require_in_step
from understudy.integrations.label_studio.client import Unreachable
from understudy.integrations.label_studio.follower import RESERVE_TASKS, Follower
from understudy.integrations.label_studio.queue import Planned


@dataclass
class Seen:
    """What was so after a step of the scenario."""

    plan: list[int]
    labels: dict[int, str]
    skipped: set[int]
    people: list[str]
    leased: set[int]


@dataclass
class Story:
    """All that happened while the exchange was played again."""

    seen: dict[str, Seen] = field(default_factory=dict)
    found: Played = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)

    def look(self, name: str, follower: Follower) -> None:
        record = follower.session.record
        tasks = [int(number) for number in follower.session.project.pool.ids]
        self.seen[name] = Seen(
            list(follower.queue.in_order([tasks[item] for item in record.leases])),
            {tasks[item]: record.classes[label] for item, label in record.effective.items()},
            {tasks[item] for item in record.skipped},
            list(record.people.by_id),
            {tasks[item] for item in record.leases},
        )
        if name in ("undone", "all gone"):
            require_in_step(follower.session)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    client, replay, number = replayed()
    told = Story()
    told.found = play(client, number, Acts(), tmp_path_factory.mktemp("story"), told.look, told.said.append)
    told.sent = replay.written()
    return told


@pytest.fixture(scope="module")
def answered() -> list[int]:
    """The tasks that were answered when the exchange was recorded, in order: label, label, skip, label."""
    _, replay, _ = replayed()
    polls = [answer for (_, path), answers in replay.answers.items() if "page_size=20&" in path for answer in answers]
    found = {each["id"]: task["id"] for _, answer in polls for task in answer["tasks"] for each in task["annotations"]}
    return [found[number] for number in sorted(found)]


def test_every_annotation_arrives_once_and_from_whom_it_is(story: Story, answered: list[int]) -> None:
    first, second, skipped, third = answered
    assert story.seen["first"].labels == {first: "bad"}
    assert story.seen["third"].labels == dict.fromkeys((first, second, third), "bad")
    assert story.seen["skipped"].skipped == {skipped}
    assert story.seen["nothing"] == story.seen["undone"]
    assert story.seen["first"].people == ["admin@example.org"]
    assert story.said[0] == f"task {first}: bad (admin@example.org)"
    assert f"task {skipped}: skipped (admin@example.org)" in story.said


def test_a_deleted_annotation_is_unlearnt_and_its_task_handed_out_again(story: Story, answered: list[int]) -> None:
    assert answered[3] not in story.seen["undone"].labels
    assert answered[3] in story.seen["undone"].leased
    assert f"task {answered[3]}: taken back" in story.said


def test_annotations_that_are_deleted_together_are_missed_too(story: Story, answered: list[int]) -> None:
    assert (story.seen["all gone"].labels, story.seen["all gone"].skipped) == ({}, set())
    assert set(answered[:3]) <= story.seen["all gone"].leased


def test_the_queue_has_one_task_for_the_annotator_and_two_more(story: Story) -> None:
    for name in ("started", "first", "second", "skipped", "third"):
        assert len(story.seen[name].plan) == 3, name
        assert story.seen[name].leased == set(story.seen[name].plan), name


def test_what_label_studio_gave_with_the_answer_stays_first_in_the_queue(story: Story) -> None:
    for before, after in (("started", "first"), ("first", "second")):
        assert story.seen[after].plan[0] == story.seen[before].plan[1]


def test_predictions_are_sent_under_our_version_and_the_project_follows_it(story: Story) -> None:
    made = [each for each in story.sent if each is not None and "task" in each]
    assert made
    assert {each["model_version"] for each in made} == {"understudy"}
    assert [finding.level for finding in story.found["before"]].count("wrong") == 3
    assert [finding.level for finding in story.found["after"]].count("wrong") == 0


def test_each_finding_that_is_wrong_says_what_mends_it(story: Story) -> None:
    wrong = [finding for finding in story.found["before"] if finding.level == "wrong"]
    assert all("understudy labelstudio --url http://" in finding.remedy for finding in wrong)
    assert "'Sequential sampling'" in wrong[0].what


# -- without the exchange ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Follower, Replay, list[str]]]:
    client, replay, number = replayed()
    said: list[str] = []
    with followed(client, number, tmp_path_factory.mktemp("following"), said.append) as follower:
        follower.start()
        yield follower, replay, said


def annotation(number: int, name: str = "good", by: int = 1, **values: Any) -> dict[str, Any]:
    result = [{"from_name": "choice", "to_name": "text", "type": "choices", "value": {"choices": [name]}}]
    at = f"2020-11-19T06:00:{number % 60:02}.000001Z"
    return {"id": number, "completed_by": by, "result": result, "updated_at": at, "lead_time": 1.0, **values}


def labels_of(follower: Follower, task: int) -> dict[str, int]:
    row = follower.session.project.pool.ids.index(str(task))
    return {who: mark.label for who, mark in follower.session.record.decisions(row).marks.items()}


def test_an_event_is_followed_without_a_poll(following: tuple[Follower, Replay, list[str]]) -> None:
    follower, _, said = following
    task = follower.place()[0]
    assert follower.take_in_annotation(task, annotation(501)) == 1
    assert labels_of(follower, task) == {"admin@example.org": 1}
    assert follower.take_in_annotation(task, annotation(501)) == 0
    assert follower.forget_annotations([501]) == 1
    assert labels_of(follower, task) == {}
    assert said[-1] == f"task {task}: taken back"
    assert follower.forget_annotations([501]) == 0


def test_several_people_have_a_longer_queue(following: tuple[Follower, Replay, list[str]]) -> None:
    follower, _, _ = following
    tasks = follower.place()
    for place, task in enumerate(tasks[:2]):
        now = annotation(600 + place, by=10 + place)
        follower.take_in_annotation(task, {**now, "updated_at": None})
    assert len(follower.place()) == 2 + 2  # these two, and two to spare
    follower.forget_annotations([600, 601])


def test_behind_the_queue_are_tasks_that_nobody_has_touched(tmp_path: Path) -> None:
    client, _, number = replayed()
    with followed(client, number, tmp_path, lambda _: None) as follower:
        planned, reserve = follower.place(), follower.queue.reserve
        assert (len(planned), len(reserve)) == (1 + 2, RESERVE_TASKS)
        assert not {*reserve} & {*planned}
        follower.take_in_annotation(reserve[0], annotation(651))
        planned = follower.place()
        assert reserve[0] not in planned
        assert len({*follower.queue.reserve} - {reserve[0]}) == RESERVE_TASKS  # one more came in its place
        assert reserve[0] not in follower._reserve(RESERVE_TASKS, planned)
        follower._has_reserve = False  # as where a project names several members
        follower.place()
        assert follower.queue.reserve == [reserve[0]]  # which is finished


def test_a_class_that_is_new_in_the_label_config_is_a_class_from_then_on(
    following: tuple[Follower, Replay, list[str]],
) -> None:
    follower, replay, _ = following
    config = next(
        answers for (_, path), answers in replay.answers.items() if path.endswith(f"/projects/{follower.project}")
    )
    status, project = config[-1]
    more = project["label_config"].replace("</Choices>", '<Choice value="so so"/></Choices>')
    config.clear()
    config.append((status, {**project, "label_config": more}))
    task = follower.place()[-1]
    follower.take_in_annotation(task, annotation(701, "so so"))
    assert follower.session.record.classes == ["bad", "good", "so so"]
    assert labels_of(follower, task) == {"admin@example.org": 2}
    follower.forget_annotations([701])


def test_what_could_not_be_placed_is_placed_with_the_next_poll(
    following: tuple[Follower, Replay, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, replay, _ = following

    def fail(*_: Any) -> None:
        raise Unreachable("Label Studio answers with 503")

    with monkeypatch.context() as broken:
        broken.setattr(follower.queue, "place", fail)
        with pytest.raises(Unreachable):
            follower.place()
    before = len(replay.calls)
    assert not follower._is_placed
    assert follower.poll()
    assert follower._is_placed
    assert len(replay.calls) > before


def test_tasks_that_are_deleted_leave_the_pool(following: tuple[Follower, Replay, list[str]]) -> None:
    follower, _, _ = following
    gone = follower.place()[1]
    follower.follow_tasks(follower.alive - {gone})
    assert gone not in follower.place()
    assert gone not in follower.alive
    assert follower.session.record.state_of(follower.session.project.pool.ids.index(str(gone)))[0] == "dropped"


def test_tasks_that_were_deleted_while_nobody_followed_leave_the_pool_and_their_labels_with_them(
    tmp_path: Path,
) -> None:
    client, replay, number = replayed()
    with followed(client, number, tmp_path, lambda _: None) as follower:
        tasks = sorted(follower.alive)
        follower.take_in_annotation(tasks[0], annotation(801))
    client, replay, number = replayed()
    with followed(client, number, tmp_path, lambda _: None) as follower:
        follower.alive -= set(tasks[:7])
        follower.start()
        record, ids = follower.session.record, follower.session.project.pool.ids
        assert [record.state_of(ids.index(str(task)))[0] for task in tasks[:7]] == ["dropped"] * 7
        assert labels_of(follower, tasks[0]) == {}
        require_in_step(follower.session)
        made = {each["task"] for each in replay.written() if each is not None and "task" in each}
        assert made == set(tasks[7:])


def test_a_project_without_any_of_the_tasks_it_had_is_followed_to_its_end(
    following: tuple[Follower, Replay, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, _, _ = following
    placed: list[int] = []

    def place(plan: list[Planned], *_: object) -> list[int]:
        placed.append(len(plan))
        return [each.task for each in plan]

    monkeypatch.setattr(follower.queue, "place", place)
    assert follower.place() == []
    assert placed[-1] == 0


def test_a_task_that_took_the_place_of_another_is_noticed_though_there_are_as_many(
    tmp_path: Path,
) -> None:
    client, _, number = replayed()
    with followed(client, number, tmp_path, lambda _: None) as follower:
        follower.start()
        follower.alive = {max(follower.alive) + 1, *sorted(follower.alive)[1:]}
        assert not follower.poll()


def test_what_could_not_be_read_again_is_read_with_the_next_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _, number = replayed()
    with followed(client, number, tmp_path, lambda _: None) as follower:
        follower.start()
        follower._known[0] = {901: annotation(901)}  # which Label Studio does not have
        sweeps: list[int] = []

        def fail() -> int:
            sweeps.append(1)
            raise Unreachable("Label Studio answers with 503")

        monkeypatch.setattr(follower, "sweep", fail)
        for _ in range(2):
            with pytest.raises(Unreachable):
                follower.poll()
        assert len(sweeps) == 2
