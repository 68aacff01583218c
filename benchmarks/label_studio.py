"""A real Label Studio, its page in a real browser, and `understudy labelstudio` beside it: is our order what it shows?

    python benchmarks/label_studio.py --label-studio .venv-labelstudio/bin/label-studio \
        --out benchmarks/results/label-studio.json

Label Studio runs on loopback with SQLite, as `pip install label-studio` leaves it; Chromium shows its page. Somebody
enters by the button Label All Tasks and labels 30 pictures; one annotation is deleted, one task is skipped, and our
side is killed by SIGKILL and started again meanwhile. Then two accounts label at once. Without the page: how long it is
from an answer until the queue is placed anew, by polling and by the webhook, and whether the next task is ours. At the
end every annotation is compared with what `understudy export` says.

"As placed": what Label Studio served is what our queue had first when it was asked, apart from tasks in others' hands.
On the page the queue is read before an answer and after it, since a new model may change it in between; "as placed
before" counts the first reading alone.
"""

import argparse
import csv
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, Response, sync_playwright
from sklearn.datasets import load_digits

START = "from understudy.cli import main; main()"
TOKEN = "5f1d6c0b9a8e47362514f0e1d2c3b4a596877869"  # of an account that ends with this run
OWNER, SECOND, PASSWORD = "owner@example.org", "second@example.org", "label-studio-1"
WORDS = ("zero", "one", "two", "three")
GOOD = ("good", "great", "lovely", "fine", "superb", "happy", "excellent", "warm")
BAD = ("bad", "awful", "poor", "sad", "terrible", "cold", "broken", "dull")
PICTURES, TEXTS = 72, 60
SERVED = ("id=next_task", "/next")
CHECKED = "() => [...document.querySelectorAll('input[type=checkbox],input[type=radio]')].map((box) => box.checked)"
SIDE = 160  # pixels of a picture, by which it is known on the page
SHOWN = f"() => [...document.querySelectorAll('img')].some((image) => image.complete && image.naturalWidth === {SIDE})"


