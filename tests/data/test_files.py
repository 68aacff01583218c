import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from understudy.data.files import whole, write_whole
from understudy.errors import UnderstudyError


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"before")
    write_whole(tmp_path / "file", b"after")
    assert (tmp_path / "file").read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_what_fails_while_it_is_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"before")
    with suppress(RuntimeError), whole(tmp_path / "file") as file:
        file.write(b"half")
        raise RuntimeError
    assert (tmp_path / "file").read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_kill_before_the_file_is_in_place_leaves_it_as_it_was(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"before")
    code = (
        "import os, sys, signal; from pathlib import Path; from understudy.data.files import write_whole\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_whole(Path(sys.argv[1]), b'after' * 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_bytes() == b"before"


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"cannot write .*nowhere.file: No such file or directory"):
        write_whole(tmp_path / "nowhere" / "file", b"content")


def test_who_may_read_a_file_is_what_the_user_set(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "file", b"private")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), b"content")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"content"
