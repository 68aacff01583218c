"""Code that is not ours: how `module:name` is imported, and where in it an error was raised."""

import sysconfig
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Final

from understudy.errors import UnderstudyError, UsageError
from understudy.messages import list_some, reason_of

OURS: Final = Path(__file__).resolve().parent
INSTALLED: Final = {"site-packages", "dist-packages"}


def import_own(name: str) -> Any:
    """What `module:name` names. Whatever goes wrong is said in one line, with the line of the module if it is there."""
    module, _, attribute = name.partition(":")
    if module.endswith(".py"):
        raise UsageError(f"{name!r} names a file; write {Path(module).stem}:{attribute}, its module, in its folder")
    try:
        imported = import_module(module)
    except Exception as error:  # a module may raise anything when it is run
        if (isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")) or not place_of(
            error
        ):
            raise UsageError(f"{name!r} cannot be imported: {error}; is its folder on PYTHONPATH?") from error
        raise UsageError(f"{name!r} cannot be imported: {describe_error(error)}") from error
    try:
        return getattr(imported, attribute)
    except AttributeError as error:
        raise UsageError(f"{name!r} cannot be imported: {_what_it_has(imported, attribute)}") from error


def describe_error(error: BaseException) -> str:
    """Type, message and place of an error in one line. Errors of ours need no type: the message says it all."""
    reason = reason_of(error)
    if isinstance(error, SyntaxError):
        reason = error.msg or reason
    words = reason if isinstance(error, UnderstudyError) else f"{type(error).__name__}: {reason}"
    place = place_of(error)
    return f"{words} ({place})" if place else words


def place_of(error: BaseException) -> str:
    """The line of somebody's own code that led to an error, "mine.py, line 12, in select"; empty if none did.

    The last one that is neither ours nor of an installed library: where these were called with a wrong value.
    """
    if kept := getattr(error, "_own_place", ""):
        return str(kept)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_name_of_file(error.filename)}, line {error.lineno}"
    places = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__) if _is_own(frame.f_code.co_filename)]
    if not places:
        return ""
    code, line = places[-1]
    within = "" if code.co_name == "<module>" else f", in {code.co_name}"
    return f"{_name_of_file(code.co_filename)}, line {line}{within}"


def keep_place(error: Exception) -> None:
    """Keep the place in the error, which is sent to another process: its traceback is not."""
    vars(error)["_own_place"] = place_of(error)


def _is_own(file: str) -> bool:
    if file.startswith("<"):  # frozen or generated
        return False
    path = Path(file).resolve()
    is_library = bool(INSTALLED & set(path.parts)) or path.is_relative_to(sysconfig.get_path("stdlib"))
    return not is_library and not path.is_relative_to(OURS)


def _name_of_file(file: str) -> str:
    """The file as seen from the current folder, or its full path."""
    path = Path(file).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _what_it_has(module: ModuleType, attribute: str) -> str:
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    # What the module imports comes only if nothing is defined there.
    names = [name for name, value in public.items() if getattr(value, "__module__", "") == module.__name__] or [*public]
    near = get_close_matches(attribute, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {list_some(names) or 'no names'}"
    return f"{_name_of_file(module.__file__) if module.__file__ else module.__name__} has no {attribute!r}; {hint}"
