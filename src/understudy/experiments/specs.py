"""Strategies as typed on the command line: `margin`, `surrogate(width=0.25)`, `my_module:MyStrategy`."""

import ast
import hashlib
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError, UsageError
from understudy.strategies.protocol import Strategy
from understudy.strategies.registry import make_strategy


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
    module, _, attribute = head.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{head!r} cannot be imported: {error}; is its folder on PYTHONPATH?") from error
    try:
        made = found(**settings) if callable(found) else found
    except TypeError as error:
        raise UsageError(f"{head!r} could not be called to create a strategy: {error}") from error
    if not isinstance(made, Strategy):
        raise UsageError(f"{head!r} is not a strategy; it must have `needs` and `select` (docs/strategies.md)")
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


def check_specs(specs: Sequence[str]) -> tuple[str, ...]:
    """The specs without duplicates; raises an error that names the first unknown one."""
    for spec in dict.fromkeys(specs):
        strategy_of(spec)
    return tuple(dict.fromkeys(specs))
