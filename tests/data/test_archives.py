"""Archives made by hand, honest and hostile."""

import gzip
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.official import packed, tar_bytes
from understudy.data.archives import TAR_HEADER_BYTES, Limits, path_inside, read_members, unpack
from understudy.errors import UnderstudyError

FILES = {"set/a.txt": b"alpha" * 1000, "set/deep/b.bin": bytes(2 * TAR_HEADER_BYTES), "set/empty": b""}
ENDINGS = (".tar", ".tar.gz", ".zip")


def special(kind: bytes, name: str = "set/thing", target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def refuses(archive: Path, words: str, limits: Limits | None = None) -> None:
    """Neither way of opening lets it through, and nothing but the archive is left."""
    before = everything_in(archive.parent)
    for attempt in ways(archive, limits or Limits()):
        with pytest.raises(UnderstudyError, match=words) as refused:
            attempt()
        assert "\n" not in str(refused.value)
    assert everything_in(archive.parent) == before


def ways(archive: Path, limits: Limits) -> tuple[Callable[[], object], ...]:
    return (
        lambda: unpack(archive, archive.parent / "out", limits=limits),
        lambda: read_members(archive, {"set/a.txt"}, limits),
    )


def everything_in(folder: Path) -> set[Path]:
    """What is in a folder and beside it, but not in folders beside it: files of other tests come and go."""
    return {path for path in (*folder.rglob("*"), *folder.parent.iterdir()) if path.suffix != ".lock"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_honest_archive_comes_out_as_it_went_in(tmp_path: Path, ending: str) -> None:
    out = unpack(packed(tmp_path / f"set{ending}", FILES), tmp_path / "out")
    assert {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()} == FILES
    assert not list(tmp_path.glob(".*unpacking"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_folder_of_it_can_be_had(tmp_path: Path, ending: str) -> None:
    archive = packed(tmp_path / f"set{ending}", FILES)
    assert (unpack(archive, tmp_path / "out", "set") / "deep" / "b.bin").read_bytes() == FILES["set/deep/b.bin"]
    with pytest.raises(UnderstudyError, match="holds no folder other"):
        unpack(archive, tmp_path / "out2", "other")
    assert not (tmp_path / "out2").exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_single_files_can_be_read_without_unpacking(tmp_path: Path, ending: str) -> None:
    archive = packed(tmp_path / f"set{ending}", FILES)
    assert read_members(archive, {"set/a.txt", "set/none"}) == {"set/a.txt": FILES["set/a.txt"]}
    assert list(tmp_path.iterdir()) == [archive]


def test_what_is_unpacked_already_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    unpack(packed(tmp_path / "set.tar", FILES), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".out.unpacking").mkdir()
    (tmp_path / ".out.unpacking" / "half").touch()
    out = unpack(packed(tmp_path / "set.tar", FILES), tmp_path / "out")
    assert [path.name for path in out.iterdir()] == ["set"]


@pytest.mark.parametrize("name", ["../evil", "set/../../evil", "/tmp/evil", "set\\..\\evil", "c:evil", "//host/evil"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_paths_that_lead_outside_are_refused(tmp_path: Path, ending: str, name: str) -> None:
    refuses(packed(tmp_path / f"set{ending}", FILES | {name: b"evil"}), "a path that leads outside")


@given(st.lists(st.sampled_from(["a", "..", ".", "", "/", "b c", "\\", "~"]), min_size=1, max_size=6))
def test_a_path_that_passes_stays_inside(parts: list[str]) -> None:
    try:
        path = path_inside(Path("x.tar"), "/".join(parts))
    except UnderstudyError:
        return
    assert os.path.commonpath(["/root/out", os.path.normpath(f"/root/out/{path}")]) == "/root/out"


@pytest.mark.parametrize(
    ("kind", "target"),
    [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.SYMTYPE, "a.txt"), (tarfile.LNKTYPE, "set/a.txt"),
     (tarfile.CHRTYPE, ""), (tarfile.BLKTYPE, ""), (tarfile.FIFOTYPE, "")],
)  # fmt: skip
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    (tmp_path / "set.tar").write_bytes(tar_bytes(*FILES.items(), special(kind, target=target)))
    refuses(tmp_path / "set.tar", "neither file nor folder")


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        link = zipfile.ZipInfo("set/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    refuses(tmp_path / "set.zip", "neither file nor folder")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_bomb_of_bytes_is_refused(tmp_path: Path, ending: str) -> None:
    archive = packed(tmp_path / f"set{ending}", {"set/a.txt": bytes(500_000), "set/b": bytes(500_001)})
    refuses(archive, "more bytes than allowed", Limits(max_bytes=1_000_000))
    unpack(archive, tmp_path / "out", limits=Limits(max_bytes=1_000_001))
    assert (tmp_path / "out" / "set" / "b").stat().st_size == 500_001


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_bomb_of_members_is_refused(tmp_path: Path, ending: str) -> None:
    archive = packed(tmp_path / f"set{ending}", {f"set/{i}": b"" for i in range(101)})
    refuses(archive, "more than the 100 members", Limits(max_members=100))
    unpack(archive, tmp_path / "out", limits=Limits(max_members=101))
    assert len(list((tmp_path / "out" / "set").iterdir())) == 101


def test_what_follows_the_end_is_counted_too(tmp_path: Path) -> None:
    (tmp_path / "set.tar.gz").write_bytes(gzip.compress(tar_bytes(("set/a.txt", b"a")) + bytes(4_000_000)))
    refuses(tmp_path / "set.tar.gz", "more bytes than allowed", Limits(max_bytes=1000, max_members=10))


def test_a_zip_that_understates_its_sizes_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "set.zip", {"set/a.txt": bytes(1_000_000)})
    lying = archive.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    archive.write_bytes(lying)
    refuses(archive, "truncated or damaged")


def test_a_tar_header_that_claims_gigabytes_is_not_believed(tmp_path: Path) -> None:
    header = special(tarfile.XHDTYPE, "set/pax")
    header.size = 1 << 33
    block = header.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "set.tar.gz").write_bytes(gzip.compress(block + bytes(1 << 21)))
    refuses(tmp_path / "set.tar.gz", "more bytes than allowed")


def test_a_sparse_member_is_refused(tmp_path: Path) -> None:
    # A hole of a terabyte takes no room in the archive and all of it on the disk.
    header = bytearray(special(tarfile.GNUTYPE_SPARSE, "set/hole").tobuf(tarfile.GNU_FORMAT))
    header[386:398], header[398:410], header[483:495] = b"00000000000\0", b"00000000000\0", b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "set.tar").write_bytes(bytes(header) + bytes(2 * TAR_HEADER_BYTES))
    refuses(tmp_path / "set.tar", "neither file nor folder")


@pytest.mark.parametrize("ending", [".tar", ".zip"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_given_twice_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"set{ending}"
    if ending == ".tar":
        path.write_bytes(tar_bytes(("set/a.txt", b"one"), ("set/./a.txt", b"two")))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("set/a.txt", "one")
            archive.writestr("set/a.txt", "two")
    refuses(path, "twice")


def test_a_truncated_archive_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole = {ending: packed(tmp_path / f"whole{ending}", FILES).read_bytes() for ending in ENDINGS}
    folder = tmp_path / "cut"
    folder.mkdir()
    for ending, content in whole.items():
        # A tar is padded with zeros: it is complete once its last member and one block of them are there.
        n = 512 * (1 + 10 + 1 + 2 + 1) if ending == ".tar" else len(content) - 1
        for length in {0, 1, 100, n // 3, n // 2, n // 2 // 512 * 512, max(n - 512, 0), n}:
            (folder / f"set{ending}").write_bytes(content[:length])
            refuses(folder / f"set{ending}", "truncated or damaged")
        (folder / f"set{ending}").unlink()


def test_a_flipped_byte_is_noticed(tmp_path: Path) -> None:
    for ending in (".tar.gz", ".zip"):
        path = packed(tmp_path / f"set{ending}", {"set/a.txt": os.urandom(5000)})
        content = bytearray(path.read_bytes())
        content[2500] ^= 1
        path.write_bytes(content)
        refuses(path, "truncated or damaged")


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    for name in ("set.tar", "set.tar.gz", "set.zip"):
        (tmp_path / name).write_bytes(b"<html>404</html>" * 100)
        refuses(tmp_path / name, "truncated or damaged")
    (tmp_path / "set.rar").touch()
    refuses(tmp_path / "set.rar", r"must end in \.tar")


def test_a_missing_archive_is_one_line(tmp_path: Path) -> None:
    refuses(tmp_path / "set.tar", "No such file")