def say(*words: object) -> None:
    print(f"{time.strftime('%H:%M:%S')}", *words, flush=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_until(is_so: Callable[[], Any], what: str, seconds: float = 240.0) -> Any:
    """What the call gives once it is true; an error that says what did not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := is_so():
                return found
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{what} did not happen in {seconds:.0f} s")


class Studio:
    """A Label Studio of our own, with its data in a folder."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder, self.port = program, folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        headers = {"Authorization": f"Token {TOKEN}"}
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=60)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        folder = self.folder / "label-studio"
        folder.mkdir(exist_ok=True)
        command = [str(self.program), "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(self.port),
                   "--username", OWNER, "--password", PASSWORD, "--user-token", TOKEN]  # fmt: skip
        settings = {"LABEL_STUDIO_BASE_DATA_DIR": str(folder), "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
                    "COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": ""}  # fmt: skip
        with (self.folder / "label-studio.txt").open("ab") as said:
            self.process = subprocess.Popen(
                command, start_new_session=True, env={**os.environ, **settings, **environment}, stdout=said, stderr=said
            )
        wait_until(lambda: self.http.get("/api/current-user/whoami").status_code == 200, "Label Studio's start", 400)

    def stop(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(60)

    def get(self, path: str, **query: Any) -> Any:
        return self.http.get(path, params=query).raise_for_status().json()

    def post(self, path: str, **content: Any) -> Any:
        return self.http.post(path, json=content).raise_for_status().json()

    def make_project(self, title: str, shown: str, classes: tuple[str, ...]) -> int:
        choices = "".join(f'<Choice value="{name}"/>' for name in classes)
        config = f'<View><{shown.title()} name="{shown}" value="${shown}"/>'
        config += f'<Choices name="choice" toName="{shown}" choice="single">{choices}</Choices></View>'
        return int(self.post("/api/projects", title=title, label_config=config)["id"])

    def tasks(self, project: int) -> dict[int, dict[str, Any]]:
        found = self.get("/api/tasks", project=project, page_size=500, fields="all")["tasks"]
        return {int(task["id"]): task for task in found}

    def queue(self, project: int) -> list[int]:
        """The tasks of our queue that are not finished, in order."""
        finished = {number for number, task in self.tasks(project).items() if task["is_labeled"]}
        ours = [each for each in self.get("/api/predictions", project=project) if each["model_version"] == "understudy"]
        return [each["task"] for each in sorted(ours, key=lambda each: each["score"]) if each["task"] not in finished]

    def settled_queue(self, project: int) -> list[int]:
        """The queue once it has not changed for a second and a half."""
        last, since = self.queue(project), time.monotonic()
        while time.monotonic() - since < 1.5:
            time.sleep(0.3)
            if (now := self.queue(project)) != last:
                last, since = now, time.monotonic()
        return last

    def answer(self, task: int, name: str, shown: str) -> None:
        value = {"from_name": "choice", "to_name": shown, "type": "choices", "value": {"choices": [name]}}
        self.post(f"/api/tasks/{task}/annotations", result=[value], lead_time=1.0)


class Ours:
    """`understudy labelstudio`, as people start it."""

    def __init__(self, studio: Studio, project: int, *options: str) -> None:
        self.studio, self.project, self.options = studio, project, options
        self.log = studio.folder / f"ours-{project}.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-c", START, "labelstudio", "--url", self.studio.url, "--project", str(self.project),
                   "--folder", str(self.folder), *self.options]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LABEL_STUDIO_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        before = self.said().count("following project")
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                command, start_new_session=True, env=environment, stdout=said, stderr=said, cwd=self.studio.folder
            )
        wait_until(lambda: self._has_started(before), "our start")

    @property
    def folder(self) -> Path:
        return self.studio.folder / f"labelstudio-{self.project}"

    def _has_started(self, before: int) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise SystemExit(f"ours ended: {self.said()}")
        return self.said().count("following project") > before

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def end(self, how: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, how)
        self.process.wait(60)

    def exported(self) -> dict[int, tuple[str, str]]:
        """What `understudy export` says of each task: who labelled it and what, and how it was asked."""
        out = self.studio.folder / f"labels-{self.project}.csv"
        command = [sys.executable, "-c", START, "export", f"{self.folder}.understudy", "--out", str(out)]
        subprocess.run(command, check=True, capture_output=True)
        with out.open(newline="", encoding="utf-8-sig") as stream:
            return {int(row["id"]): (row["annotator"], row["label"]) for row in csv.DictReader(stream) if row["label"]}


