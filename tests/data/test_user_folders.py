"""Everything that can be had again lies in one folder, and one variable moves it."""

from pathlib import Path

import pytest
from platformdirs import user_cache_path

from understudy.data import user_folders


def test_a_variable_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path))
    assert user_folders.cache_folder() == tmp_path
    assert user_folders.datasets_folder() == tmp_path / "datasets"
    assert user_folders.features_folder() == tmp_path / "features"


def test_the_variable_may_begin_at_ones_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("UNDERSTUDY_HOME", "~/pools")
    assert user_folders.cache_folder() == tmp_path / "pools"


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_the_system_says(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("UNDERSTUDY_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("UNDERSTUDY_HOME", value)
    assert user_folders.cache_folder() == user_cache_path("understudy")


def test_asking_creates_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "new"))
    user_folders.datasets_folder()
    assert not (tmp_path / "new").exists()
