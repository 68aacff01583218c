"""A labelling server, killed again and again while an owner, a reviewer and two annotators work on one pool.

They label, differ, settle, flag and put back many items at once, change classes and get new names. All the while rows
are put at the end of the pool's file, which join as items. Is all of it there, once?

    python benchmarks/label_kills.py --kills 50 --labels 2000 --out benchmarks/results/soak-label.json
    python benchmarks/label_kills.py --postgres --out benchmarks/results/soak-label-postgres.json

With `--postgres` a cluster of its own is started and the log is there.

The server is a process of its own, ended by SIGKILL with all that it started. Clients go on pressing: a call that gets
no answer is sent again with its key. An engine that never dies follows the log in this process. After every restart the
server, which has replayed the log, and that engine are asked which item comes next; at the end, what the classes are,
which items are disputed and settled, and who there is.
"""

import argparse
import json
import os
import platform
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from understudy.core.state import count_rows
from understudy.core.surrogate import Surrogate
from understudy.projects.opening import create_or_open, look_again
from understudy.projects.project import Project
from understudy.sessions.chooser import Chooser
from understudy.sessions.disputes import ORDER
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.models import Models
from understudy.sessions.record import Move, Record, replay_events
from understudy.sessions.training.array_folders import read_arrays
from understudy.sessions.training.trainer import find_anchor

N, D, CLASSES = 3_000, 24, 6
MOST_NEW, ITEMS_AT_ONCE, SECONDS_BETWEEN_ITEMS = 600, 15, 2.0
MAY_BE_REFUSED = (
    "undo", "labels", "settle", "classes/change", "classes/merge", "classes/remove", "classes/undo", "people/change",
    "items/label", "items/flag", "items/bad", "items/put-back",
)  # fmt: skip
ROLES = {"client 0": "owner", "client 1": "reviewer", "client 2": "annotator", "client 3": "annotator"}
PROBE = "probe"  # who asks for the next item after every restart
MOST_AT_ONCE = 30  # items
START = "from understudy.cli import main; main()"


