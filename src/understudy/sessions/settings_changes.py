"""Changing the settings of a project: the event that a change is, how people see them, and the command `settings`."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from understudy.data.columns import quote_names
from understudy.errors import Conflict
from understudy.learners.registry import FEATURE_LEARNERS, make_feature_learner
from understudy.messages import count_of
from understudy.projects.item_table import FILE as ITEMS_FILE
from understudy.projects.project_file import ProjectInfo, existing_folder, read_info, store_url_of
from understudy.projects.settings import (
    CHOICES,
    FIXED,
    FLAGS,
    MEANINGS,
    NAMES,
    NUMBER_RANGES,
    WHOLE_NUMBER_RANGES,
    Settings,
    as_typed,
    check_changes,
    read_changes,
)
from understudy.projects.shown_columns import check_columns
from understudy.sessions.audit import ROUNDING, more_audit_rows
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.record import Record
from understudy.sessions.replies import ProjectSettings, SettingShown

NO_COLUMNS: Final = "the data is not a table with other columns"


def settings_event(
    record: Record, changes: Mapping[str, Any], annotator: str | None = None, key: str | None = None
) -> Event | None:
    """The event that changes these settings; None where they are as asked for already.

    A higher audit share makes more audit items of the rows that never had a label; the earlier ones stay. A lower one
    only asks for them less often: what a model was not trained on may measure it at any time.
    """
    wanted: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in check_changes(changes).items()
    }
    before = record.settings.to_json()
    if all(before[name] == value for name, value in wanted.items()):
        return None
    rows: tuple[int, ...] = ()
    if wanted.get("audit_share", 0.0) > record.settings.audit_share:
        rows = _draw_audit_rows(record, wanted["audit_share"])
    return Event("settings_changed", None, annotator, key, {"settings": wanted, "audit": list(rows)})


def _draw_audit_rows(record: Record, share: float) -> tuple[int, ...]:
    """The rows that become audit items when the share is raised."""
    free = _never_labelled(record)
    of_source = sum(
        not record.is_audit(item) and all(mark.source == "import" for mark in marks.values())
        for item, marks in record.labels.items()
    )
    missing = ceil(share * (record.n_items - of_source) - ROUNDING) - len(record.audit_rows)
    return more_audit_rows(free, max(0, missing), record.settings.seed, len(record.audit_draws))


def _never_labelled(record: Record) -> list[int]:
    """The rows that may become audit items: no model was ever trained on them, and nobody is at them now."""
    had_label = {
        event.item
        for events in record.events_by_annotator.values()
        for event in events
        if event.kind in ("labelled", "relabelled")
    }
    out = {*had_label, *record.leases, *record.bad, *record.unknown}
    return [row for row in range(record.n_items) if row not in out and not record.is_audit(row)]


def describe_change(event: Event, before: Settings, record: Record) -> list[str]:
    """What a stored change means, in sentences; `before` are the settings until then, `record` is that after it."""
    changed = event.data["settings"]
    lines = []
    if "audit_share" in changed and changed["audit_share"] != before.audit_share:
        lines.append(_describe_audit(len(event.data["audit"]), changed["audit_share"], before.audit_share, record))
    if "learner" in changed and changed["learner"] != before.learner:
        lines.append(f"The next model is trained with {changed['learner']}; those before stay as they are.")
    if "show" in changed and tuple(changed["show"]) != before.show:
        lines.append(_describe_columns(changed["show"]))
    return lines


def _describe_columns(names: Sequence[str]) -> str:
    if not names:
        return "No columns are shown beside the items any more."
    return f"Beside each item {quote_names(names)} {'is' if len(names) == 1 else 'are'} shown, to people only."


def _describe_audit(added: int, share: float, before: float, record: Record) -> str:
    if share < before:
        return f"Audit items are asked for less often; the {len(record.audit_rows):,} that were drawn stay."
    wanted = ceil(share * record.n_items - ROUNDING)
    if not added:
        return f"No audit items were added: {count_of(record.audit_rows, 'item')} were drawn already."
    labelled = len(record.usable)
    line = f"{count_of(added, 'more audit item')}, a random sample of those that nobody has labelled"
    if labelled:
        line += f"; the {count_of(labelled, 'item')} that models learn from cannot measure them any more"
    if len(record.audit_rows) < wanted and not _never_labelled(record):
        line += ", so there are fewer than asked for"
    return f"{line}."


def show_settings(
    settings: Settings, notes: list[str] | None = None, columns: Sequence[str] | None = None
) -> ProjectSettings:
    """All settings, with what each means, what it may be, and why it stays if it does.

    `columns` are those that can be shown beside an item; None where that is not looked up.
    """
    values, defaults = settings.to_json(), Settings().to_json()
    shown = [
        SettingShown(
            name=name,
            value=values[name],
            default=defaults[name],
            meaning=MEANINGS[name],
            kind=_kind_of(name),
            least=_range_of(name)[0],
            most=_range_of(name)[1],
            choices=_choices_of(name) if name != "show" or columns is None else list(columns),
            fixed=NO_COLUMNS if name == "show" and columns is not None and not columns else FIXED.get(name),
        )
        for name in NAMES
    ]
    return ProjectSettings(shown, notes or [])


def _kind_of(name: str) -> str:
    if name in NUMBER_RANGES:
        return "number"
    if name in WHOLE_NUMBER_RANGES:
        return "whole number"
    if name == "show":
        return "columns"
    return "flag" if name in FLAGS else "choice" if _choices_of(name) else "text"


def _choices_of(name: str) -> list[str] | None:
    return list(FEATURE_LEARNERS if name == "learner" else CHOICES.get(name, ())) or None


def _range_of(name: str) -> tuple[float | None, float | None]:
    return NUMBER_RANGES.get(name) or WHOLE_NUMBER_RANGES.get(name) or (None, None)


# -- of a project that nobody serves ---------------------------------------------------------------------------


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
        make_feature_learner(changes["learner"])  # one that cannot be used would only fail at the next training
    folder = existing_folder(source)
    info = read_info(folder)
    check_columns(info.origin, folder, changes.get("show", ()))
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
    return f"{value:g}" if isinstance(value, float) else as_typed(value)
