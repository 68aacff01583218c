"""The settings of a project that nobody serves: read from its log, and changed there."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from understudy.errors import Conflict
from understudy.learners.registry import make_learner
from understudy.projects.item_table import FILE as ITEMS_FILE
from understudy.projects.project_file import ProjectInfo, existing_folder, read_info, store_url_of
from understudy.projects.settings import Settings, check_changes, read_changes
from understudy.sessions.log.log import EventLog
from understudy.sessions.record import Record
from understudy.sessions.replies import ProjectSettings, SettingShown
from understudy.sessions.settings_changes import describe_change, settings_event, show_settings


def list_settings(source: str, *, store: str | None = None) -> ProjectSettings:
    """The settings of a project, also while people label."""
    folder = existing_folder(source)
    info = read_info(folder)
    url = store_url_of(folder, info.store, store)
    if not _is_begun(folder):
        return show_settings(info.settings)
    with closing(EventLog.open(url, info.identity, read_only=True)) as log:
        record = Record.from_events(log.read())
    return show_settings(record.settings if record.seq else info.settings)


def change_settings(source: str, words: Sequence[str], *, store: str | None = None) -> ProjectSettings:
    """Change settings of a project, given as `name=value`; the settings then, and what the change means."""
    changes = read_changes(words)
    if "learner" in changes:
        make_learner(changes["learner"])  # an unknown one would only fail at the next training
    folder = existing_folder(source)
    info = read_info(folder)
    url = store_url_of(folder, info.store, store)
    if not _is_begun(folder):
        return _rewrite(folder, info, changes)
    with closing(EventLog.open(url, info.identity)) as log:
        try:
            log.lock()
        except Conflict as error:
            raise Conflict(f"{error}. Its page changes settings too") from error
        record = Record.from_events(log.read())
        if not record.seq:  # killed before the first event, which takes them from the file
            return _rewrite(folder, info, changes)
        before, event = record.settings, settings_event(record, changes)
        if event is None:
            return show_settings(before, ["Nothing to change: the project has these settings already."])
        [stored] = log.append(event)
        record.apply(stored)
    replace(info, settings=record.settings).write(folder)
    return show_settings(record.settings, describe_change(stored, before, record))


def _is_begun(folder: Path) -> bool:
    """Whether the project has items, and with them a log."""
    return (folder / ITEMS_FILE).exists()


def _rewrite(folder: Path, info: ProjectInfo, changes: dict[str, Any]) -> ProjectSettings:
    """Change the settings with which a project will begin."""
    settings = Settings.from_json({**info.settings.to_json(), **check_changes(changes)})
    replace(info, settings=settings).write(folder)
    return show_settings(settings)


def settings_table(settings: Sequence[SettingShown]) -> Table:
    """A line for each setting."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("setting", "value", "default"):
        shown.add_column(title, no_wrap=True)
    shown.add_column("meaning")
    for setting in settings:
        if setting.name == "classes":
            continue  # more may have been added since
        meaning = setting.meaning if setting.fixed is None else f"{setting.meaning} (stays: {setting.fixed})"
        shown.add_row(setting.name, _as_text(setting.value), _as_text(setting.default), meaning)
    return shown


def _as_text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
