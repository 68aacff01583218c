"""`understudy embed` and `understudy encoders`, as a person meets them."""

import sys
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
    assert result.stdout.startswith("5 x 48 features in ")
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
def test_what_is_wrong_is_one_line_and_exit_code_1(
    photos: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["understudy", "embed", str(photos), *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(message)
    assert said.count("\n") == 1


def test_fail_ends_with_all_faults_named(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("cats/0000.png", "dogs/0012.png"):
        (photos / name).write_bytes(b"no image")
    monkeypatch.setattr(sys, "argv", ["understudy", "embed", str(photos), "--encoder", "pixels", "--on-error", "fail"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert said.startswith("understudy: 2 items cannot be used: ")
    assert "0000.png: no image format" in said
    assert "0012.png: no image format" in said
    assert not photos.with_name("photos.features").exists()


def test_an_encoder_must_be_named(photos: Path) -> None:
    assert runner.invoke(app, ["embed", str(photos)]).exit_code == 2
    assert runner.invoke(app, ["embed", str(photos), "--encoder", "pixels", "--batch-size", "0"]).exit_code == 2


def test_encoders_are_listed_with_what_they_need() -> None:
    result = runner.invoke(app, ["encoders"])
    assert result.exit_code == 0
    for word in ("resnet18", "timm:NAME", "python:FILE:NAME", "vision", "installed", "?OPTIONS"):
        assert word in result.stdout