class Annotator:
    """Somebody at Label Studio's page, in a browser of their own."""

    def __init__(self, browser: Browser, studio: Studio, project: int, email: str) -> None:
        self.page: Page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        self.studio, self.project, self.email = studio, project, email
        self.served: list[int] = []
        self.answers: list[str] = []  # of Label Studio to the page's calls
        self.page.on("response", self._note)

    def _note(self, response: Response) -> None:
        if "/api/" in response.url:
            self.answers.append(
                f"{response.request.method} {response.url.removeprefix(self.studio.url)} {response.status}"
            )
        if response.ok and any(each in response.url for each in SERVED):
            try:
                self.served.append(int(response.json()["id"]))
            except (ValueError, KeyError):
                return

    def enter(self, *, sign_up: bool = False) -> None:
        where = "signup" if sign_up else "login"
        self.page.goto(f"{self.studio.url}/user/{where}/?next=/projects/{self.project}/data")
        self.page.fill("input[name=email]", self.email)
        self.page.fill("input[name=password]", PASSWORD)
        self.page.click("button[type=submit]")
        self.page.wait_for_load_state("networkidle")
        self.page.goto(f"{self.studio.url}/projects/{self.project}/data")
        self.page.get_by_text("Label All Tasks").wait_for(timeout=60_000)
        self._serve(lambda: self.page.get_by_text("Label All Tasks").click())

    def _serve(self, act: Callable[[], Any]) -> None:
        """Do what brings the next task, and wait until it is on the page."""
        before = len(self.served)
        act()
        end = time.monotonic() + 60
        while len(self.served) == before:
            self.page.wait_for_timeout(100)
            if time.monotonic() > end:
                self.page.screenshot(path="served-nothing.png")
                raise SystemExit(f"{self.email} was served nothing: {self.answers[-6:]}; see served-nothing.png")
        self.page.get_by_text("Submit", exact=True).wait_for(timeout=60_000)
        self.page.wait_for_timeout(400)

    @property
    def current(self) -> int:
        return self.served[-1]

    def sees_picture(self) -> bool:
        self.page.wait_for_function(SHOWN, timeout=20_000)
        return bool(self.page.evaluate(SHOWN))

    def answer(self, place: int) -> None:
        """Press the key of a class, unless the suggestion that is filled in is that one; and submit."""
        if not self._is_checked(place):
            self.page.keyboard.press(str(place + 1))
            self.page.wait_for_timeout(150)
        if not self._is_checked(place):
            raise SystemExit(f"class {place} of task {self.current} could not be chosen")
        self._serve(lambda: self.page.keyboard.press("Control+Enter"))

    def _is_checked(self, place: int) -> bool:
        return bool(self.page.evaluate(CHECKED)[place])

    def skip(self) -> None:
        self._serve(lambda: self.page.get_by_text("Skip", exact=True).click())


def upload_pictures(studio: Studio, project: int) -> None:
    """Digits as PNG files whose names end with the class."""
    images, digits = load_digits(return_X_y=True)
    rows = np.flatnonzero(digits < len(WORDS))[:PICTURES]
    for row in rows:
        path = studio.folder / f"digit-{row:04d}-{digits[row]}.png"
        pixels = (255 - images[row].reshape(8, 8) * 255 / 16).astype(np.uint8)
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.NEAREST).save(path)
        with path.open("rb") as stream:
            studio.http.post(f"/api/projects/{project}/import", files={"file": stream}).raise_for_status()


def class_of(task: dict[str, Any]) -> int:
    """The true class of a picture, from its name; or of a text, from its words."""
    if "image" in task["data"]:
        return int(Path(task["data"]["image"]).stem[-1])
    return int(sum(word in GOOD for word in task["data"]["text"].split()) >= 3)


@contextmanager
def running(ours: Ours) -> Iterator[Ours]:
    ours.start()
    try:
        yield ours
    finally:
        if ours.process is not None and ours.process.poll() is None:
            ours.end(signal.SIGINT)


# -- the parts -----------------------------------------------------------------------------------------------


def label_on_the_page(studio: Studio, browser: Browser, project: int, shots: Path | None) -> dict[str, Any]:
    """30 pictures by one person; a deletion, a skip and a kill in between."""
    tasks, ours = studio.tasks(project), Ours(studio, project, "--encoder", "pixels")
    found: dict[str, Any] = {"pictures_seen": 0, "as_placed": 0, "as_placed_before": 0, "served": 0, "order": []}
    with running(ours):
        person = Annotator(browser, studio, project, OWNER)
        first = studio.settled_queue(project)[0]
        person.enter()
        found["served"] = 1
        found["as_placed"] = found["as_placed_before"] = int(person.current == first)
        for step in range(30):
            queue = studio.settled_queue(project)
            expected = next(task for task in queue if task != person.current)
            found["order"].append(person.current)
            found["pictures_seen"] += person.sees_picture()
            if shots is not None and step in (0, 12, 29):
                person.page.screenshot(path=str(shots / f"label-studio-page-{step}.png"))
            if step == 14:
                skipped = person.current
                person.skip()
            else:
                person.answer(class_of(tasks[person.current]))
            found["served"] += 1
            found["as_placed_before"] += person.current == expected
            found["as_placed"] += person.current in (expected, *studio.queue(project)[:1])
            say(f"page {step + 1}: served {person.current}, expected {expected}")
            if step == 8:
                found["deleted"] = delete_last(studio, project, ours)
            if step == 20:
                ours.end(signal.SIGKILL)
                say("killed")
            if step == 22:  # two answers came while nobody followed
                ours.start()
        found["deleted_came_back"] = found["deleted"] in found["order"][found["order"].index(found["deleted"]) + 1 :]
        found["skipped_came_back"] = found["order"].count(skipped) > 1 or person.current == skipped
        studio.settled_queue(project)
        person.page.close()
    return found


