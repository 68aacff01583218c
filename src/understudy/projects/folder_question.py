"""Whether the folders that items lie in are classes: what they look like, so that people can decide."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from understudy.messages import count_of, list_some
from understudy.projects.source_data import SourceData, labels_of

NAMES_SHOWN: Final = 8
SHARE_ALIKE: Final = 0.8  # of the names, from which all are said to be of one kind
MAX_NUMBERED_CLASSES: Final = 20  # more folders that are called by numbers are hardly classes
MAX_CLASS_FOLDERS: Final = 200  # the same, whatever they are called
FEW_IN_A_FOLDER: Final = 2.0  # items in the mean, up to which a folder is rather one thing than a class
_SEPARATOR: Final = r"[-_. ]?"
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATES: Final = re.compile(
    rf"(?:(?:19|20)\d\d{_SEPARATOR}(?:0?[1-9]|1[0-2]){_SEPARATOR}(?:[0-3]?\d)?(?:\D.*)?"  # 2024-01-31, 20240131 Beach
    r"|(?:19|20)\d\d(?:[-_ ]+\D.*)?"  # 2024, 2024 Holidays
    rf"|[0-3]?\d[-_. ][01]?\d[-_. ](?:19|20)?\d\d(?:\D.*)?"  # 31.01.2024
    rf"|{_MONTH}(?:{_SEPARATOR}(?:19|20)?\d\d)?|(?:19|20)\d\d{_SEPARATOR}{_MONTH})",  # January 2024
    re.IGNORECASE,
)
_CAMERA: Final = re.compile(r"\d{3}[A-Z_][A-Z0-9_]{2,}|DCIM", re.IGNORECASE)  # 100CANON


@dataclass(frozen=True)
class FolderQuestion:
    """Folders that may be classes. `looks` says what they look like where they hardly are; `line` is for people."""

    folders: int
    names: tuple[str, ...]  # the first of them
    items: int  # in these folders
    loose: int  # beside them
    looks: str | None
    line: str

    @property
    def are_likely_classes(self) -> bool:
        return self.looks is None


def folder_question(source: SourceData, given: Sequence[str] | None = None) -> FolderQuestion | None:
    """What there is to decide, or None: no folders, only one, or none that is called like one of the classes given."""
    if not source.is_folder:
        return None
    counts = Counter(label for label in labels_of(source.pool) if label >= 0)
    sizes = {source.pool.classes[label]: counts[label] for label in sorted(counts)}
    if given is None and len(sizes) < 2:
        return None
    if given is not None and not {name.strip() for name in sizes} & set(given):
        return None
    items, looks = sum(sizes.values()), _describe_looks(sizes)
    found = f"{count_of(sizes, 'folder')} with {count_of(items, source.kind)}: {list_some(sizes, NAMES_SHOWN)}"
    return FolderQuestion(
        folders=len(sizes),
        names=tuple(sizes)[:NAMES_SHOWN],
        items=items,
        loose=len(source.pool) - items,
        looks=looks,
        line=f"{found} ({looks})" if looks else found,
    )


def describe_choice(question: FolderQuestion, labels: bool) -> str:
    """What the folders are taken for, and how to change that."""
    taken = "classes; what lies in them is labelled by them" if labels else "folders; nothing is labelled by them"
    other = "--no-folder-labels" if labels else "--folder-labels"
    return f"{question.line}. They are taken for {taken} (while nobody has labelled, {other} changes that)"


def _describe_looks(sizes: Mapping[str, int]) -> str | None:
    """Why these folders are hardly classes; None where they may well be."""
    names = list(sizes)
    if _are_mostly(_DATES, names):
        return "they look like dates"
    if _are_mostly(_CAMERA, names):
        return "they look like those of a camera"
    if len(names) > MAX_NUMBERED_CLASSES and all(name.strip().isdigit() for name in names):
        return "their names are numbers"
    mean = sum(sizes.values()) / len(sizes)
    if mean <= FEW_IN_A_FOLDER:
        return f"{mean:.1f} items a folder: rather one folder an item"
    if len(names) > MAX_CLASS_FOLDERS:
        return "many for classes"
    return None


def _are_mostly(pattern: re.Pattern[str], names: Sequence[str]) -> bool:
    return sum(pattern.fullmatch(name.strip()) is not None for name in names) >= SHARE_ALIKE * len(names)
