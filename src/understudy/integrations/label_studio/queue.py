"""Our order in Label Studio's queue: the predictions under our model version, by whose scores it serves tasks.

Of all tasks that are not finished, Label Studio serves the one whose prediction under the project's model version has
the lowest score. Only the next few tasks have such a prediction: whatever it does with them, they are good ones. Behind
them stands a reserve. Where others have all tasks with a prediction open, Label Studio says that there are none left.

No prediction is removed: an answer names the one that its page showed, and Label Studio refuses it if that is gone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from understudy.errors import Conflict, NotFound
from understudy.integrations.label_studio.client import LabelStudio

MODEL_VERSION: Final = "understudy"
SET_ASIDE: Final = "understudy-earlier"  # the version of predictions of tasks that are in the queue no more
SAMPLING: Final = "Uncertainty sampling"
RESERVE_SCORE: Final = 1e6  # of the tasks behind the queue, and above


@dataclass(frozen=True)
class Planned:
    """A task that is to be served, and what is suggested for it."""

    task: int
    result: list[dict[str, Any]]


@dataclass(frozen=True)
class _Placed:
    """A prediction that Label Studio has."""

    number: int
    score: float
    result: list[dict[str, Any]]


class Queue:
    """The predictions of one project under our model version, as Label Studio has them."""

    def __init__(self, client: LabelStudio, project: int) -> None:
        self.client, self.project = client, project
        self.placed: dict[int, _Placed] = {}  # by task
        self._set_aside: dict[int, int] = {}  # numbers of predictions by task
        self.total = 0  # of all predictions of the project, also those of others
        self._is_live = False  # whether the project's model version is ours

    def read(self) -> None:
        """Know what Label Studio has. Of two predictions for one task the later is set aside."""
        found = self.client.predictions(self.project)
        self.placed, self._set_aside, self.total = {}, {}, len(found)
        for each in sorted(found, key=lambda each: int(each["id"])):
            task, number, version = int(each["task"]), int(each["id"]), each.get("model_version")
            if version == SET_ASIDE:
                self._set_aside[task] = number
            elif version == MODEL_VERSION and task in self.placed:
                self._put_aside(task, number)
            elif version == MODEL_VERSION:
                score = float(each.get("score") or 0.0)
                self.placed[task] = _Placed(number, score, list(each.get("result") or ()))

    @property
    def reserve(self) -> list[int]:
        """The tasks that stand behind the queue."""
        return [task for task, each in self.placed.items() if each.score >= RESERVE_SCORE]

    def in_order(self, tasks: Collection[int]) -> list[int]:
        """Those of these tasks that are in the queue, in the order in which they are served."""
        return sorted((task for task in tasks if task in self.placed), key=lambda task: self.placed[task].score)

    def place(
        self,
        plan: Sequence[Planned],
        finished: Collection[int],
        when_first: Callable[[], object] = lambda: None,
        reserve: Collection[int] = (),
    ) -> list[int]:
        """Let Label Studio serve these tasks in this order, then the reserve, and no others; those that are gone.

        The first is placed first, and before all others, so that it is served even if the next call comes at once;
        then `when_first` is called. Predictions of `finished` tasks, which are not served any more, stay: if one is
        opened again, it is the next.
        """
        wanted = {each.task for each in plan}
        stays = {*wanted, *reserve, *finished}
        stale = [task for task in self.placed if task not in stays]
        queue = {task: each.score for task, each in self.placed.items() if each.score < RESERVE_SCORE}
        served = [score for task, score in queue.items() if task in wanted or task in stale]
        scores = [0.0, *queue.values()]
        floor, lowest, top = min(served, default=0.0), min(scores), max(scores)
        previous, gone = float("-inf"), list[int]()
        for place, each in enumerate(plan):
            known = queue.get(each.task)
            if place == 0:
                score = known if known is not None and known <= floor else lowest - 1
            elif known is not None and known > previous:
                score = known
            else:
                score = top = max(top, previous) + 1
            if not self._put(each, score):
                gone.append(each.task)
            previous = score
            when_first()
        for task in reserve:
            score = max(self.placed[task].score if task in self.placed else 0.0, RESERVE_SCORE)
            if task not in wanted and not self._put(Planned(task, []), score):
                gone.append(task)
        for task in stale:
            self._put_aside(task, self.placed.pop(task).number)
        return gone

    def _put(self, planned: Planned, score: float) -> bool:
        """Let a task have a prediction with this score; whether the task is there."""
        known = self.placed.get(planned.task)
        if known is not None and (known.score, known.result) == (score, planned.result):
            return True
        values: dict[str, Any] = {"score": score, "result": planned.result}
        number = None
        if known is not None:
            number = self._change(known.number, values)
        elif planned.task in self._set_aside:
            number = self._change(self._set_aside.pop(planned.task), {**values, "model_version": MODEL_VERSION})
        if number is None:
            try:
                found = self.client.predict({"task": planned.task, "model_version": MODEL_VERSION, **values})
            except Conflict:
                if self._has_task(planned.task):
                    raise
                self.placed.pop(planned.task, None)
                return False
            number = int(found["id"])
            self.total += 1
        self.placed[planned.task] = _Placed(number, score, planned.result)
        if not self._is_live:
            self.make_live()
        return True

    def _change(self, number: int, values: Mapping[str, Any]) -> int | None:
        """Change a prediction; its number, or None where somebody removed it."""
        try:
            self.client.change_prediction(number, values)
        except NotFound:
            self.total -= 1
            return None
        return number

    def _has_task(self, task: int) -> bool:
        try:
            self.client.task(task)
        except NotFound:
            return False
        return True

    def _put_aside(self, task: int, number: int) -> None:
        """Let Label Studio serve by a prediction no more. Whoever has the task open can still answer it."""
        if self._change(number, {"model_version": SET_ASIDE}) is not None:
            self._set_aside[task] = number

    def make_live(self) -> None:
        """Let Label Studio serve by our predictions. It refuses while there is none."""
        self.client.change_project(self.project, sampling=SAMPLING, model_version=MODEL_VERSION)
        self._is_live = True

    def check_live(self, project: Mapping[str, Any]) -> bool:
        """Whether the project still serves by our predictions; if not, it does again from now on."""
        if project.get("sampling") == SAMPLING and project.get("model_version") == MODEL_VERSION:
            self._is_live = True
            return True
        self._is_live = False
        if self.placed:
            self.make_live()
        return False
