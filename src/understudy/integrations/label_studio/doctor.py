"""What is wrong between a Label Studio project and us: half-connected states that say nothing themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from understudy.data.items import make_printable
from understudy.errors import UnderstudyError, UsageError
from understudy.integrations.label_studio.annotations import class_in
from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.label_config import LabelQuestion, read_label_config
from understudy.integrations.label_studio.queue import MODEL_VERSION, SAMPLING
from understudy.integrations.label_studio.webhook import register_webhook, split_address, webhook_url
from understudy.labels.imported_labels import seconds_since_1970
from understudy.messages import count_of

TESTED: Final = "1.23"  # the version of Label Studio that all of this was tried with
BEHIND_SECONDS: Final = 120.0  # of the queue after the last annotation, from which nobody seems to follow
RUN: Final = "run: understudy labelstudio --url {url} --project {project}"


@dataclass(frozen=True)
class Finding:
    """What was looked at: right, wrong, or something to know; and what mends it."""

    level: Literal["ok", "note", "wrong"]
    what: str
    remedy: str = ""

    @property
    def line(self) -> str:
        return f"{self.level:<6}{self.what}" + (f"; {self.remedy}" if self.remedy else "")


def examine(client: LabelStudio, number: int, webhook: str | None = None) -> Iterator[Finding]:
    """Look at everything that labelling in our order needs. Nothing is changed.

    With `webhook`, HOST:PORT, whether Label Studio would call it: a webhook that is switched off is made and removed.
    """
    try:
        version = client.version()
        yield _of_version(version)
        client.whoami()
        yield Finding("ok", "the token is accepted")
        project = client.project(number)
        yield Finding("ok", f"project {number} is {make_printable(str(project['title']))!r}")
    except UnderstudyError as error:
        yield Finding("wrong", str(error))
        return
    try:
        question = read_label_config(str(project["label_config"]))
    except UnderstudyError as error:
        yield Finding("wrong", str(error))  # nothing else matters then
        return
    yield Finding("ok", f"one of {count_of(question.classes, 'class', 'classes')} for each {question.kind}")
    yield from _of_queue(client, project)
    yield from _of_backends(client, number)
    yield from _of_webhooks(client, number, webhook)
    yield from _of_settings(client, project)
    yield from _of_annotations(client, number, question)
    yield Finding(
        "note",
        "annotators enter by the button Label All Tasks; from a tab of the Data Manager, or with a selection, Label "
        "Studio serves in that tab's order, and ours does not count",
    )


def _of_version(version: str) -> Finding:
    if version.startswith(f"{TESTED}."):
        return Finding("ok", f"Label Studio {version} answers")
    return Finding("note", f"Label Studio {version} answers; this was tried with {TESTED}")


def _of_queue(client: LabelStudio, project: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether Label Studio serves by our predictions, and whether there are any."""
    number, run = int(project["id"]), RUN.format(url=client.url, project=project["id"])
    sampling, version = project.get("sampling"), project.get("model_version")
    if sampling == SAMPLING:
        yield Finding("ok", f"its sampling is {SAMPLING!r}")
    else:
        yield Finding("wrong", f"its sampling is {sampling!r}, so it serves in that order", f"{run} (this sets it)")
    ours = [each for each in client.predictions(number) if each.get("model_version") == MODEL_VERSION]
    if version != MODEL_VERSION:
        its = f"its model version is {version!r}" if version else "it has no model version"
        yield Finding("wrong", f"{its}, so it does not look at our predictions", f"{run} (this sets it)")
    recent = client.recent_tasks(number, 1)
    if not recent["total"]:
        yield Finding("wrong", "it has no tasks", "import some in Label Studio")
        return
    if not ours:
        yield Finding("wrong", f"no task has a prediction of version {MODEL_VERSION!r}: it serves at random", run)
    elif version == MODEL_VERSION:
        yield Finding("ok", f"{count_of(ours, 'task')} have our predictions, by which it serves")
    answered = max((_time(each.get("updated_at")) for each in ours), default=0.0)
    annotated = max(
        (_time(each.get("updated_at")) for task in recent["tasks"] for each in task["annotations"]), default=0.0
    )
    if ours and annotated - answered > BEHIND_SECONDS:
        yield Finding("wrong", f"annotations came in the {annotated - answered:,.0f} s after our last prediction", run)


