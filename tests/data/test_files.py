import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from understudy.data.files import (
    atomic_file,
    atomic_folder,
    draft_file,
    remove_drafts,
    remove_folder,
    replace_durably,
    synced_file,
    write_atomically,
)
from understudy.errors import NotStored


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was forced onto the disk, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def spy(handle: int) -> None:
        found.append(Path(f"/proc/self/fd/{handle}").resolve())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", spy)
    return found


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"before")
    write_atomically(tmp_path / "file", b"after")
    assert (tmp_path / "file").read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_what_fails_while_it_is_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"before")
    with suppress(RuntimeError), atomic_file(tmp_path / "file") as file:
        file.write(b"half")
        raise RuntimeError
    assert (tmp_path / "file").read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_kill_before_the_file_is_in_place_leaves_it_as_it_was(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"before")
    code = (
        "import os, sys, signal; from pathlib import Path; from understudy.data.files import write_atomically\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(Path(sys.argv[1]), b'after' * 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_bytes() == b"before"


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotStored, match=r"cannot write .*nowhere.file: No such file or directory"):
        write_atomically(tmp_path / "nowhere" / "file", b"content")


def test_who_may_read_a_file_is_what_the_user_set(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "file", b"private")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("n" * 255), b"content")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"content"


def test_a_stream_is_written_piece_by_piece_and_its_size_comes_back(tmp_path: Path) -> None:
    assert write_atomically(tmp_path / "new" / "file", iter([b"one", b"", b"three"]), parents=True) == 8
    assert (tmp_path / "new" / "file").read_bytes() == b"onethree"


def test_a_stream_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.EIO, "Input/output error")

    write_atomically(tmp_path / "file", b"before")
    with pytest.raises(NotStored, match=r"cannot write .*file: Input/output error; make room"):
        write_atomically(tmp_path / "file", pieces())
    assert (tmp_path / "file").read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_no_draft(tmp_path: Path) -> None:
    with pytest.raises(NotStored, match="No space left on device"):
        write_atomically(tmp_path / "file", b"content")
    with pytest.raises(NotStored, match=f"cannot write to {tmp_path}"), draft_file(tmp_path) as draft:
        draft.move_to(tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_the_file_is_on_the_disk_before_it_is_in_place_and_its_folder_after(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, before = Path.replace, []

    def spy(draft: Path, target: Path) -> Path:
        before.extend(synced)
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", spy)
    write_atomically(tmp_path / "file", b"content")
    assert [path.suffix for path in before] == [".part"]
    assert synced == [*before, tmp_path]


def test_a_file_with_a_mode_has_it_whatever_the_umask_and_never_more(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        with atomic_file(tmp_path / "private", mode=0o600) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        os.umask(0o077)
        write_atomically(tmp_path / "public", b"", mode=0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644


def test_a_draft_gets_its_name_in_the_end_or_vanishes(tmp_path: Path, synced: list[Path]) -> None:
    with draft_file(tmp_path / "new") as draft:
        draft.file.write(b"content")
        draft.move_to(tmp_path / "new" / "named")
    assert synced == [draft.path, tmp_path / "new"]
    with draft_file(tmp_path / "new"):
        pass
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["named"]


def test_a_draft_of_a_fixed_name_is_put_in_place_durably(tmp_path: Path, synced: list[Path]) -> None:
    with synced_file(tmp_path / ".draft") as file:
        file.write(b"content")
    replace_durably(tmp_path / ".draft", tmp_path / "file")
    assert synced == [tmp_path / ".draft", tmp_path]
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_folder_is_replaced_by_another_and_all_of_it_is_on_the_disk(tmp_path: Path, synced: list[Path]) -> None:
    for content in (b"before", b"after"):
        with atomic_folder(tmp_path / "folder") as draft:
            (draft / "inner").mkdir()
            (draft / "inner" / content.decode()).write_bytes(content)
            (draft / "link").symlink_to("/nowhere")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert [path.name for path in (tmp_path / "folder" / "inner").iterdir()] == ["after"]
    assert synced[-4:] == [draft, draft / "inner" / "after", draft / "inner", tmp_path]


def test_a_folder_that_can_be_made_again_need_not_wait_for_the_disk(tmp_path: Path, synced: list[Path]) -> None:
    with atomic_folder(tmp_path / "folder", durable=False) as draft:
        (draft / "file").write_bytes(b"content")
    assert (tmp_path / "folder" / "file").exists()
    assert not synced


def test_what_fails_while_a_folder_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "folder") as draft:
        (draft / "file").write_bytes(b"before")

    def write_half(error: Exception) -> None:
        with atomic_folder(tmp_path / "folder") as draft:
            (draft / "file").write_bytes(b"half")
            raise error

    with pytest.raises(RuntimeError):
        write_half(RuntimeError())
    with pytest.raises(NotStored, match=f"cannot write to {tmp_path}: full"):
        write_half(OSError(errno.ENOSPC, "full"))
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
    assert (tmp_path / "folder" / "file").read_bytes() == b"before"


def test_what_a_kill_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".0123.part", ".draft-0123"):  # the second is an older version's
        (tmp_path / name).mkdir()
        (tmp_path / name / "large.npy").write_bytes(b"half")
    (tmp_path / ".4567.part").write_bytes(b"half")
    (tmp_path / "file.part").write_bytes(b"a download, which goes on")
    remove_drafts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file.part"]
    remove_drafts(tmp_path / "nowhere")


def test_a_removed_folder_stays_readable_for_whoever_has_its_file_open(tmp_path: Path) -> None:
    remove_folder(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"content")
    with (tmp_path / "folder" / "file").open("rb") as file:
        remove_folder(tmp_path / "folder")
        assert file.read() == b"content"
    assert not list(tmp_path.iterdir())