def make_pool(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Items in clusters, some of which overlap: features and classes."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3 * CLASSES, D)) * 1.6
    cluster = rng.integers(len(centres), size=n)
    return (centres[cluster] + rng.normal(size=(n, D))).astype(np.float32), cluster % CLASSES


def write_pool(folder: Path, features: np.ndarray) -> None:
    """Put these into the pool's file, whole at once."""
    np.savez(folder / "draft.npz", X=features)
    (folder / "draft.npz").replace(folder / "pool.npz")


def keep_growing(folder: Path, features: np.ndarray, over: threading.Event) -> None:
    """Put more of these rows at the end of the pool's file now and then, whether or not a server is there."""
    for end in range(N + ITEMS_AT_ONCE, len(features) + 1, ITEMS_AT_ONCE):
        if over.wait(SECONDS_BETWEEN_ITEMS):
            return
        write_pool(folder, features[:end])


class Server:
    """The server's process, started as people start it."""

    def __init__(self, folder: Path, store: str | None) -> None:
        self.folder, self.store = folder, store
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.starts: list[float] = []
        self.tokens: dict[str, str] = {}

    def headers(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def start(self) -> None:
        command = [sys.executable, "-c", START, "label", str(self.folder / "pool.npz"), "--no-browser",
                   "--port", str(self.port), "--classes", ",".join(f"class {c}" for c in range(CLASSES)),
                   "--learner", "quick", "--basis-size", "100",
                   "--annotators", ",".join(f"{name}:{role}" for name, role in {**ROLES, PROBE: "owner"}.items()),
                   *(["--store", self.store] if self.store else [])]  # fmt: skip
        begun = time.perf_counter()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (self.folder / "server.txt").open("ab") as said:
            self.process = subprocess.Popen(
                command, start_new_session=True, env=environment, stdout=said, stderr=subprocess.PIPE
            )
        with httpx.Client(timeout=5) as http:  # to make one takes longer than to ask
            while not self._is_ready(http):
                if self.process.poll() is not None:
                    raise SystemExit(f"the server ended: {self.process.stderr.read().decode()}")  # type: ignore[union-attr]
                time.sleep(0.05)
        self.starts.append(time.perf_counter() - begun)

    def _is_ready(self, http: httpx.Client) -> bool:
        if not self.tokens:  # the links are said once, by the first start
            said = (self.folder / "server.txt").read_text()
            self.tokens = dict(re.findall(r"^  (.+?): \S+\?token=(\S+)", said, re.MULTILINE))
            return False
        try:
            status = http.get(f"{self.url}/api/status", headers=self.headers(PROBE))
            return bool(status.json()["phase"] == "ready")
        except (httpx.HTTPError, ValueError, KeyError):
            return False

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


class Client(threading.Thread):
    """Somebody who labels as fast as answers come, makes mistakes, and does not mind that the server is away."""

    def __init__(
        self,
        name: str,
        server: Server,
        truth: np.ndarray,
        gate: threading.Event,
        enough: threading.Event,
        labelled: list[int],
    ) -> None:
        super().__init__(daemon=True)
        self.name, self.server, self.truth, self.gate, self.enough = name, server, truth, gate, enough
        self.labelled = labelled  # items by anybody
        self.rng = np.random.default_rng(abs(hash(name)) % 2**32)
        self.stored: dict[str, tuple[str, int | None, int | None]] = {}  # key: call, item, label
        self.labels = self.again = 0
        self.error: BaseException | None = None

    def call(self, http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            self.gate.wait()
            try:
                answer = http.post(
                    f"{self.server.url}/api/{path}",
                    json={"annotator": self.name, **body},
                    headers=self.server.headers(self.name),
                    timeout=10,
                )
            except httpx.HTTPError:
                self.again += 1
                time.sleep(0.05)
                continue
            if answer.status_code == 503:
                time.sleep(0.05)
                continue
            if answer.status_code == 409 and path in MAY_BE_REFUSED:
                return {}
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            return found

    def run(self) -> None:
        try:
            with httpx.Client() as http:
                question = self.call(http, "next", {})
                while question.get("item") is not None and not self.enough.is_set():
                    question = self.decide(http, question["item"])
        except BaseException as error:
            self.error = error

    def decide(self, http: httpx.Client, item: int) -> dict[str, Any]:
        key, die = secrets.token_hex(8), self.rng.random()
        if die < 0.03:
            undone = self.call(http, "undo", {"key": key})
            if undone:
                self.stored[key] = ("undone", None, None)
            next_one: dict[str, Any] = undone["next"] if undone else self.call(http, "next", {})
            return next_one
        role, done = ROLES[self.name], len(self.stored)
        if die < 0.07:
            return self.decide_many(http, key)
        if role == "owner" and done % 8 == 5:
            self.change_classes_or_people(http, key, int(self.rng.integers(CLASSES)))
            same: dict[str, Any] = self.call(http, "next", {})
            return same
        if die < 0.2 or (role == "reviewer" and done % 3 == 2):
            return self.differ_or_settle(http, key)
        if die < 0.24:
            path: str = "skip" if die < 0.22 else "dont-know"
            answer = self.call(http, path, {"item": item, "key": key})
            self.stored[key] = ({"skip": "skipped", "dont-know": "dont_know"}[path], item, None)
        else:
            label = int(self.truth[item])
            answer = self.call(http, "labels", {"item": item, "label": label, "key": key})
            if not answer:  # somebody removed the class
                key = secrets.token_hex(8)
                answer = self.call(http, "dont-know", {"item": item, "key": key})
                self.stored[key] = ("dont_know", item, None)
            else:
                self.stored[key] = ("labelled", item, label)
                self.labels += 1
                self.labelled.append(item)
        following: dict[str, Any] = answer["next"]
        return following

    def differ_or_settle(self, http: httpx.Client, key: str) -> dict[str, Any]:
        """Label an item otherwise than somebody did; or settle one on which people differ."""
        may_settle = ROLES[self.name] != "annotator"
        disputes = http_get(http, self, "disputes?state=disputed&n=20")["disputes"] if may_settle else []
        label = int(self.rng.integers(CLASSES))
        if disputes and self.rng.random() < 0.7:
            path, kind, item = "settle", "settled", int(self.rng.choice([found["item"] for found in disputes]))
        elif self.labelled:
            path, kind, item = "labels", "labelled", int(self.rng.choice(self.labelled))
        else:
            return self.call(http, "next", {})
        answer = self.call(http, path, {"item": item, "label": label, "key": key})
        if answer:  # otherwise somebody removed the class, or took their label back
            self.stored[key] = (kind, item, label)
            self.labels += kind == "labelled"
        return answer["next"] if answer else self.call(http, "next", {})

    def decide_many(self, http: httpx.Client, key: str) -> dict[str, Any]:
        """Flag, label, call bad or put back many items in one call."""
        items = self.rng.choice(N, int(self.rng.integers(2, MOST_AT_ONCE)), replace=False).tolist()
        ways: list[tuple[str, dict[str, Any]]] = [
            ("items/flag", {"items": items, "note": key}),
            ("items/bad", {"items": items[:3]}),
            ("items/label", {"items": items[:8], "label": int(self.rng.integers(CLASSES))}),
        ]
        if ROLES[self.name] != "annotator":
            aside = http_get(http, self, "items?state=bad&state=flagged&state=skipped&limit=200")["items"]
            ways.append(("items/put-back", {"items": [found["item"] for found in aside] or items, "what": "any"}))
        path, body = ways[int(self.rng.integers(len(ways)))]
        answer = self.call(http, path, {**body, "key": key})
        if answer:  # otherwise there was nothing to do
            self.stored[key] = ("many", None, None)
        return answer["next"] if answer else self.call(http, "next", {})

    def change_classes_or_people(self, http: httpx.Client, key: str, number: int) -> None:
        """Rename, merge or remove a class, or take back what somebody did to one; most of it is taken back.

        Or give an annotator another name: they go on by the one that they know.
        """
        if self.rng.random() < 0.15:
            if self.call(http, "people/change", {"person": "client 3", "name": f"{key} third", "key": key}):
                self.stored[key] = ("people", None, None)
            return
        changes = http_get(http, self, "classes")["changes"]
        done = [change["seq"] for change in changes if change["kept"] is None]
        ways: list[tuple[str, dict[str, Any]]] = [
            ("classes/change", {"number": number, "name": f"class {key}"}),
            ("classes/merge", {"number": number, "into": (number + 1) % CLASSES}),
            ("classes/remove", {"number": number}),
        ]
        path, body = ways[int(self.rng.integers(len(ways)))]
        if done and self.rng.random() < 0.6:
            path, body = "classes/undo", {"change": int(self.rng.choice(done))}
        if self.call(http, path, {**body, "key": key}):
            self.stored[key] = ("classes", None, None)


def http_get(http: httpx.Client, client: Client, path: str) -> dict[str, Any]:
    """What the server says, as soon as it is there."""
    while True:
        client.gate.wait()
        try:
            answer = http.get(f"{client.server.url}/api/{path}", headers=client.server.headers(client.name), timeout=10)
        except httpx.HTTPError:
            time.sleep(0.05)
            continue
        if answer.status_code == 200:
            found: dict[str, Any] = answer.json()
            return found
        time.sleep(0.05)


class NeverDied:
    """An engine that follows the log from its beginning and is never made anew."""

    def __init__(self, folder: Path, store: str | None) -> None:
        self.project = create_or_open(folder / "pool.npz", store=store)
        self.log = EventLog.open(self.project.store_url, self.project.identity, read_only=True)
        events = list(self.log.read())
        replay = replay_events(events[:1])
        self.record = replay.record
        self.models = Models(self.project, replay.record, replay.ledger)
        self.chooser = Chooser(self.models.surrogate(), self.models.describe_rows)
        self.moves: list[tuple[int, Move]] = []  # with the number of the event
        self.swaps = self.missed = 0
        for event in events[1:]:
            self.follow(event)

    def follow(self, event: Event) -> None:
        moves = self.record.apply(event)
        if event.kind == "items_added":
            self.project.adopt(look_again(self.project))
            self.models.note_growth(None)
        self.moves += [(event.seq, move) for move in moves]
        if any(move.regroups for move in moves):
            self.regroup()
        else:
            for move in moves:
                self.chooser.follow(move)
        if event.kind == "trained":
            self.swap(event)

    def swap(self, event: Event) -> None:
        self.models.reload(self.models.ledger)
        anchor = find_anchor(self.project.work, event.data["until"], event.data["predictions"])
        if anchor is None:  # a later training has taken its place already; the next one will be met
            self.missed += 1
            self.chooser = Chooser(self.models.surrogate(), self.models.describe_rows)
        else:
            state = read_arrays(anchor)
            self.chooser = Chooser(
                Surrogate.restore(self.project.features[: count_rows(state)], state, check=False),
                self.models.describe_rows,
            )
        self.moves = [(seq, move) for seq, move in self.moves if seq > event.data["until"]]
        if any(move.regroups for _, move in self.moves):
            self.regroup()
        else:
            for _, move in self.moves:
                self.chooser.follow(move)
        self.swaps += 1

    def regroup(self) -> None:
        """Classes were merged, removed, or came back: a surrogate cannot follow that."""
        self.models.reload(self.models.ledger)
        self.chooser = Chooser(self.models.surrogate_now(), self.models.describe_rows)

    def catch_up(self) -> None:
        for event in self.log.read(after=self.record.seq):
            self.follow(event)

    def best(self) -> int | None:
        leaders = self.chooser.surrogate.leaders(1)
        return int(leaders[0]) if len(leaders) else None


def probe(server: Server, engine: NeverDied) -> tuple[bool, int] | None:
    """Whether the restarted server and the engine that never died choose the same item.

    None where it cannot be told: it is an audit item, or a model came between.
    """
    engine.catch_up()
    swaps, expected = engine.swaps, engine.best()
    who, known = {"annotator": PROBE}, server.headers(PROBE)
    asked = httpx.post(f"{server.url}/api/next", json=who, headers=known, timeout=None).json()
    httpx.post(f"{server.url}/api/release", json=who, headers=known, timeout=None).raise_for_status()
    engine.catch_up()
    if asked["ask"] != "choice" or engine.swaps > swaps:
        return None
    return asked["item"] == expected, asked["item"]


def measure(kills: int, labels: int, store: str | None, seed: int, folder: Path, say: bool = True) -> dict[str, Any]:
    features, truth = make_pool(N + MOST_NEW)
    write_pool(folder, features[:N])
    server, gate, enough = Server(folder, store), threading.Event(), threading.Event()
    server.start()
    engine = NeverDied(folder, store)
    labelled: list[int] = []
    clients = [Client(name, server, truth, gate, enough, labelled) for name in ROLES]
    gate.set()
    growing = threading.Thread(target=keep_growing, args=(folder, features, enough), daemon=True)
    for each in (*clients, growing):
        each.start()
    rng = np.random.default_rng(seed)
    aims = np.sort(rng.choice(np.arange(5, int(0.95 * labels)), kills, replace=False)).tolist()
    probes: list[tuple[bool, int] | None] = []
    for number, aim in enumerate(aims):
        while sum(client.labels for client in clients) < aim:
            check(clients)
            time.sleep(0.002)
        if number % 2:  # a training that every kill cuts short would never bring a model
            let_train(server, gate)
        time.sleep(float(rng.uniform(0, 0.05)))
        server.kill()
        gate.clear()
        time.sleep(0.1)  # calls under way notice that nobody answers
        server.start()
        probes.append(probe(server, engine))
        if say:
            print(f"kill {number + 1}: at {aim} labels, next item {probes[-1]}", flush=True)
        gate.set()
    while sum(client.labels for client in clients) < labels and any(client.is_alive() for client in clients):
        check(clients)
        time.sleep(0.01)
    enough.set()
    for each in (*clients, growing):
        each.join()
    check(clients)
    engine.catch_up()
    known = server.headers(PROBE)
    order = httpx.get(f"{server.url}/api/status", headers=known, timeout=None).json()["class_order"]
    disputes = httpx.get(f"{server.url}/api/disputes", headers=known, timeout=None).json()
    server.kill()
    return {
        **verdict(server, clients, engine, probes, kills, order, disputes),
        "items_joined": engine.record.n_items - N,
        "items_same": _are_same(engine.project, features),
    }


def _are_same(project: Project, features: np.ndarray) -> bool:
    """Whether every item is still the row that it was in the pool's file."""
    found = look_again(project).pool
    names = [f"row {row}" for row in range(len(found))]
    return list(found.ids) == names and np.array_equal(np.asarray(found.features), features[: len(found)])


def let_train(server: Server, gate: threading.Event) -> None:
    """Hold the clients until the training that runs is over."""
    gate.clear()
    known = server.headers(PROBE)
    while httpx.get(f"{server.url}/api/status", headers=known, timeout=None).json()["training"]["state"] == "running":
        time.sleep(0.1)
    gate.set()


def check(clients: list[Client]) -> None:
    for client in clients:
        if client.error is not None:
            raise SystemExit(f"{client.name}: {client.error!r}")


def verdict(
    server: Server,
    clients: list[Client],
    engine: NeverDied,
    probes: list[tuple[bool, int] | None],
    kills: int,
    class_order: list[int],
    disputes: dict[str, int],
) -> dict[str, Any]:
    """What became of every answer; `class_order` and `disputes` are what the server said last."""
    events = list(engine.log.read())
    engine.log.close()
    there = Counter((event.annotator, event.key) for event in events if event.key is not None)
    by_key = {(event.annotator, event.key): event for event in events if event.key is not None}
    lost, other = [], []
    for client in clients:
        for key, (kind, item, label) in client.stored.items():
            event = by_key.get((client.name, key))
            if event is None:
                lost.append(key)
            elif kind in ("labelled", "settled") and (event.item, event.data.get("label")) != (item, label):
                other.append(key)
    replayed = Record.from_events(events)
    counts = {state: disputes[state] for state in ORDER}
    compared = [found for found in probes if found is not None]
    return {
        "kills": kills, "acknowledged": sum(len(client.stored) for client in clients),
        "labels": sum(client.labels for client in clients), "sent_again": sum(client.again for client in clients),
        "lost": len(lost), "changed": len(other), "doubled": sum(count > 1 for count in there.values()),
        "events": len(events), "trainings": sum(event.kind == "trained" for event in events),
        "class_changes": sum(found[0] == "classes" for client in clients for found in client.stored.values()),
        "classes_same": _offered(replayed) == _offered(engine.record) == class_order,
        "settlements": sum(found[0] == "settled" for client in clients for found in client.stored.values()),
        "calls_about_many": sum(found[0] == "many" for client in clients for found in client.stored.values()),
        "people_changes": sum(found[0] == "people" for client in clients for found in client.stored.values()),
        "people_same": replayed.people.by_id == engine.record.people.by_id,
        "still_disputed": counts["disputed"],
        "disputes_same": replayed.contests == engine.record.contests and replayed.effective == engine.record.effective
        and counts == {state: replayed.contest_counts[state] for state in counts},
        "next_item_compared": len(compared), "next_item_same": sum(same for same, _ in compared),
        "start_seconds_median": round(float(np.median(server.starts)), 2),
        "anchors_missed_by_the_engine_that_never_died": engine.missed,
    }  # fmt: skip


def _offered(record: Record) -> list[int]:
    return record.class_table.offered


@contextmanager
def store(is_postgres: bool) -> Iterator[str | None]:
    """The address of a database of our own; None for SQLite."""
    if not is_postgres:
        yield None
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.sessions.postgres import running

    with running() as cluster:
        yield cluster.url()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--labels", type=int, default=2000)
    parser.add_argument("--postgres", action="store_true", help="a PostgreSQL cluster instead of SQLite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch, store(given.postgres) as url:
        found = measure(given.kills, given.labels, url, given.seed, Path(scratch))
    found |= {"store": "postgresql" if given.postgres else "sqlite", "python": platform.python_version()}
    print(json.dumps(found, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    if (
        found["lost"]
        or found["changed"]
        or found["doubled"]
        or found["next_item_same"] < found["next_item_compared"]
        or not found["classes_same"]
        or not found["disputes_same"]
        or not found["people_same"]
        or not found["items_same"]
    ):
        raise SystemExit("something was lost, changed, doubled, or chosen otherwise")


if __name__ == "__main__":
    main()
