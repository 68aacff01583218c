"""Data sets by name: where they are looked for, what is said of a missing one, how one is fetched."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.official import cifar10, cifar100, pack_cifar, packed, tiny_imagenet, write
from tests.data.serving import Server, offer, only_our_own, serving
from understudy.data.archives import Limits
from understudy.data.datasets import DATASETS, NAMES, fetch, find, load_named, status
from understudy.data.datasets.registry import home_of
from understudy.data.datasets.source import DatasetSource
from understudy.errors import UnderstudyError


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_our_own(tmp_path / "home", monkeypatch)


TRAPS = ("honeypot", "diverging_sine")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def test_the_names_are_those_of_the_paper_and_of_two_traps() -> None:
    paper = ("digits", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet", "caltech256")
    assert (*paper, *TRAPS) == NAMES
    assert all(source.name == name for name, source in DATASETS.items())


def test_digits_and_what_is_drawn_from_a_seed_are_always_here() -> None:
    assert {entry.source.name for entry in status() if entry.found} == {"digits", *TRAPS}


@pytest.mark.parametrize("name", [name for name in NAMES if DATASETS[name].files])
def test_a_missing_set_is_one_line_with_files_place_and_command(name: str) -> None:
    with pytest.raises(UnderstudyError) as missing:
        load_named(name)
    message = str(missing.value)
    assert "\n" not in message
    assert all(file.name in message for file in DATASETS[name].files)
    assert str(home_of(name)) in message
    assert message.endswith(f"understudy datasets --get {name}")


def test_a_missing_set_in_a_given_folder_names_that_folder(tmp_path: Path) -> None:
    write(home_of("cifar10"), cifar10("binary"))
    with pytest.raises(UnderstudyError, match=f"put cifar-10-binary.tar.gz into {tmp_path / 'empty'}"):
        load_named("cifar10", folder=tmp_path / "empty")


@pytest.mark.parametrize("name", ["CIFAR10", "imagenet", ""])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    for call in (load_named, find, fetch):
        with pytest.raises(UnderstudyError, match=f"no data set is called '{name}'; there are digits, fashion_mnist"):
            call(name)


def test_on_error_is_skip_or_fail() -> None:
    with pytest.raises(UnderstudyError, match="on_error must be 'skip' or 'fail'"):
        load_named("digits", on_error="ignore")


@pytest.mark.parametrize("inner", ["", "cifar10"])
def test_a_folder_of_ones_own_comes_before_the_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    write(home_of("cifar10"), cifar10("binary"))
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path / "own"))
    assert find("cifar10") == home_of("cifar10") / "cifar-10-batches-bin"
    (tmp_path / "own" / inner).mkdir(parents=True)
    archive = pack_cifar(tmp_path / "own" / inner, "cifar10", "python", cifar10("python"))
    assert find("cifar10") == archive


def test_a_system_folder_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = write(tmp_path / "system", cifar10("python"))
    monkeypatch.setitem(DATASETS, "cifar10", replace(DATASETS["cifar10"], also_in=(system,)))
    assert find("cifar10") == system / "cifar-10-batches-py"
    write(home_of("cifar10"), cifar10("python"))
    assert find("cifar10") == home_of("cifar10") / "cifar-10-batches-py"


def test_what_is_fetched_is_what_is_loaded(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, "cifar10", pack_cifar(tmp_path, "cifar10", "binary", cifar10("binary")).read_bytes())
    fetched = fetch("cifar10", progress=False)
    assert fetched == find("cifar10") == home_of("cifar10") / "cifar-10-binary.tar.gz"
    assert len(load_named("cifar10").pool) == 15
    assert fetch("cifar10") == fetched
    assert len(server.asked) == 1


def test_a_damaged_download_is_fetched_again(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, "cifar10", pack_cifar(tmp_path, "cifar10", "binary", cifar10("binary")).read_bytes())
    home_of("cifar10").mkdir(parents=True)
    (home_of("cifar10") / "cifar-10-binary.tar.gz").write_bytes(b"<html>busy</html>")
    with pytest.raises(UnderstudyError, match="truncated or damaged"):
        load_named("cifar10")
    fetch("cifar10", progress=False)
    assert len(load_named("cifar10").pool) == 15


def test_what_one_keeps_oneself_is_not_fetched(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, "cifar10", b"")
    write(home_of("cifar10"), cifar10("python"))
    assert fetch("cifar10") == home_of("cifar10") / "cifar-10-batches-py"
    assert not server.asked


def test_it_is_fetched_to_where_one_says(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, "cifar10", pack_cifar(tmp_path, "cifar10", "binary", cifar10("binary")).read_bytes())
    fetch("cifar10", folder=tmp_path / "mine", progress=False)
    assert len(load_named("cifar10", folder=tmp_path / "mine").pool) == 15
    assert find("cifar10") is None


def test_an_archive_of_images_is_unpacked_and_then_removed(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"tiny-imagenet-200/{name}": content for name, content in tiny_imagenet().items()}
    offer(server, monkeypatch, "tiny_imagenet", packed(tmp_path / "tiny.zip", files).read_bytes())
    assert fetch("tiny_imagenet", progress=False) == home_of("tiny_imagenet") / "tiny-imagenet-200"
    assert not (home_of("tiny_imagenet") / "tiny-imagenet-200.zip").exists()
    assert len(load_named("tiny_imagenet").pool) == 12


def test_an_archive_that_is_not_the_official_one_is_used_and_noted(tmp_path: Path) -> None:
    files = {f"tiny-imagenet-200/{name}": content for name, content in tiny_imagenet().items()}
    packed(tmp_path / "tiny-imagenet-200.zip", files)
    for _ in range(2):  # unpacked, then from the folder
        data = load_named("tiny_imagenet", folder=tmp_path, on_error="fail")
        assert [str(note) for note in data.pool.faults if note.item.endswith(".zip")] == [
            "tiny-imagenet-200.zip: not the official content; used all the same; download it again if that is not meant"
        ]
        assert len(data.pool) == 12


def test_the_official_archive_has_no_such_note(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"tiny-imagenet-200/{name}": content for name, content in tiny_imagenet().items()}
    offer(server, monkeypatch, "tiny_imagenet", packed(tmp_path / "tiny.zip", files).read_bytes())
    fetch("tiny_imagenet", progress=False)
    assert not any(note.item.endswith(".zip") for note in load_named("tiny_imagenet").pool.faults)


def test_a_wrong_checksum_leaves_nothing_to_load(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(server, monkeypatch, "cifar10", pack_cifar(tmp_path, "cifar10", "binary", cifar10("binary")).read_bytes())
    server.content = server.content[::-1]
    with pytest.raises(UnderstudyError, match="was expected, and was removed"):
        fetch("cifar10", progress=False)
    assert find("cifar10") is None


def test_a_set_of_another_size_is_noted(tmp_path: Path) -> None:
    data = load_named("cifar100", folder=write(tmp_path, cifar100("binary")), on_error="fail")
    assert data.test is not None
    assert [str(note) for pool in (data.pool, data.test) for note in pool.faults] == [
        "cifar100: 3 items where the official set has 50,000; used all the same",
        "cifar100, test: 3 items where the official set has 10,000; used all the same",
    ]


def test_the_documentation_has_the_sizes_and_limits_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for name, source in DATASETS.items():
        assert f"| `{name}` | {source.n_pool:,} | {source.n_test:,} | {source.n_classes} |" in page
        assert all(f"`{file.name}`" in page for file in source.files if len(source.files) == 1)
        if source.files and source.limits != Limits():
            size = f"{source.limits.max_bytes >> 20} MiB".replace("1024 MiB", "1 GiB").replace("4096 MiB", "4 GiB")
            assert re.search(rf"`{name}`.* \| {size} \| {source.limits.max_members:,} \|", page)


@pytest.mark.parametrize("source", [source for source in DATASETS.values() if source.files], ids=lambda s: s.name)
def test_official_files_have_addresses_and_sums(source: DatasetSource) -> None:
    for file in source.files:
        assert file.url.startswith("http")
        assert file.url.endswith(file.name)
        assert len(file.checksum) == len("md5:") + 32
