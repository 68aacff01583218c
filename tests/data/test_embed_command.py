"""`understudy embed` and `understudy encoders`, as a person meets them."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.data.image_pools import by_hand, images
from understudy.cli import app, main
from understudy.data.features import open_features

runner = CliRunner()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    images(tmp_path / "photos" / "cats", 3)
    images(tmp_path / "photos" / "dogs", 3, first=10)
    return tmp_path / "photos"


def test_a_folder_is_embedded_beside_itself(photos: Path) -> None:
    (photos / "dogs" / "0011.png").write_bytes(b"")
    result = runner.invoke(app, ["embed", str(photos), "--encoder", "pixels?size=4"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("pool: 5 x 48 features in ")
    assert "5 computed, 0 from the cache" in result.stdout
    assert "1 item left out: " in result.stdout
    assert "0011.png: the file is empty; copy it again or remove it" in result.stdout
    out = photos.with_name("photos.features")
    assert f"written: {out}\n" in result.stdout
    pool = open_features(out)
    assert pool.classes == ("cats", "dogs")
    assert pool.labels is not None
    assert pool.labels.tolist() == [0, 0, 0, 1, 1]
    assert pool.features is not None
    paths = [photos / "cats" / f"000{i}.png" for i in range(3)]
    np.testing.assert_array_equal(pool.features[:3], by_hand(paths))


def test_the_second_time_everything_comes_from_the_cache(photos: Path, tmp_path: Path) -> None:
    command = ["embed", str(photos), "--encoder", "pixels", "--out", str(tmp_path / "out"), "--batch-size", "2"]
    assert "6 computed, 0 from the cache" in runner.invoke(app, [*command, "--workers", "1"]).stdout
    assert "0 computed, 6 from the cache" in runner.invoke(app, [*command, "--device", "cpu"]).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoder", "resnet19"], "understudy: there is no encoder 'resnet19'; write one of"),
        (["--encoder", "pixels", "--on-error", "cry"], "understudy: on_error must be 'skip' or 'fail'; got 'cry'"),
        (["--encoder", "pixels", "--device", "tpu"], "understudy: device must be auto, cpu or cuda; got 'tpu'"),
        (["--encoder", "pixels@w.pt"], "understudy: pixels takes no weights"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    photos: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["embed", str(photos), *options])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(message)
    assert said.count("\n") == 1


def test_fail_ends_with_all_faults_named(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cats/0000.png", "dogs/0012.png"):
        (photos / name).write_bytes(b"no image")
    with pytest.raises(SystemExit):
        main(["embed", str(photos), "--encoder", "pixels", "--on-error", "fail"])
    said = capsys.readouterr().err
    assert said.startswith("understudy: 2 items cannot be used:\n  ")
    assert "0000.png: none of the image formats" in said
    assert "0012.png: none of the image formats" in said
    assert not photos.with_name("photos.features").exists()


def test_fail_names_the_faults_of_the_source_with_those_of_its_images(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "cats" / "0000.png").write_bytes(b"no image")
    (photos / "dogs" / "0012.png").write_bytes(b"")
    lines = "path,split\ncats/0000.png,\ncats/0001.png,\ngone.png,\ndogs/0011.png,test\ndogs/0012.png,test\n"
    (photos / "list.csv").write_text(lines)
    said = refused(capsys, str(photos / "list.csv"), "--encoder", "pixels", "--on-error", "fail")
    assert said.startswith("understudy: 3 items cannot be used:\n  line 4: there is no file gone.png")
    assert "cats/0000.png: none of the image formats" in said
    assert "dogs/0012.png: the file is empty" in said


def test_places_that_cannot_be_written_to_are_one_line(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    command = [str(photos), "--encoder", "pixels"]
    for out, reason, code in (
        ("file", "file is a file; features need", 2),
        ("file/out", "file/out: Not a directory; check", 1),
    ):
        said = refused(capsys, *command, "--out", str(tmp_path / out), code=code)
        assert reason in said
        assert said.count("\n") == 1
    said = refused(capsys, *command, "--out", str(photos / "new"), code=2)
    assert "one lies in the other" in said
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "file"))
    said = refused(capsys, *command)
    assert said.startswith(f"understudy: {tmp_path / 'file'}")
    assert said.endswith(": Not a directory; check the path, its permissions and the disk\n")
    assert said.count("\n") == 1


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    """What the command says on standard error; it ends with this exit code."""
    with pytest.raises(SystemExit) as stopped:
        main(["embed", *arguments])
    assert stopped.value.code == code
    return capsys.readouterr().err


def test_what_a_source_needs_to_be_read_can_be_said(photos: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"photos/cats/000{i}.png,{topic}" for i, topic in enumerate(("good", "bad", "ugly")))
    (tmp_path / "list.csv").write_text(f"photo,topic\n{rows}\n")
    out = ["--encoder", "pixels?size=4", "--out", str(tmp_path / "out")]
    named = ["--columns", "path=photo,label=topic", "--classes", "good, bad"]
    result = runner.invoke(app, ["embed", str(tmp_path / "list.csv"), *named, *out])
    assert result.exit_code == 0, result.output
    assert "1 item left out: line 4: the label 'ugly' is not a known class; use one of good, bad" in result.stdout
    assert open_features(tmp_path / "out").classes == ("good", "bad")
    assert runner.invoke(app, ["embed", str(photos), "--no-folder-labels", *out]).exit_code == 0
    assert open_features(tmp_path / "out").labels is None


def test_pool_and_test_set_are_told_apart(tmp_path: Path) -> None:
    images(tmp_path / "set" / "train", 3)
    images(tmp_path / "set" / "test", 2, first=10)
    result = runner.invoke(app, ["embed", str(tmp_path / "set"), "--encoder", "pixels"])
    assert [line.partition(" features")[0] for line in result.stdout.splitlines()[::2]] == [
        "pool: 3 x 3072", "test: 2 x 3072",
    ]  # fmt: skip


def test_an_encoder_must_be_named(photos: Path) -> None:
    assert runner.invoke(app, ["embed", str(photos)]).exit_code == 2
    assert runner.invoke(app, ["embed", str(photos), "--encoder", "pixels", "--batch-size", "0"]).exit_code == 2


def test_encoders_are_listed_with_what_they_need() -> None:
    result = runner.invoke(app, ["encoders"])
    assert result.exit_code == 0
    for word in ("resnet18", "timm:NAME", "python:FILE:NAME", "vision", "works", "?OPTIONS"):
        assert word in result.stdout
