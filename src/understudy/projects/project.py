"""`create_or_open`: the project of whatever people point at, made where there is none yet."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from understudy.data.class_names import checked_classes
from understudy.data.features import errors_in_one_line
from understudy.data.items import printable
from understudy.errors import Conflict, UnderstudyError, UsageError
from understudy.projects import encoder_choice, origins, pools, project_file
from understudy.projects.places import folder_for, name_of, require_room
from understudy.projects.project_file import About, Origin, is_project, store_of
from understudy.projects.project_folder import Project, new_names
from understudy.projects.settings import Settings, checked
from understudy.store_urls import kept_url

__all__ = ["Project", "create_or_open"]

DEMO_SET: Final = "digits"


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
    folder_labels: bool = True,
    device: str = "auto",
    **overrides: Any,
) -> Project:
    """The project of a source, made if there is none yet; or the project in a folder.

    `overrides` are settings by name; None means that one was not given. `folder_labels=False` takes no labels from
    the source: folders are no classes then, and of a label column only the classes are taken. What contradicts a
    project that exists is a Conflict.
    """
    given = _given_classes(classes, classes_file)
    settings = checked({name: value for name, value in overrides.items() if value is not None})
    if demo and source is not None:
        raise UsageError(f"the demo brings its own data; leave out {source} or --demo")
    source = DEMO_SET if demo else source
    with errors_in_one_line():
        folder = folder_for(source, project, demo)
        if is_project(folder):
            data = None if _is_same(source, folder) else source
            return _reopen(folder, data, given, encoder, store, columns, device, settings)
        if source is None:
            raise UsageError(f"{folder} is no project; give the data to label as well, or a project's folder")
        if not origins.is_named(source) and is_project(Path(source).expanduser()):
            raise UsageError(f"{source} is a project already; give it alone, without --project")
        labels = folder_labels and not demo
        return _create(folder, source, given, encoder, store, columns, labels, device, settings)


def _create(
    folder: Path,
    data: str | Path,
    given: tuple[str, ...] | None,
    encoder: str | None,
    store: str | None,
    columns: Mapping[str, str] | None,
    import_labels: bool,
    device: str,
    settings: Mapping[str, Any],
) -> Project:
    """A new project. Nothing is written before all that was given has been looked at."""
    path = None if origins.is_named(data) else Path(data).expanduser()
    require_room(folder, path)
    source = origins.opened(data, columns)
    found = origins.classes_of(source, given, import_labels)
    if encoder is not None:
        _require_items(source)
    made = None if encoder is None else encoder_choice.named(encoder, source.kind, device)
    named = None if columns is None else dict(columns)
    about = About(
        name=printable(name_of(folder)),
        kind=source.kind,
        origin=Origin(name=str(data), columns=named) if path is None else Origin.of_path(path, folder, named),
        settings=Settings(**{**settings, "classes": found.names}),
        encoder=encoder,
        own_features=source.pool.features is not None and encoder is None,
        made_by=source.made_by,
        import_labels=found.import_labels,
        classes_from="source" if found.from_source else "given",
        store=None if store is None else kept_url(store),
    )
    folder.mkdir(parents=True, exist_ok=True)
    about.write(folder)
    url = store_of(folder, about.store, store)
    return Project(folder, about, source, url, notes=(*source.notes, *found.notes), device=device, encoder=made)


def _reopen(
    folder: Path,
    data: str | Path | None,
    given: tuple[str, ...] | None,
    encoder: str | None,
    store: str | None,
    columns: Mapping[str, str] | None,
    device: str,
    settings: Mapping[str, Any],
) -> Project:
    """The project in a folder, if what is given now does not contradict it."""
    about = project_file.read(folder)
    url = store_of(folder, about.store, store)
    is_begun = (folder / pools.ITEMS).exists()
    if is_begun:
        _require_same(folder, about, given, encoder, settings)
    if columns is not None and dict(columns) != about.origin.columns:
        named = about.origin.columns or "that have the usual names"
        raise UsageError(f"{folder} was made with the columns {named}; leave out --columns")
    about = _moved(folder, about, data)
    source, notes = _found_again(folder, about)
    if not is_begun and source is not None:
        about = _redrafted(about, source, given, encoder, device, settings)
        about.write(folder)
    names = new_names(source, about, given or ())
    return Project(folder, about, source, url, new_classes=names, notes=notes, device=device)


def _redrafted(
    about: About,
    source: origins.Source,
    given: tuple[str, ...] | None,
    encoder: str | None,
    device: str,
    settings: Mapping[str, Any],
) -> About:
    """What is given now, in place of what was given before: nothing was labelled yet, so nothing is lost."""
    if encoder is not None:
        _require_items(source)
        encoder_choice.named(encoder, source.kind, device)
        about = replace(about, encoder=encoder, own_features=False)
    kept = about.settings.classes if about.classes_from == "given" else None
    found = origins.classes_of(source, kept if given is None else given, about.import_labels)
    changed = {**about.settings.to_json(), **settings, "classes": found.names}
    return replace(about, settings=Settings.from_json(changed), classes_from="source" if found.from_source else "given")


def _require_same(
    folder: Path, about: About, given: tuple[str, ...] | None, encoder: str | None, settings: Mapping[str, Any]
) -> None:
    """An error where something is given that a project has settled otherwise."""
    missing = [name for name in about.settings.classes if given is not None and name not in given]
    if missing:
        raise UsageError(f"{folder} has the class {missing[0]}, which stays; name all its classes, or none")
    before = "the features that its data brought" if about.own_features else about.encoder
    if encoder is not None and encoder != before:
        raise UsageError(
            f"{folder} was made with {before}, which stays; for {encoder} begin another with --project NEW"
        )
    stays = about.settings.to_json()
    for name, value in settings.items():
        if value != stays[name]:
            before = "the method's own" if stays[name] is None else stays[name]
            raise UsageError(f"{folder} was made with {name} = {before}, which stays; {value} is for a new project")


def _require_items(source: origins.Source) -> None:
    if source.pool.items is None:
        raise UsageError(f"{source.name} has features and no items, so there is nothing to encode; drop --encoder")


def _found_again(folder: Path, about: About) -> tuple[origins.Source | None, tuple[str, ...]]:
    """The project's data, or a note: what was done can be looked at and taken out without it."""
    reason = ""
    try:
        source = origins.reopened(about.origin, folder)
    except UnderstudyError as error:
        source, reason = None, f" ({' '.join(str(error).split())})"
    if source is None:
        return None, (f"{about.origin} cannot be had{reason}: nothing new is looked for, and images may be missing",)
    if source.kind != about.kind:
        raise Conflict(f"{about.origin} holds {source.kind}s now, the project {about.kind}s; put its data back")
    if about.own_features and source.pool.features is None:
        raise Conflict(f"{about.origin} has no features any more, and the project uses them; put its data back")
    return source, source.notes


def _moved(folder: Path, about: About, data: str | Path | None) -> About:
    """The project with its data at the path given now, if that is where it went; an error if it is other data."""
    origin = about.origin
    if data is None or (origin.name is not None and str(data) == origin.name):
        return about
    if origin.name is None and not origins.is_named(data):
        path, place = Path(data).expanduser(), origin.place(folder)
        if place is not None and path.exists() and place.resolve() == path.resolve():
            return about
        if place is None and path.exists():
            about = replace(about, origin=Origin.of_path(path, folder, origin.columns))
            about.write(folder)
            return about
    raise UsageError(f"{folder} is the project of {origin}, not of {data}; give another --project")


def _is_same(source: str | Path | None, folder: Path) -> bool:
    """Whether the source is the project's folder itself, or there is none."""
    if source is None or origins.is_named(source):
        return source is None
    path = Path(source).expanduser()
    return is_project(path) and path.resolve() == folder.resolve()


def _given_classes(classes: Sequence[str] | None, file: Path | None) -> tuple[str, ...] | None:
    if classes is not None and file is not None:
        raise UsageError("classes are given by name or in a file, not both; leave out one")
    if file is not None:
        return origins.from_file(file)
    return None if classes is None else checked_classes(classes)
