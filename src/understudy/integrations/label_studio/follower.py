"""Following one Label Studio project: annotations become decisions of a session, whose choices become the queue there.

Polling alone is enough: what changed is asked for again and again, and what the session says otherwise is brought
in step. So nothing is lost while nobody follows, and nothing is stored twice.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from understudy.integrations.label_studio.annotations import TOOL, People, class_in, decisions_in, has_unknown_class
from understudy.integrations.label_studio.client import RECENT_TASKS, LabelStudio
from understudy.integrations.label_studio.label_config import LabelQuestion, read_label_config
from understudy.integrations.label_studio.queue import Planned, Queue
from understudy.labels.imported_labels import seconds_since_1970
from understudy.messages import count_of
from understudy.sessions.log.events import SOURCE_ANNOTATOR
from understudy.sessions.session import Session

SPARE_TASKS: Final = 2  # in the queue beyond one for each annotator
RESERVE_TASKS: Final = 8  # behind the queue, and two for each annotator if these are more
ACTIVE_SECONDS: Final = 600.0  # since somebody's last annotation, while they count as labelling
OVERLAP_SECONDS: Final = 10.0  # of two polls: what is written first may become visible last
MAX_LINES: Final = 20  # about annotations that came at once

Say = Callable[[str], object]


class Follower:
    """Keeps a session and a Label Studio project in step, as often as `poll` is called. One thread at a time.

    `alive` are all tasks that the project has, `annotators` how many people label at once at least. With `is_pushed`,
    annotations are reported before Label Studio chooses its next task, so that none is lost to a task chosen before.
    """

    def __init__(
        self,
        client: LabelStudio,
        project: int,
        question: LabelQuestion,
        session: Session,
        alive: Iterable[int],
        *,
        say: Say,
        annotators: int = 1,
        is_pushed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client, self.project, self.question, self.session = client, project, question, session
        self.queue = Queue(client, project)
        self.people = People()
        self.lock = threading.RLock()
        self.alive = set(alive)
        self._say, self._clock = say, clock
        self._annotators, self._is_pushed = annotators, is_pushed
        self._rows = {int(name): row for row, name in enumerate(session.project.pool.ids)}
        self._tasks = {row: task for task, row in self._rows.items()}
        self._known: dict[int, dict[int, dict[str, Any]]] = {}  # annotations by task and number
        self._finished: set[int] = set()
        self._last_seen: dict[str, float] = {}  # when each person's last annotation came
        self._since = 0.0  # of the latest change that was seen, in Label Studio's time
        self._swept_for: tuple[int, int] | None = None
        self._draws = random.Random(0).sample(sorted(self._rows), len(self._rows))  # of the reserve
        self._has_reserve = True
        self._planned: list[int] | None = None  # the queue as it was placed last, in order
        self._is_placed = False
        self._planned_by: str | None = None  # the model whose choices these are

    # -- what happens there -------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring the session in step with all that happened while nobody followed, and place the queue."""
        with self.lock:
            self.people.learn(self.client.users())
            self.session.add_outside_classes(self.question.classes)
            self._leave_out(self._rows.keys() - self.alive)
            latest = self.client.recent_tasks(self.project, 1)
            self._since = max([self.client.time, *map(_changed_at, latest["tasks"])])
            self.sweep()
            self.queue.read()
            self.queue.check_live(self.client.project(self.project))
            # Where a project names several members, Label Studio serves the tasks with a prediction in any order.
            self._has_reserve = len(self.client.annotators(self.project)) < 2
            self.place()

    def poll(self) -> bool:
        """Take in what changed, and place the queue anew if need be; False where tasks were added or removed.

        Then the session must be opened again on the tasks there are now.
        """
        with self.lock:
            tasks, totals = self._read_changes()
            if totals["total"] != len(self.alive) or not self.alive.issuperset(int(task["id"]) for task in tasks):
                return False
            changed = self.take_in(tasks)
            self._since = max([self._since, *map(_changed_at, tasks)])
            expected = sum(not each.get("was_cancelled") for found in self._known.values() for each in found.values())
            state = (totals["total"], totals["total_annotations"])
            if totals["total_annotations"] != expected and state != self._swept_for:
                changed += self.sweep()
                self._swept_for = state
            if totals["total_predictions"] != self.queue.total:
                self.queue.read()
                changed += self._planned is not None and not set(self._planned) <= self.queue.placed.keys()
            if changed or not self._is_placed or self._planned_by != self.session.models.version:
                self.place()
            return True

    def check_project(self) -> None:
        """Let the project serve by our queue again where somebody changed that."""
        with self.lock:
            if not self.queue.check_live(self.client.project(self.project)):
                self._say("the project's sampling or model version was changed; it follows the queue again")

    def _read_changes(self) -> tuple[list[dict[str, Any]], Mapping[str, int]]:
        """The tasks that changed since the last call, and the totals of the project."""
        tasks, page, since = list[dict[str, Any]](), 1, self._since - OVERLAP_SECONDS
        found = totals = self.client.recent_tasks(self.project, page)
        while True:
            new = [task for task in found["tasks"] if _changed_at(task) >= since]
            tasks += new
            if len(new) < RECENT_TASKS:
                return tasks, totals
            page += 1
            found = self.client.recent_tasks(self.project, page)

    def sweep(self) -> int:
        """Take in all annotations that there are, and that others are gone; how many tasks changed."""
        found = list(self.client.decided_tasks(self.project))
        there = {int(task["id"]) for task in found}
        empty = [{"id": task, "annotations": []} for task, known in self._known.items() if known and task not in there]
        silent = (self.alive & self._rows.keys()) - there - self._known.keys()
        forgotten = [  # decided in the session before this process began
            {"id": task, "annotations": []}
            for task in sorted(silent)
            if self.session.record.decisions(self._rows[task]).events
        ]
        return self.take_in([*found, *empty, *forgotten])

    def take_in(self, tasks: Iterable[Mapping[str, Any]]) -> int:
        """Bring the session in step with the annotations of these tasks; how many of them changed."""
        said = {}
        for task in tasks:
            number = int(task["id"])
            self._known[number] = {int(each["id"]): each for each in task["annotations"]}
            if task.get("is_labeled"):
                self._finished.add(number)
            else:
                self._finished.discard(number)
            if number in self._rows:
                said[number] = list(self._known[number].values())
        return self._match(said)

    def take_in_annotation(self, task: int, annotation: Mapping[str, Any]) -> int:
        """The same with one annotation that was made or changed, before Label Studio is asked about its task."""
        self._known.setdefault(task, {})[int(annotation["id"])] = dict(annotation)
        return self._match({task: list(self._known[task].values())}) if task in self._rows else 0

    def forget_annotations(self, numbers: Collection[int]) -> int:
        """The same with annotations that were deleted: of them, only the numbers are reported."""
        said = {}
        for task, known in self._known.items():
            if any(number in known for number in numbers):
                self._known[task] = {key: each for key, each in known.items() if key not in numbers}
                self._finished.discard(task)
                if task in self._rows:
                    said[task] = list(self._known[task].values())
        return self._match(said)

    def _match(self, said: Mapping[int, Sequence[Mapping[str, Any]]]) -> int:
        """Bring the session in step with all annotations of some tasks; how many tasks changed."""
        annotations = [each for found in said.values() for each in found]
        if not all(map(self.people.knows, annotations)):
            self.people.learn(self.client.users())
        if any(has_unknown_class(each, self.question) for each in annotations):
            self._read_classes()
        table = self.session.record.class_table
        numbers = {name: table.counts_as(name) for name in self.question.classes}
        decisions = {
            self._rows[task]: decisions_in(found, self.question, self.people, numbers) for task, found in said.items()
        }
        changed = self.session.match_outside(decisions, TOOL)
        if changed:
            self._is_placed = False
        now = self._clock()
        for row in changed:
            for each in decisions[row]:
                if each.given_at is None or time.time() - each.given_at < ACTIVE_SECONDS:
                    self._last_seen[each.annotator] = now
        self._report(changed, said)
        return len(changed)

    def _report(self, changed: Sequence[int], said: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        if len(changed) > MAX_LINES:
            self._say(f"{count_of(changed, 'task')} changed in Label Studio")
            return
        for task in (self._tasks[row] for row in changed):
            words = [
                f"{class_in(each, self.question) or 'skipped'} ({self.people.name_of(each)})" for each in said[task]
            ]
            self._say(f"task {task}: {', '.join(words) or 'taken back'}")

    def _read_classes(self) -> None:
        """Know the classes that the label config has by now, and give the project those that are new."""
        self.question = read_label_config(str(self.client.project(self.project)["label_config"]))
        self.session.add_outside_classes(self.question.classes)

    # -- what is next there -------------------------------------------------------------------------------

    @property
    def _active(self) -> int:
        now = self._clock()
        return sum(now - at < ACTIVE_SECONDS for at in self._last_seen.values())

    def place(self, when_first: Callable[[], object] = lambda: None) -> list[int]:
        """Choose what comes next, by all that is known now, and let Label Studio serve that; its tasks, in order."""
        self._is_placed = False  # until all of it is there
        while gone := self._place_once(when_first):
            self._leave_out(gone)
        self._is_placed = True
        return list(self._planned or ())

    def _place_once(self, when_first: Callable[[], object]) -> list[int]:
        """The same, where all tasks are there; those that are gone."""
        people = max(self._annotators, self._active)
        record = self.session.record
        held = [lease for lease in record.held_by(SOURCE_ANNOTATOR) if lease.item not in record.bad]
        leases = {self._tasks[lease.item]: lease for lease in held}
        kept = self.queue.in_order(leases)
        if self._planned is not None:  # otherwise it is as it was when nobody followed any more
            # An audit item that were chosen anew each time would always come last, and never be answered.
            stays = {*kept[: self._in_hands(people)], *(leases.keys() - set(self._planned))}
            stays |= {task for task, lease in leases.items() if lease.ask != "choice"}
            kept = [task for task in (*kept, *leases) if task in stays]
            kept = list(dict.fromkeys(kept))
        model = self.session.models.version
        asked = self.session.ask_ahead(people + SPARE_TASKS, {self._rows[task] for task in kept})
        found = {self._tasks[each.item]: each for each in asked if each.item is not None}
        order = [*kept, *(task for task in found if task not in kept)]
        classes = record.classes
        plan = []
        for task in order:
            each = found[task]
            name = None if each.suggestion is None else classes[each.suggestion]
            known = name is not None and name in self.question.classes
            plan.append(Planned(task, self.question.result_for(str(name), each.confidence) if known else []))
        reserve = self._reserve(max(2 * people, RESERVE_TASKS), set(order)) if self._has_reserve else []
        gone = self.queue.place(plan, self._finished | self._labelled(), when_first, reserve)
        self._planned, self._planned_by = order, model
        return gone

    def _reserve(self, n: int, planned: Collection[int]) -> list[int]:
        """n tasks, drawn at random, for who asks while all of the queue is in others' hands; they stay until then."""
        found = [task for task in self.queue.reserve if task not in planned and self._is_untouched(task)]
        while len(found) < n and self._draws:
            task = self._draws.pop()
            if task not in planned and task not in found and self._is_untouched(task):
                found.append(task)
        return found

    def _is_untouched(self, task: int) -> bool:
        """Whether a task is there and nobody has said anything of it."""
        is_there = task in self.alive and task in self._rows and task not in self._finished
        return is_there and not self.session.record.decisions(self._rows[task]).events

    def _in_hands(self, people: int) -> int:
        """How many of the first tasks somebody may be looking at: Label Studio gives the next one with the answer."""
        return max(0, self._active - 1) if self._is_pushed else people

    def _labelled(self) -> set[int]:
        """Tasks with a label that Label Studio may want another one for."""
        return {self._tasks[row] for row in self.session.record.effective}

    def follow_tasks(self, alive: Iterable[int]) -> None:
        """Know which tasks the project has now; those that are gone are left out from now on."""
        with self.lock:
            gone = self.alive - set(alive)
            self.alive = set(alive)
            self._leave_out(gone)
            for task in gone:
                self._known.pop(task, None)
            if self._planned is not None:
                self.place()

    def _leave_out(self, tasks: Iterable[int]) -> None:
        """Leave out tasks that are gone there, and take back what was said of them, as Label Studio does."""
        rows = [self._rows[task] for task in tasks if task in self._rows]
        if new := [row for row in rows if row not in self.session.record.bad]:
            self._say(f"{count_of(new, 'task')} left out: Label Studio does not have them any more")
        self.session.drop_items(rows)
        self.session.match_outside({row: [] for row in rows}, TOOL)


def _changed_at(task: Mapping[str, Any]) -> float:
    return seconds_since_1970(task.get("updated_at")) or 0.0
