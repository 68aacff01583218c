"""Calls of Label Studio's HTTP interface: what comes back, or one line that says what is wrong."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from understudy.data.items import make_printable
from understudy.errors import Conflict, NotFound, UnderstudyError, UsageError
from understudy.messages import install_command, list_some, reason_of

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS: Final = 60.0
TRIES: Final = 4  # of a call that Label Studio could not answer: its SQLite is locked now and then
PAUSE_SECONDS: Final = 0.3  # before the second try, and twice as long before each further one
TASKS_PER_PAGE: Final = 200
RECENT_TASKS: Final = 20  # asked for at a time when only what is new is wanted
MAX_FILE_BYTES: Final = 64 * 2**20
REFUSED_TOKEN: Final = (
    "Label Studio refuses the token; take one from its page under Account & Settings. Legacy tokens may be switched "
    "off there: then use a personal access token"
)


class Unreachable(UnderstudyError):
    """Label Studio does not answer at the moment."""


class LabelStudio:
    """Label Studio at a URL, for whoever has this token: a legacy token or a personal access token.

    `transport` stands for the network, where it is not the real one.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        transport: "httpx.BaseTransport | None" = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.url = _check_url(url)
        self.token = _check_token(token)
        self._pause = pause
        self._access: str | None = None  # the short-lived token that a personal access token is exchanged for
        self._renewing = threading.Lock()
        self.time = 0.0  # of Label Studio when it answered last, in seconds since 1970; 0 where it did not say
        try:
            import httpx
        except ImportError:
            raise UnderstudyError(f"Label Studio needs one more package: {install_command('labelstudio')}") from None
        self._httpx = httpx
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, transport=transport)

    def close(self) -> None:
        self._http.close()

    # -- what there is ------------------------------------------------------------------------------------

    def version(self) -> str:
        """The version of Label Studio. Needs no token."""
        found = self._json("GET", "/api/version", {})
        release = found.get("release") if isinstance(found, dict) else None
        if not isinstance(release, str):
            raise self._another_server()
        return release

    def whoami(self) -> dict[str, Any]:
        return dict(self.get("/api/current-user/whoami"))

    def users(self) -> list[dict[str, Any]]:
        return list(self.get("/api/users/"))

    def projects(self) -> list[dict[str, Any]]:
        found = self.get("/api/projects", page_size=100)
        if not isinstance(found, dict) or "results" not in found:
            raise self._another_server()
        return list(found["results"])

    def project(self, number: int) -> dict[str, Any]:
        """A project's settings; an error that lists the others where there is no such project."""
        try:
            found = self.get(f"/api/projects/{number}")
        except NotFound:
            try:
                others = self.projects()
            except NotFound:
                raise self._another_server() from None
            listed = list_some((f"{each['id']} ({make_printable(str(each['title']))})" for each in others), 10)
            raise UsageError(
                f"{self.url} has no project {number} that this token may see; there is {listed or 'none'}"
            ) from None
        if not isinstance(found, dict) or "label_config" not in found:
            raise self._another_server()
        return found

    def change_project(self, number: int, **values: Any) -> dict[str, Any]:
        return dict(self.call("PATCH", f"/api/projects/{number}", values))

    def annotators(self, number: int) -> list[dict[str, Any]]:
        """The members that a project names; none where everybody may label."""
        return list(self.get(f"/api/projects/{number}/annotators/"))

    # -- tasks --------------------------------------------------------------------------------------------

    def task(self, number: int) -> dict[str, Any]:
        return dict(self.get(f"/api/tasks/{number}"))

    def tasks(self, project: int, *, after: int | None = None) -> Iterator[dict[str, Any]]:
        """All tasks with their data, the oldest first; or those that came after the one with this number."""
        where = [] if after is None else [_condition("id", "greater", after)]
        yield from self._all_pages(project, "id", where, fields="task_only")

    def decided_tasks(self, project: int) -> Iterator[dict[str, Any]]:
        """All tasks with annotations, skips included, with these."""
        counts = ("total_annotations", "cancelled_annotations")
        where = [_condition(name, "greater", 0) for name in counts]
        yield from self._all_pages(project, "id", where, conjunction="or", fields="all")

    def recent_tasks(self, project: int, page: int) -> dict[str, Any]:
        """Those tasks that changed last, the latest first, with annotations and predictions; and how many there are."""
        return self._page(project, "-updated_at", (), page, RECENT_TASKS, fields="all")

    def _all_pages(
        self, project: int, order: str, where: Sequence[Any], *, fields: str, conjunction: str = "and"
    ) -> Iterator[dict[str, Any]]:
        page = seen = total = 0
        while True:
            page += 1
            found = self._page(project, order, where, page, TASKS_PER_PAGE, fields=fields, conjunction=conjunction)
            if found["total"] < total:  # some went meanwhile, and others moved to pages that were read before
                page, seen, total = 0, 0, 0
                continue
            total = found["total"]
            seen += len(found["tasks"])
            yield from found["tasks"]
            if not found["tasks"] or seen >= total:
                return

    def _page(
        self, project: int, order: str, where: Sequence[Any], page: int, size: int, *, fields: str,
        conjunction: str = "and",
    ) -> dict[str, Any]:  # fmt: skip
        sign, name = ("-", order[1:]) if order.startswith("-") else ("", order)
        query: dict[str, Any] = {"ordering": [f"{sign}tasks:{name}"]}
        if where:
            query["filters"] = {"conjunction": conjunction, "items": list(where)}
        try:
            return dict(
                self.get(
                    "/api/tasks", project=project, page=page, page_size=size, fields=fields, query=json.dumps(query)
                )
            )
        except NotFound:
            if page == 1:  # then the project is gone, or a proxy answers: it does not mean that it has no tasks
                raise
            return {"tasks": [], "total": 0, "total_annotations": 0, "total_predictions": 0}

    # -- predictions, webhooks, backends ------------------------------------------------------------------

    def predictions(self, project: int) -> list[dict[str, Any]]:
        return list(self.get("/api/predictions", project=project))

    def predict(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.call("POST", "/api/predictions", values))

    def change_prediction(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.call("PATCH", f"/api/predictions/{number}", values))

    def webhooks(self, project: int) -> list[dict[str, Any]]:
        return list(self.get("/api/webhooks/", project=project))

    def add_webhook(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.call("POST", "/api/webhooks/", values))

    def remove_webhook(self, number: int) -> None:
        self.call("DELETE", f"/api/webhooks/{number}")

    def backends(self, project: int) -> list[dict[str, Any]]:
        """The machine learning backends that are connected to a project."""
        return list(self.get("/api/ml", project=project))

    def file(self, address: str, task: int) -> bytes:
        """The content of a file that a task names: a URL, a path at Label Studio, a data URI or a storage's address.

        Only Label Studio itself is sent the token.
        """
        if address.startswith("data:"):
            return _data_in(address)
        try:
            target = urljoin(f"{self.url}/", address)
            scheme = urlsplit(target).scheme
        except ValueError as error:
            raise UnderstudyError(f"{make_printable(address[:200])} cannot be an address ({error})") from None
        if scheme not in ("http", "https"):
            sent = base64.b64encode(address.encode()).decode()
            target = f"{self.url}/tasks/{task}/resolve/?fileuri={sent}"
        headers = self._authorization() if self._is_own(target) else {}
        answer = self._fetch(target, headers)
        if answer.status_code == 401 and headers and self._is_personal:
            self._expire(headers)
            answer = self._fetch(target, self._authorization())
        if answer.status_code >= 400:
            raise UnderstudyError(f"{make_printable(address[:200])} cannot be had: status {answer.status_code}")
        if len(answer.content) > MAX_FILE_BYTES:
            raise UnderstudyError(f"{make_printable(address[:200])} has {len(answer.content):,} bytes; make it smaller")
        return bytes(answer.content)

    def _is_own(self, target: str) -> bool:
        return urlsplit(target)[:2] == urlsplit(self.url)[:2]

    def _fetch(self, target: str, headers: Mapping[str, str]) -> "httpx.Response":
        """What comes of asking for a file. Label Studio itself is Unreachable; another host is a fault of the file."""
        shown = make_printable(target[:200])
        try:
            return self._send("GET", target, headers=headers, follow=True)
        except self._httpx.InvalidURL as error:
            raise UnderstudyError(f"{shown} cannot be an address ({reason_of(error)})") from None
        except Unreachable as error:
            cause = error.__cause__
            if isinstance(cause, self._httpx.ConnectError) and self._is_own(str(cause.request.url)):
                raise
            raise UnderstudyError(f"{shown} cannot be had: {reason_of(cause or error)}") from None

    # -- how it is asked ----------------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Any:
        return self.call("GET", path, query=query)

    def call(
        self, method: str, path: str, content: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """What Label Studio answers to a call. A token that has run out is renewed."""
        headers = self._authorization()
        answer = self._json(method, path, headers, content, query, may_be_refused=True)
        if answer is _REFUSED and self._is_personal:
            self._expire(headers)
            answer = self._json(method, path, self._authorization(), content, query, may_be_refused=True)
        if answer is _REFUSED:
            raise UsageError(REFUSED_TOKEN)
        return answer

    @property
    def _is_personal(self) -> bool:
        """Whether the token is a personal access token, which is exchanged for short-lived ones."""
        return self.token.count(".") == 2

    def _authorization(self) -> dict[str, str]:
        if not self._is_personal:
            return {"Authorization": f"Token {self.token}"}
        with self._renewing:
            if self._access is None:
                found = self._json("POST", "/api/token/refresh", {}, {"refresh": self.token}, may_be_refused=True)
                if found is _REFUSED:
                    raise UsageError(REFUSED_TOKEN)
                if not isinstance(found, dict) or "access" not in found:
                    raise self._another_server()
                self._access = str(found["access"])
            return {"Authorization": f"Bearer {self._access}"}

    def _expire(self, headers: Mapping[str, str]) -> None:
        """Take a new short-lived token with the next call, unless another thread has done so since."""
        with self._renewing:
            if headers["Authorization"] == f"Bearer {self._access}":
                self._access = None

    def _json(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        *,
        may_be_refused: bool = False,
    ) -> Any:
        answer = self._send(method, self.url + path, headers=headers, content=content, query=query)
        status = answer.status_code
        if status == 401 and may_be_refused:
            return _REFUSED
        if answer.has_redirect_location:
            found = urlsplit(urljoin(self.url + path, answer.headers["Location"]))
            raise UsageError(f"{self.url} leads on to {found.scheme}://{found.netloc}; give Label Studio's own --url")
        if status == 404:
            raise NotFound(f"{self.url} has no {path}; check --url")
        if status >= 500:
            raise Unreachable(f"{self.url} answers {method} {path} with {status}; its own output says why")
        if status >= 400:
            raise Conflict(f"Label Studio answers {method} {path} with {status}: {_detail_of(answer)}")
        if status == 204 or not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            raise self._another_server() from None

    def _another_server(self) -> UnderstudyError:
        """The error where something else answers at the URL."""
        return UnderstudyError(f"{self.url} does not answer like Label Studio; check --url")

    def _send(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        content: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        follow: bool = False,
    ) -> "httpx.Response":
        """Send a request, again where Label Studio was not able to answer. All of ours may be sent twice."""
        for attempt in range(1, TRIES + 1):
            try:
                answer = self._http.request(
                    method, target, headers=dict(headers), params=dict(query) if query else None,
                    json=None if content is None else dict(content), follow_redirects=follow,
                )  # fmt: skip
            except self._httpx.HTTPError as error:
                if attempt == TRIES or isinstance(error, self._httpx.ConnectError):
                    raise Unreachable(
                        f"{self.url} cannot be reached ({reason_of(error)}); start Label Studio there, or check --url"
                    ) from error
            else:
                self.time = _time_of(answer) or self.time
                if answer.status_code < 500 or attempt == TRIES:
                    return answer
            self._pause(PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError


class _Refused:
    """What stands for the answer to a token that is not known, or has run out."""


_REFUSED: Final = _Refused()


def _check_url(url: str) -> str:
    """The URL of a Label Studio, without a slash at its end."""
    try:
        parts = urlsplit(url.strip())
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise UsageError(f"--url is the address of Label Studio, http://localhost:8080 for example; got {url!r}")
    place, is_page, _ = url.strip().partition("/projects/")
    if is_page:
        raise UsageError(f"--url is the address without the page: {place}; the number after /projects/ is --project")
    return place.rstrip("/")


def _check_token(token: str) -> str:
    """The token without blanks around it. Others in it cannot be sent, and come from copying too much or too little."""
    found = token.strip()
    if not found.isascii() or not found.isprintable() or " " in found:
        raise UsageError("the token is none of Label Studio's; copy it again from its page under Account & Settings")
    return found


def _condition(name: str, operator: str, value: int) -> dict[str, Any]:
    return {"filter": f"filter:tasks:{name}", "operator": operator, "type": "Number", "value": value}


def _time_of(answer: "httpx.Response") -> float | None:
    try:
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (KeyError, ValueError):
        return None


def _detail_of(answer: "httpx.Response") -> str:
    """What an error of Label Studio says, in one line."""
    try:
        found = answer.json()
        said = found.get("validation_errors") or found.get("detail") or found
    except (ValueError, AttributeError):
        said = answer.reason_phrase
    return make_printable(" ".join(str(said).split())[:300])


def _data_in(address: str) -> bytes:
    head, _, body = address.partition(",")
    try:
        if head.endswith(";base64"):
            return base64.b64decode(body, validate=True)
    except ValueError:
        pass
    raise UnderstudyError("a data URI that is not in base64; give the image as a URL or a file")
