"""Downloads from real servers on this machine: whole, broken, changed, stubborn."""

import hashlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.data.serving import CONTENT, Server, serving
from tests.waiting import wait_until
from understudy.data.downloads import download
from understudy.errors import UnderstudyError

MD5 = "md5:" + hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def get(server: Server, target: Path, checksum: str | None = None, attempts: int = 3) -> Path:
    return download(server.url, target, checksum=checksum, progress=False, attempts=attempts, wait=0.01, timeout=60)


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


@pytest.mark.parametrize("checksum", [None, MD5, SHA256])
def test_a_file_arrives_whole_and_alone(server: Server, tmp_path: Path, checksum: str | None) -> None:
    target = get(server, tmp_path / "new" / "file.bin", checksum)
    assert target.read_bytes() == CONTENT
    assert left_in(target.parent) == {"file.bin"}


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        get(server, tmp_path / "file.bin", MD5)
    assert server.asked == [None]


def test_a_file_with_another_sum_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"old")
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT


def test_a_dropped_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1_000_000, 500_000]
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=1500000-"]
    assert server.sent == len(CONTENT)


def test_breaks_are_counted_only_while_nothing_comes(server: Server, tmp_path: Path) -> None:
    server.cut_after = [100_000] * 10
    assert get(server, tmp_path / "file.bin", MD5, attempts=2).read_bytes() == CONTENT


def test_what_has_come_is_kept_when_it_gives_up(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1_000_000, 0, 0]
    with pytest.raises(UnderstudyError, match="what has come is kept"):
        get(server, tmp_path / "file.bin", MD5)
    assert left_in(tmp_path) == {"file.bin.part", "file.bin.part.json"}
    get(server, tmp_path / "file.bin", MD5)
    assert server.asked[-1] == "bytes=1000000-"
    assert server.sent == len(CONTENT)


def test_a_date_serves_where_there_is_no_strong_etag(server: Server, tmp_path: Path) -> None:
    server.etag, server.modified, server.cut_after = 'W/"weak"', "Mon, 01 Jan 2024 00:00:00 GMT", [1_000_000]
    assert get(server, tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-"]
    assert server.sent == len(CONTENT)


def test_without_either_it_starts_afresh(server: Server, tmp_path: Path) -> None:
    server.etag, server.cut_after = None, [1_000_000]
    assert get(server, tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None, None]


def test_a_server_that_ignores_ranges_sends_it_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cut_after = False, [1_000_000]
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT
    assert server.sent == 1_000_000 + len(CONTENT)


def test_a_server_that_sends_another_range_is_not_believed(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.misplaced = [1_000_000], [2_000_000]
    assert get(server, tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", None]


def test_a_file_that_changed_meanwhile_is_not_mixed(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1_000_000, 0, 0]
    with pytest.raises(UnderstudyError):
        get(server, tmp_path / "file.bin")
    server.content, server.etag = CONTENT[::-1], '"second"'
    assert get(server, tmp_path / "file.bin").read_bytes() == CONTENT[::-1]


def test_a_part_of_another_address_is_not_continued(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1_000_000, 0, 0]
    with pytest.raises(UnderstudyError):
        get(server, tmp_path / "file.bin")
    elsewhere = server.url.replace("file.bin", "other.bin")
    download(elsewhere, tmp_path / "file.bin", progress=False)
    assert server.asked[-1] is None


def test_a_part_that_is_complete_needs_no_more_bytes(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.sends_length = [0, 0, 0], True
    with pytest.raises(UnderstudyError):
        get(server, tmp_path / "file.bin")
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    sent = server.sent
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT
    assert (server.asked[-1], server.sent) == (f"bytes={len(CONTENT)}-", sent)


def test_a_part_that_is_too_long_is_thrown_away(server: Server, tmp_path: Path) -> None:
    server.cut_after = [0, 0, 0]
    with pytest.raises(UnderstudyError):
        get(server, tmp_path / "file.bin")
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.answers = [500, 503]
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (500, 3)])
def test_a_refusal_is_one_line_with_its_status(server: Server, tmp_path: Path, status: int, requests: int) -> None:
    server.answers = [status] * 9
    with pytest.raises(UnderstudyError, match=f"answered {status} ") as refused:
        get(server, tmp_path / "file.bin")
    assert len(server.asked) == requests
    assert "\n" not in str(refused.value)
    assert left_in(tmp_path) == set()


def test_no_server_at_all_is_one_line(tmp_path: Path) -> None:
    with Server() as closed:
        pass
    with pytest.raises(UnderstudyError, match=r"Connection refused.*check the address and the network"):
        get(closed, tmp_path / "file.bin")


def test_a_wrong_sum_names_both_and_removes_the_part(server: Server, tmp_path: Path) -> None:
    wrong = "md5:" + "0" * 32
    with pytest.raises(UnderstudyError, match=f"{MD5} where {wrong} was expected"):
        get(server, tmp_path / "file.bin", wrong)
    assert left_in(tmp_path) == set()


@pytest.mark.parametrize("checksum", ["sha1:00", "00", "md5:", "md5:XYZ"])
def test_a_sum_of_no_known_kind_is_refused_at_once(server: Server, tmp_path: Path, checksum: str) -> None:
    with pytest.raises(UnderstudyError, match="a checksum is"):
        get(server, tmp_path / "file.bin", checksum)
    assert not server.asked


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "here"])
def test_only_the_web_is_downloaded_from(tmp_path: Path, url: str) -> None:
    with pytest.raises(UnderstudyError, match="only http and https"):
        download(url, tmp_path / "file.bin", progress=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line_and_keeps_the_part(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").symlink_to("/dev/full")
    with pytest.raises(
        UnderstudyError, match=r"the disk is full .* make room, then run it again; .*file\.bin\.part"
    ) as full:
        get(server, tmp_path / "file.bin")
    assert "\n" not in str(full.value)
    assert (tmp_path / "file.bin.part").is_symlink()


def test_a_folder_that_cannot_be_made_is_one_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnderstudyError, match=r"cannot write .*choose another folder"):
        get(server, tmp_path / "file" / "file.bin")


SCRIPT = (
    "import sys; from understudy.data.downloads import download; download(sys.argv[1], sys.argv[2], progress=False)"
)


@contextmanager
def another_process(server: Server, target: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, server.url, str(target)]) as process:
        yield process


def test_a_killed_process_is_continued_by_the_next(server: Server, tmp_path: Path) -> None:
    server.pause, part = 0.05, tmp_path / "file.bin.part"
    with another_process(server, tmp_path / "file.bin") as process:
        wait_until(lambda: part.exists() and part.stat().st_size > 500_000)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "file.bin").exists()
    kept, server.pause = part.stat().st_size, 0.0
    assert 0 < kept < len(CONTENT)
    assert get(server, tmp_path / "file.bin", MD5).read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={kept}-"]


def test_two_processes_fetch_it_once(server: Server, tmp_path: Path) -> None:
    server.pause = 0.02
    with another_process(server, tmp_path / "file.bin") as process:
        wait_until(lambda: server.sent > 0)
        assert get(server, tmp_path / "file.bin").read_bytes() == CONTENT
    assert process.returncode == 0
    assert server.asked == [None]
