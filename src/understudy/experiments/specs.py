"""Strategies as typed on the command line: `margin`, `surrogate(width=0.25)`, `my_module:MyStrategy`."""

import ast
import hashlib
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from understudy.errors import UnderstudyError, UsageError
from understudy.own_code import describe_error, import_own
from understudy.strategies.protocol import Needs, Strategy
from understudy.strategies.registry import make_strategy

COUNTS_ROWS: Final = ("basis_size",)  # settings that take rows of the pool; those called "max" take at most so many


def split_specs(text: str) -> list[str]:
    """The specs in a typed list: split at commas outside of parentheses, stripped of whitespace."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        elif not letter.isspace():
            parts[-1] += letter
    if depth:
        raise UsageError(f"a parenthesis is not closed in {text!r}")
    if not all(parts):
        raise UsageError(f"strategies must be names separated by commas; got {text!r}")
    return parts


def strategy_of(spec: str) -> Strategy:
    """A new strategy from a spec."""
    head, settings = parse_spec(spec)
    if ":" not in head:
        try:
            return make_strategy(head, **settings)
        except UnderstudyError as error:  # each strategy checks its own settings; here they come from the command line
            raise UsageError(str(error)) from error
    found = import_own(head)
    try:
        made = found(**settings) if callable(found) else found
        is_strategy = isinstance(made, Strategy)  # which reads `needs`
    except Exception as error:  # whatever its own code raises
        raise UsageError(f"{head!r} could not be called to create a strategy: {describe_error(error)}") from error
    if not is_strategy:
        missing = " and ".join(f"`{name}`" for name in ("needs", "select") if not hasattr(made, name))
        raise UsageError(
            f"{head!r} is not a strategy; it must have `needs` and `select` (docs/own-strategy.md); "
            f"{type(made).__name__} has no {missing}"
        )
    if not isinstance(made.needs, Needs):
        raise UsageError(
            f"`needs` of {head!r} must be Needs(...), as a property; got {type(made.needs).__name__} "
            "(docs/own-strategy.md)"
        )
    return made


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a spec."""
    head, opening, rest = spec.partition("(")
    if not opening:
        return head, {}
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("not settings")
        return head, {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise UsageError(f"settings must be written as name(setting=value), strings in quotes; got {spec!r}") from None


def code_digests(specs: Sequence[str]) -> dict[str, str]:
    """A digest of the code of each user-defined strategy or learner, to detect edits."""
    found = {spec: _code_of(parse_spec(spec)[0]) for spec in specs if ":" in spec.partition("(")[0]}
    return {spec: digest for spec, digest in found.items() if digest}


def _code_of(head: str) -> str:
    """A digest of the files that define `module:name`; empty if there are none to read."""
    module, _, attribute = head.partition(":")
    made_in = getattr(getattr(import_module(module), attribute, None), "__module__", None) or module
    # A package may re-export what one of its files defines.
    names = {module, made_in} if made_in.partition(".")[0] == module.partition(".")[0] else {module}
    content = b""
    for name in sorted(names & sys.modules.keys()):
        try:
            content += Path(inspect.getsourcefile(sys.modules[name]) or "").read_bytes()
        except (OSError, TypeError):  # interactive or built-in
            continue
    return hashlib.sha256(content).hexdigest()[:16] if content else ""


def too_large_settings(spec: str, rows: int) -> list[str]:
    """A line for each setting of ours that asks for more rows than the pool has."""
    head, settings = parse_spec(spec)
    return [
        f"{spec}: {name} is {value:,}, but the pool has {rows:,} rows; all {rows:,} are used"
        for name, value in settings.items()
        if name in COUNTS_ROWS and ":" not in head and isinstance(value, int) and value > rows
    ]


def check_specs(specs: Sequence[str]) -> tuple[str, ...]:
    """The specs without duplicates; raises an error that names the first unknown one."""
    for spec in dict.fromkeys(specs):
        strategy_of(spec)
    return tuple(dict.fromkeys(specs))
