"""The receiver of Label Studio's webhook: annotations arrive before Label Studio chooses its next task."""

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from understudy.errors import Conflict, UnderstudyError, UsageError
from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.follower import Follower, Say
from understudy.messages import reason_of

PATH: Final = "/label-studio"
ANSWER_SECONDS: Final = 0.9  # Label Studio waits one second
STARTUP_SECONDS: Final = 20.0
SECRET_HEADER: Final = "Authorization"
GUARD: Final = (
    "Label Studio's request guard refuses webhooks to this machine. Leave out --webhook: polling needs none. Or start "
    "Label Studio with SSRF_PROTECTION_ENABLED=false, which switches its guard off for all webhooks, storages and "
    "exports: only where nobody else can reach it"
)


class Webhook:
    """A small server that is told of annotations, and answers once the next task is placed.

    Its follower may change, when tasks were added; only who knows the secret is listened to.
    """

    def __init__(self, client: LabelStudio, project: int, address: str, say: Say) -> None:
        self.client, self.project, self._say = client, project, say
        self.host, self.port = split_address(address)
        self.follower: Follower | None = None
        self._secret = secrets.token_urlsafe(24)
        self._worker = ThreadPoolExecutor(1)
        self._server = uvicorn.Server(
            uvicorn.Config(make_app(self), host=self.host, port=self.port, log_level="critical", lifespan="off")
        )
        self._thread = threading.Thread(target=self._server.run, name="webhook", daemon=True)
        self._number: int | None = None

    @property
    def url(self) -> str:
        return webhook_url(self.host, self.port)

    def is_from_label_studio(self, header: str | None) -> bool:
        return secrets.compare_digest((header or "").encode(), self._secret.encode())

    def start(self) -> None:
        """Listen, and let Label Studio send what happens in the project."""
        self._thread.start()
        waiting = threading.Event()
        for _ in range(int(STARTUP_SECONDS / 0.05)):
            if self._server.started or not self._thread.is_alive():
                break
            waiting.wait(0.05)
        if not self._server.started:
            raise UsageError(f"nothing can listen at {self.host}:{self.port}; give --webhook another HOST:PORT")
        _remove_webhooks(self.client, self.project, self.url)
        self._number = register_webhook(self.client, self.project, self.url, self._secret)

    def stop(self) -> None:
        """Let Label Studio send nothing any more, and stop listening."""
        try:
            if self._number is not None:
                self.client.remove_webhook(self._number)
        except UnderstudyError as error:
            self._say(f"the webhook could not be removed ({error}); remove it in the project's settings")
        self._server.should_exit = True
        self._thread.join(timeout=STARTUP_SECONDS)
        self._worker.shutdown()

    def receive(self, event: dict[str, Any]) -> None:
        """Take an event in; it returns as soon as the next task is placed, or when Label Studio waits no longer."""
        is_placed = threading.Event()

        def work() -> None:
            try:
                if self.follower is not None:
                    follow_event(self.follower, event, is_placed.set)
            except Exception as error:  # whatever it is, it must not be the end of following
                self._say(f"an event could not be followed ({reason_of(error)}); the next poll will")
            finally:
                is_placed.set()

        self._worker.submit(work)
        is_placed.wait(ANSWER_SECONDS)


def make_app(webhook: Webhook) -> FastAPI:
    """The one route that Label Studio calls."""
    app = FastAPI(openapi_url=None)

    @app.post(PATH)
    async def receive(request: Request) -> Response:
        if not webhook.is_from_label_studio(request.headers.get(SECRET_HEADER)):
            return Response(status_code=403)
        event = await request.json()
        await run_in_threadpool(webhook.receive, event)
        return Response(status_code=204)

    return app


def follow_event(follower: Follower, event: dict[str, Any], when_first: Any) -> None:
    """Bring the session in step with an event, and place what comes next. Of other events the next poll sees to."""
    action = event.get("action")
    with follower.lock:
        if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
            annotation = event["annotation"]
            changed = follower.take_in_annotation(int(event["task"]["id"]), annotation)
        elif action == "ANNOTATIONS_DELETED":
            changed = follower.forget_annotations([int(each["id"]) for each in event["annotations"]])
        else:
            return
        if changed:
            follower.place(when_first)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT."""
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise UsageError(f"--webhook takes HOST:PORT, 127.0.0.1:9191 for example; got {address!r}")
    return host, int(port)


def webhook_url(host: str, port: int) -> str:
    return f"http://{host}:{port}{PATH}"


def register_webhook(client: LabelStudio, project: int, url: str, secret: str, *, is_active: bool = True) -> int:
    """Let Label Studio call this URL; the number of the webhook. Its guard may refuse."""
    try:
        found = client.add_webhook({
            "project": project, "url": url, "send_payload": True, "send_for_all_actions": True,
            "is_active": is_active, "headers": {SECRET_HEADER: secret},
        })  # fmt: skip
    except Conflict as error:
        if "reserved" in str(error) or "with 403" in str(error):
            raise UsageError(GUARD) from error
        raise
    return int(found["id"])


def _remove_webhooks(client: LabelStudio, project: int, url: str) -> None:
    """Remove those to this URL that a kill left behind."""
    for each in client.webhooks(project):
        if each["url"] == url:
            client.remove_webhook(int(each["id"]))
