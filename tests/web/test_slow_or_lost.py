"""A block of the pool that is lost or slow is named to owners, also while somebody waits for it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.distributed.lost_blocks import lost_block, rows_of, session_on_workers
from tests.sessions.small_projects import stored_events
from tests.web.serving import Served, served
from tests.web.test_live_status import statuses
from understudy.distributed.holders import ROUNDS_SHOWN, SLOW_ROUNDS
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.tokens import Tokens

BLOCK = "the block of rows 20 to 39 on 10.0.0.3"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_on_workers(tmp_path, {"ann": "owner", "bob": "annotator"}) as session:
        yield session


@pytest.fixture
def team(session: Session, tmp_path: Path) -> Iterator[Served]:
    tokens = Tokens(tmp_path)
    links = tokens.links_for(("ann", "bob"))
    with served(session, Access(tokens=tokens, annotators=("ann", "bob"))) as running:
        running.tokens = {name: str(token) for name, token in links.items()}
        yield running


def test_an_owner_reads_that_a_block_is_made_again_while_a_label_waits_for_it(team: Served, session: Session) -> None:
    def lines_for(who: str) -> list[str]:
        found: list[str] = httpx.get(f"{team.url}/api/status", headers=team.bearer(who), timeout=None).json()[
            "slow_or_lost"
        ]
        return found

    def label(item: int) -> None:
        body = {"item": item, "label": 1, "annotator": "ann", "key": f"k{item}"}
        answers.append(httpx.post(f"{team.url}/api/labels", json=body, headers=team.bearer("ann"), timeout=None))

    def labels() -> int:
        return sum(event.kind == "labelled" for event in stored_events(session))

    answers: list[httpx.Response] = []
    before = labels()
    assert lines_for("ann") == []
    with team.client.stream("GET", "/api/live?annotator=ann", headers=team.bearer("ann")) as answer:
        stream = statuses(answer.iter_lines())
        assert next(stream)["slow_or_lost"] == []
        with lost_block(session, 1) as may_go_on:
            worker = threading.Thread(target=label, args=(5,))
            worker.start()
            line = f"{BLOCK} was lost and is being made again; labels are safe"
            while next(stream)["slow_or_lost"] != [line]:
                pass
            assert lines_for("ann") == [line]
            assert lines_for("bob") == [], "who cannot do anything about machines is not told of them"
            assert not answers
            assert labels() == before + 1, "the label is in the log while its reply waits"
            may_go_on.set()
            worker.join()
        assert answers[0].json()["labelled"] == before + 1
        back = f"{BLOCK} was lost and has been made again on 10.0.0.3; no label was lost"
        while next(stream)["slow_or_lost"] != [back]:
            pass
    assert lines_for("ann") == [back]
    with session.lock:
        for _ in range(ROUNDS_SHOWN):
            rows_of(session).row_sum()
    assert lines_for("ann") == []


def test_the_stream_says_when_a_block_is_slow_and_when_it_is_not_any_more(team: Served, session: Session) -> None:
    holders = rows_of(session).holders
    with (
        team.client.stream("GET", "/api/live", headers=team.bearer("ann")) as answer,
        httpx.stream("GET", f"{team.url}/api/live", headers=team.bearer("bob"), timeout=None) as other,
    ):
        stream, of_bob = statuses(answer.iter_lines()), statuses(other.iter_lines())
        next(stream)
        assert next(of_bob)["slow_or_lost"] == []
        for _ in range(SLOW_ROUNDS):
            holders._note_slow({0: 0.01, 1: 0.9, 2: 0.02})
        line = f"{BLOCK} has been slow for 5 rounds: 0.90 s where the others take 0.01 s"
        while next(stream)["slow_or_lost"] != [line]:
            pass
        assert next(of_bob)["slow_or_lost"] == []
        holders._note_slow({0: 0.01, 1: 0.02, 2: 0.02})
        while next(stream)["slow_or_lost"]:
            pass


def test_a_stream_does_not_wait_for_somebody_who_waits_for_a_block(session: Session) -> None:
    session.next("ann")
    with session.lock:
        found: list[object] = ["nothing as yet"]
        asking = threading.Thread(target=lambda: found.append(session.lease_of("ann")))
        asking.start()
        asking.join()
    assert found[1:] == [None]
    assert session.lease_of("ann") is not None