def delete_last(studio: Studio, project: int, ours: Ours) -> int:
    """Undo the last answer as Label Studio's page does; its task."""
    numbers = {each["id"]: task for task, found in studio.tasks(project).items() for each in found["annotations"]}
    last = max(numbers)
    studio.http.delete(f"/api/annotations/{last}").raise_for_status()
    wait_until(lambda: f"task {numbers[last]}: taken back" in ours.said(), "the undo")
    return int(numbers[last])


def two_people(studio: Studio, browser: Browser, project: int) -> dict[str, Any]:
    """Two accounts at once, eight tasks each, in turn."""
    tasks = studio.tasks(project)
    found: dict[str, Any] = {"served": 0, "as_placed": 0, "same_task_at_once": 0, "twice": 0}
    with running(Ours(studio, project, "--annotators", "2", "--encoder", "pixels")):
        people = [Annotator(browser, studio, project, OWNER), Annotator(browser, studio, project, SECOND)]
        people[0].enter()
        people[1].enter(sign_up=True)
        for _ in range(8):
            for person in people:
                queue = studio.settled_queue(project)
                hands = {each.current for each in people}
                found["same_task_at_once"] += len(hands) < 2
                expected = next(task for task in queue if task not in hands)
                person.answer(class_of(tasks[person.current]))
                found["served"] += 1
                found["as_placed"] += person.current == expected
                say(f"{person.email}: served {person.current}, expected {expected}")
        studio.settled_queue(project)
        given = [task for person in people for task in person.served]
        found["twice"] = len(given) - len(set(given))
        for person in people:
            person.page.close()
    found["by_each"] = annotations_by(studio, project)
    return found


def annotations_by(studio: Studio, project: int) -> dict[str, int]:
    names = {user["id"]: user["email"] for user in studio.get("/api/users/")}
    by = [names[each["completed_by"]] for task in studio.tasks(project).values() for each in task["annotations"]]
    return {name: by.count(name) for name in sorted(set(by))}


def make_texts(studio: Studio) -> int:
    project = studio.make_project("Texts", "text", ("bad", "good"))
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice((BAD, GOOD)[row % 2], 6)) + f", number {row}" for row in range(TEXTS)]
    studio.http.post(f"/api/projects/{project}/import", json=[{"text": text} for text in texts]).raise_for_status()
    return project


def label_by_api(studio: Studio, project: int, steps: int, *, waits: bool) -> dict[str, Any]:
    """Answers at once, or after the queue has settled; whether what comes next was the first of the queue by then."""
    tasks = studio.tasks(project)
    submits, placed = [], []
    ours = fresh = 0
    for _ in range(steps):
        task = studio.get(f"/api/projects/{project}/next")["id"]
        before = studio.settled_queue(project) if waits else studio.queue(project)
        begun = time.perf_counter()
        studio.answer(task, ("bad", "good")[class_of(tasks[task])], "text")
        submits.append(time.perf_counter() - begun)
        if waits:
            known = set(before)
            wait_until(lambda: set(studio.queue(project)) - known, "the next prediction", 60)  # noqa: B023
            placed.append(time.perf_counter() - begun)
        now = studio.get(f"/api/projects/{project}/next")["id"]
        queue = studio.queue(project)
        ours += now in queue
        fresh += bool(queue) and now == queue[0]
    found: dict[str, Any] = {"answers": steps, "next_was_in_our_queue": ours, "next_was_its_first": fresh,
             "submit_s": spread(submits)}  # fmt: skip
    return found | ({"until_placed_s": spread(placed)} if placed else {})