def _of_backends(client: LabelStudio, number: int) -> Iterator[Finding]:
    """A backend takes the model version over, and without a webhook never hears of labels."""
    called = [str(each["url"]) for each in client.webhooks(number)]
    for each in client.backends(number):
        url, title = str(each["url"]), make_printable(str(each["title"]))
        if not any(one.startswith(url.rstrip("/")) for one in called):
            yield Finding(
                "wrong",
                f"the ML backend {title!r} is half connected: it predicts, but no webhook tells it of labels",
                "remove it under Settings, Model: Understudy needs none. To keep it, its webhook needs "
                "SSRF_PROTECTION_ENABLED=false, not only ML_BLOCK_LOCAL_IP=false; then connect it again",
            )
        else:
            yield Finding(
                "note",
                f"the ML backend {title!r} is connected too; where it is made the model in use, our order ends",
                "remove it under Settings, Model, unless you need it",
            )


def _of_webhooks(client: LabelStudio, number: int, webhook: str | None) -> Iterator[Finding]:
    if webhook is None:
        yield Finding("ok", "polling needs no webhook")
        return
    url = webhook_url(*split_address(webhook))
    there = [each for each in client.webhooks(number) if each["url"] == url]
    if there and not there[0]["is_active"]:
        yield Finding("wrong", f"the webhook to {url} is switched off", "switch it on under Settings, Webhooks")
        return
    try:
        if not there:
            client.remove_webhook(register_webhook(client, number, url, "", is_active=False))
        yield Finding("ok", f"Label Studio would call {url}" if not there else f"Label Studio calls {url}")
    except UsageError as error:
        yield Finding("wrong", str(error))


def _of_settings(client: LabelStudio, project: Mapping[str, Any]) -> Iterator[Finding]:
    """Settings of the project under which the order is another, or less than it could be."""
    overlap = int(project.get("maximum_annotations") or 1)
    if overlap > 1:
        yield Finding(
            "note",
            f"each task is wanted from {overlap} people: Label Studio first serves, at random, tasks that others have "
            "begun; ours are served where there are none",
        )
    if project.get("skip_queue") == "IGNORE_SKIPPED":
        yield Finding("note", "skipped tasks count as finished there, so nobody is asked for them again")
    if project.get("show_collab_predictions"):
        yield Finding(
            "note",
            "annotators see our suggestion filled in, and tend to accept it; audit items have none. To hide all: "
            "Settings, Annotation, Use predictions to prelabel tasks",
        )
    if project.get("annotator_evaluation_enabled"):
        yield Finding("note", "ground truth tasks are served before all others (annotator evaluation)")
    members = len(client.annotators(int(project["id"])))
    if members > 1:
        yield Finding("note", f"the project names {members} members, so tasks of our queue are served in random order")


def _of_annotations(client: LabelStudio, number: int, question: LabelQuestion) -> Iterator[Finding]:
    """Annotations that are none for us: with several choices, or without any."""
    several = empty = 0
    for task in client.decided_tasks(number):
        for each in task["annotations"]:
            if each.get("was_cancelled") or class_in(each, question) is not None:
                continue
            several += bool(each.get("result"))
            empty += not each.get("result")
    if several:
        yield Finding(
            "wrong",
            f"{count_of(several, 'annotation')} name several classes, or one that the label config does not have; they "
            "count as skipped",
            "open them in the Data Manager and choose one class",
        )
    if empty:
        yield Finding("note", f"{count_of(empty, 'annotation')} were submitted without a choice and count as skipped")


def _time(value: object) -> float:
    return seconds_since_1970(value) or 0.0
