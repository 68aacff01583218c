"""A project of a source, made if there is none yet; or the project in a folder, if nothing contradicts it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from understudy.data.class_names import check_classes
from understudy.data.encoders.spec import check_device
from understudy.data.features import errors_in_one_line
from understudy.data.items import make_printable
from understudy.errors import Conflict, NotFound, UnderstudyError, UsageError
from understudy.projects import item_table
from understudy.projects.folder_question import FolderQuestion, describe_choice, folder_question
from understudy.projects.item_features import encoder_for
from understudy.projects.project import Project
from understudy.projects.project_file import (
    ProjectInfo,
    SourceLocation,
    folder_for,
    is_dataset_name,
    is_project,
    name_of,
    read_info,
    require_room,
    store_url_of,
)
from understudy.projects.settings import FIXED, Settings, as_typed, check_settings
from understudy.projects.shown_columns import check_columns
from understudy.projects.source_data import (
    SourceData,
    initial_classes,
    open_source,
    read_classes_file,
    reopen_source,
    source_classes,
)
from understudy.store_urls import kept_url

DEMO_DATASET: Final = "digits"

CheckBegin = Callable[["ProjectBegin"], None]  # raises where the project cannot begin
AskFolders = Callable[[FolderQuestion], bool | None]  # whether folders are classes; None: not decided


@dataclass(frozen=True)
class ProjectBegin:
    """A project that is about to be made: nothing is written yet. `store` is the URL of its log, if one was given."""

    store: str | None
    identity: str
    ids: Sequence[str]
    classes: Sequence[str]


@dataclass(frozen=True)
class _Request:
    """What the caller of `create_or_open` asked for; None where nothing was given."""

    classes: tuple[str, ...] | None
    encoder: str | None
    store: str | None
    columns: dict[str, str] | None
    folder_labels: bool | None
    ask_folders: AskFolders | None
    check_begin: CheckBegin | None
    is_demo: bool
    device: str
    settings: Mapping[str, Any]


def create_or_open(
    source: str | Path | None = None,
    *,
    project: Path | None = None,
    classes: Sequence[str] | None = None,
    classes_file: Path | None = None,
    encoder: str | None = None,
    store: str | None = None,
    demo: bool = False,
    columns: Mapping[str, str] | None = None,
    folder_labels: bool | None = None,
    ask_folders: AskFolders | None = None,
    check_begin: CheckBegin | None = None,
    device: str = "auto",
    **overrides: Any,
) -> Project:
    """The project of a source, made if there is none yet; or the project in a folder.

    `overrides` are settings by name; None means that one was not given. `folder_labels=False` imports no labels from
    the source: folders are not classes then, and of a label column only the classes are taken. Without it, a new
    project asks `ask_folders` about folders that may be classes; its None leaves that open, and nothing is imported
    until it is decided. Where nobody can be asked, they are imported. `check_begin` is called before anything of
    a new project is written, and ends it by what it raises. What contradicts a project that exists is a UsageError.
    """
    request = _Request(
        classes=_given_classes(classes, classes_file),
        encoder=encoder,
        store=store,
        columns=None if columns is None else dict(columns),
        folder_labels=folder_labels,
        ask_folders=ask_folders,
        check_begin=check_begin,
        is_demo=demo,
        device=device,
        settings=check_settings({name: value for name, value in overrides.items() if value is not None}),
    )
    if demo and source is not None:
        raise UsageError(f"the demo brings its own data; leave out {source} or --demo")
    source = DEMO_DATASET if demo else source
    with errors_in_one_line():
        folder = folder_for(source, project, demo=demo)
        if is_project(folder):
            return _reopen(folder, None if _is_project_itself(source, folder) else source, request)
        if source is None:
            raise UsageError(f"{folder} is not a project; give the data to label as well, or a project's folder")
        if not is_dataset_name(source) and is_project(Path(source).expanduser()):
            raise UsageError(f"{source} is a project already; give it alone, without --project")
        return _create(folder, source, request)


def look_again(project: Project) -> Project:
    """The same project as its folder and its data are now; an error where its data cannot be read.

    For whoever serves it: what `project` has stays as it is until it adopts this one.
    """
    with errors_in_one_line():
        source = reopen_source(project.info.origin, project.folder)
        if source is None:
            raise NotFound(f"{project.info.origin.title} is not there")
        _require_same_kind(project.info, source)
        new_classes = _find_new_classes(source, project.info, ())
        return Project(
            project.folder, project.info, source, project.store_url, new_classes=new_classes, device=project.device
        )


def _create(folder: Path, data: str | Path, request: _Request) -> Project:
    """A new project. Everything given is checked before anything is written."""
    path = None if is_dataset_name(data) else Path(data).expanduser()
    require_room(folder, path)
    source = open_source(data, request.columns)
    if source.is_folder and request.columns is not None:
        raise UsageError(f"{data} is a folder of images, which has no columns; leave out --columns")
    choice, folder_notes = _choose_folder_labels(source, request)
    classes = initial_classes(source, request.classes, choice is True)
    encoder = None
    if request.encoder is not None:
        source.require_items()
        encoder = encoder_for(request.encoder, source.kind, request.device)
    if path is None:
        origin = SourceLocation(name=str(data), columns=request.columns)
    else:
        origin = SourceLocation.of_path(path, folder, request.columns)
    check_columns(origin, folder, request.settings.get("show", ()))
    info = ProjectInfo(
        name=make_printable(name_of(folder)),
        kind=source.kind,
        origin=origin,
        settings=Settings(**{**request.settings, "classes": classes.names}),
        encoder=request.encoder,
        own_features=source.pool.features is not None and request.encoder is None,
        made_by=source.made_by,
        import_labels=classes.import_labels,
        folders_decided=choice is not None,
        classes_from="source" if classes.from_source else "given",
        store=None if request.store is None else kept_url(request.store),
    )
    store_url = store_url_of(folder, info.store, request.store)
    check_device(request.device)
    if request.check_begin is not None:
        given = None if request.store is None else store_url
        request.check_begin(ProjectBegin(given, info.identity, source.pool.ids, classes.names))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        info.write(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{folder} cannot be written ({reason}); give another place with --project") from error
    return Project(
        folder,
        info,
        source,
        store_url,
        notes=(*source.notes, *classes.notes, *folder_notes),
        device=request.device,
        encoder=encoder,
        is_draft=True,
    )


def _choose_folder_labels(source: SourceData, request: _Request) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the labels of the source are taken over, None where that is still open, and a note on it."""
    if request.is_demo:
        return False, ()
    question = folder_question(source, request.classes)
    choice = request.folder_labels
    if choice is None and question is not None and request.ask_folders is not None:
        choice = request.ask_folders(question)
        if choice is None:
            return None, ()
    return choice is not False, () if question is None else (describe_choice(question, choice is not False),)