def spread(seconds: list[float]) -> dict[str, float]:
    return {"median": round(float(np.median(seconds)), 2), "longest": round(max(seconds), 2)}


def grow(studio: Studio, project: int, ours: Ours) -> dict[str, Any]:
    """Tasks that are added while we follow join the pool; one that is deleted leaves it."""
    before = set(studio.tasks(project))
    more = [{"text": f"lovely great warm, added {row}"} for row in range(5)]
    studio.http.post(f"/api/projects/{project}/import", json=more).raise_for_status()
    wait_until(lambda: ours.said().count("following project") > 1, "the growth of the pool")
    first = studio.settled_queue(project)[-1]
    studio.http.delete(f"/api/tasks/{first}").raise_for_status()
    wait_until(lambda: len(studio.settled_queue(project)) >= 3, "a queue without the deleted task")
    return {"added": len(set(studio.tasks(project)) - before), "deleted_task_in_queue": first in studio.queue(project)}


def doctor(studio: Studio, project: int) -> list[str]:
    """What the doctor finds wrong, asked with a personal access token; and its exit code."""
    token = studio.post("/api/token/")["token"]
    command = [sys.executable, "-c", START, "labelstudio", "doctor", "--url", studio.url, "--project", str(project)]
    done = subprocess.run(command, env={**os.environ, "LABEL_STUDIO_TOKEN": token}, capture_output=True, text=True)
    return [*(line for line in done.stdout.splitlines() if line.startswith("wrong")), f"exit code {done.returncode}"]


def compare_labels(studio: Studio, project: int) -> dict[str, int]:
    """How many of Label Studio's annotations are in our export as they are there."""
    names = {user["id"]: user["email"] for user in studio.get("/api/users/")}
    there = {
        number: (names[each["completed_by"]], each["result"][0]["value"]["choices"][0])
        for number, task in studio.tasks(project).items()
        for each in task["annotations"]
        if not each["was_cancelled"]
    }
    ours = Ours(studio, project).exported()
    equal = sum(ours.get(number) == said for number, said in there.items())
    return {"annotations": len(there), "equal_in_our_export": equal, "in_ours_only": len(ours.keys() - there.keys())}


def run(program: Path, folder: Path, shots: Path | None) -> dict[str, Any]:
    studio, found = Studio(program, folder), dict[str, Any]()
    studio.start()
    try:
        found["label_studio"] = studio.get("/api/version")["release"]
        pictures, texts = studio.make_project("Pictures", "image", WORDS), make_texts(studio)
        upload_pictures(studio, pictures)
        with sync_playwright() as playwright:
            chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            found["page"] = label_on_the_page(studio, browser, pictures, shots)
            found["two_people"] = two_people(studio, browser, pictures)
            browser.close()
        say(json.dumps(found))
        found["pictures_compared"] = compare_labels(studio, pictures)
        say(json.dumps(found))
        with running(Ours(studio, texts, "--encoder", "words")) as ours:
            found["polling"] = label_by_api(studio, texts, 12, waits=True)
            found["polling_in_haste"] = label_by_api(studio, texts, 12, waits=False)
            found["growth"] = grow(studio, texts, ours)
        say(json.dumps(found))
        found["doctor_with_personal_token"] = doctor(studio, texts)
        studio.stop()
        studio.start(SSRF_PROTECTION_ENABLED="false")
        with running(Ours(studio, texts, "--webhook", f"127.0.0.1:{free_port()}")):
            found["webhook"] = label_by_api(studio, texts, 12, waits=False)
        found["texts_compared"] = compare_labels(studio, texts)
    finally:
        studio.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label-studio", type=Path, required=True, help="the program, in an environment of its own")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shots", type=Path, help="a folder for pictures of the page")
    options = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = run(options.label_studio.absolute(), Path(folder), options.shots)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    report = {"machine": machine, "seconds": round(time.perf_counter() - begun), **found}
    print(json.dumps(report, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
