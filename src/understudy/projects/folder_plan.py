"""What a project begins with after a choice about the folders of its data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.errors import UsageError
from understudy.projects.item_table import match_items
from understudy.projects.project_file import ProjectInfo
from understudy.projects.settings import Settings
from understudy.projects.source_data import SourceData, initial_classes, labels_of


@dataclass(frozen=True)
class FolderPlan:
    """What a project begins with after a choice about folders; `labels` are those of the source, by row."""

    settings: Settings
    import_labels: bool
    from_source: bool
    labels: Mapping[int, str]

    @property
    def known_labels(self) -> dict[int, str]:
        """The labels of classes that the project begins with."""
        return {row: name.strip() for row, name in self.labels.items() if name.strip() in self.settings.classes}


def plan_folders(source: SourceData | None, info: ProjectInfo, table: Any, labels: bool) -> FolderPlan:
    """What a project with these items would begin with if the labels of its source were taken over, or none of them."""
    if source is None:
        raise UsageError(f"{info.origin} is not there now; put it back to take its folders for classes or not")
    given = info.settings.classes if info.classes_from == "given" and info.settings.classes else None
    classes = initial_classes(source, given, labels)
    known = match_items(table, source.pool)[0] if classes.import_labels else {}
    rows, names = labels_of(source.pool), source.pool.classes
    found = {row: names[rows[place]] for row, place in known.items() if rows[place] >= 0}
    settings = Settings.from_json({**info.settings.to_json(), "classes": classes.names})
    return FolderPlan(settings, classes.import_labels, classes.from_source, found)