def _reopen(folder: Path, data: str | Path | None, request: _Request) -> Project:
    """The project in a folder, if what is asked for does not contradict it."""
    info = read_info(folder)
    store_url = store_url_of(folder, info.store, request.store)
    is_begun = (folder / item_table.FILE).exists()
    if is_begun:
        _require_same(folder, info, request)
    if request.columns is not None and request.columns != info.origin.columns:
        columns = info.origin.columns or "that have the usual names"
        raise UsageError(f"{folder} was made with the columns {columns}; leave out --columns")
    info = _follow_data(folder, info, data)
    source, notes = _find_source(folder, info)
    if not is_begun and source is not None:
        info = _redraft(folder, info, source, request)
        info.write(folder)
    choice = request.folder_labels if is_begun and not request.is_demo else None
    if choice == info.import_labels and info.folders_decided:
        choice = None
    return Project(
        folder,
        info,
        source,
        store_url,
        new_classes=_find_new_classes(source, info, request.classes or ()),
        notes=notes,
        device=request.device,
        folder_choice=choice,
    )


def _redraft(folder: Path, info: ProjectInfo, source: SourceData, request: _Request) -> ProjectInfo:
    """The project with what is asked for now: nothing was labelled yet, so nothing is lost."""
    if request.encoder is not None:
        source.require_items()
        encoder_for(request.encoder, source.kind, request.device)  # an error if it does not fit
        info = replace(info, encoder=request.encoder, own_features=False)
    before = info.settings.classes if info.classes_from == "given" else None
    given = before if request.classes is None else request.classes
    if request.folder_labels is not None and not request.is_demo:
        info = replace(info, import_labels=request.folder_labels, folders_decided=True)
    classes = initial_classes(source, given or None, info.import_labels)
    check_columns(info.origin, folder, request.settings.get("show", ()))
    settings = Settings.from_json({**info.settings.to_json(), **request.settings, "classes": classes.names})
    return replace(
        info,
        settings=settings,
        import_labels=classes.import_labels,
        classes_from="source" if classes.from_source else "given",
    )


def _require_same(folder: Path, info: ProjectInfo, request: _Request) -> None:
    """An error where something else is asked for than the project has."""
    missing = [name for name in info.settings.classes if request.classes is not None and name not in request.classes]
    if missing:
        raise UsageError(f"{folder} has the class {missing[0]}, which stays; name all its classes, or none")
    before = "the features that its data brought" if info.own_features else info.encoder
    if request.encoder is not None and request.encoder != before:
        raise UsageError(
            f"{folder} was made with {before}; to change it: understudy encoder {folder} '{request.encoder}'"
        )
    for name, value in request.settings.items():
        stays = getattr(info.settings, name)
        if value != stays:
            before = "the method's own" if stays is None else as_typed(stays)
            raise UsageError(f"{folder} has {name} = {before}; {_how_to_change(folder, name, value)}")


def _how_to_change(folder: Path, name: str, value: object) -> str:
    """What to do where a project has another value of a setting than the one asked for."""
    if name in FIXED:
        return f"this stays: {FIXED[name]}"
    return f"change it with: understudy settings {folder} {name}={as_typed(value)}"


def _find_source(folder: Path, info: ProjectInfo) -> tuple[SourceData | None, tuple[str, ...]]:
    """The project's data with its notes; or None and a note, since labels can be read and exported without it."""
    reason = ""
    try:
        source = reopen_source(info.origin, folder)
    except UnderstudyError as error:
        source, reason = None, f" ({' '.join(str(error).split())})"
    if source is None:
        return None, (f"{info.origin} cannot be read{reason}: new items are not looked for, and images may be missing",)
    _require_same_kind(info, source)
    return source, source.notes


def _require_same_kind(info: ProjectInfo, source: SourceData) -> None:
    """An error where the data is not what the project was made of."""
    if source.kind != info.kind:
        raise Conflict(f"{info.origin} holds {source.kind}s now, the project {info.kind}s; put its data back")
    if info.own_features and source.pool.features is None:
        raise Conflict(f"{info.origin} has no features any more, and the project uses them; put its data back")


def _follow_data(folder: Path, info: ProjectInfo, data: str | Path | None) -> ProjectInfo:
    """The project with its data at the path given now, if it was moved there; an error if it is other data."""
    origin = info.origin
    if data is None or (origin.name is not None and str(data) == origin.name):
        return info
    if origin.name is None and not is_dataset_name(data):
        path, known = Path(data).expanduser(), origin.find(folder)
        if known is not None and path.exists() and known.resolve() == path.resolve():
            return info
        if known is None and path.exists():
            info = replace(info, origin=SourceLocation.of_path(path, folder, origin.columns))
            info.write(folder)
            return info
    raise UsageError(f"{folder} is the project of {origin}, not of {data}; give another --project")


def _is_project_itself(source: str | Path | None, folder: Path) -> bool:
    """Whether the source is the project's folder itself, or none was given."""
    if source is None or is_dataset_name(source):
        return source is None
    path = Path(source).expanduser()
    return is_project(path) and path.resolve() == folder.resolve()


def _given_classes(classes: Sequence[str] | None, file: Path | None) -> tuple[str, ...] | None:
    if classes is not None and file is not None:
        raise UsageError("classes are given by name or in a file, not both; leave out one")
    if file is not None:
        return read_classes_file(file)
    return None if classes is None else check_classes(classes)


def _find_new_classes(source: SourceData | None, info: ProjectInfo, given: Sequence[str]) -> tuple[str, ...]:
    """Classes that are given or found now and that the project did not begin with."""
    found: Sequence[str] = ()
    if source is not None and info.classes_from == "source" and info.import_labels:
        found = source_classes(source.pool)
    return tuple(dict.fromkeys(name for name in (*given, *found) if name not in info.settings.classes))
