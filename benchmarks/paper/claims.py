"""The claims that are judged, as claims.json has them, and whether that file is the one that was written down."""

import ast
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CLAIMS_FILE: Final = Path(__file__).with_name("claims.json")
DIGEST_FILE: Final = CLAIMS_FILE.with_suffix(".sha256")
OURS: Final = "surrogate"


@dataclass(frozen=True)
class Rules:
    """What claims.json says of every statement, as far as it is numbers."""

    early_to: int
    late_from: int
    whole_to_at_least: int
    significance: float
    decided_from: int


@dataclass(frozen=True)
class Claim:
    """A statement: the first of each pair is ahead of the second, or they are level within a margin."""

    says: str
    sets: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    stages: tuple[str, ...] = ("whole",)
    within: float | None = None
    whose: str = "paper"  # or `ours`: asked beside it
    family: str = "pairs"  # that Holm corrects for: these, or the whole statement
    range: tuple[int, int] = (600, 11000)  # labels
    id: str = ""
    until_run: str = ""  # why it was not measured


@dataclass(frozen=True)
class Declared:
    """The claims file."""

    digest: str
    written: str
    rules: Rules
    claims: tuple[Claim, ...]
    cannot: tuple[tuple[str, str], ...]
    older: tuple[str, ...]  # folders of runs that were there before it


class ChangedClaimsError(Exception):
    """Claims are not those that were written down."""


def declared(file: Path = CLAIMS_FILE, digests: Path = DIGEST_FILE) -> Declared:
    """What the file says; refused where its digest is not the one that was written down."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    noted = digests.read_text().split()[0]
    if digest != noted:
        raise ChangedClaimsError(
            f"{file.name} has the digest {digest[:12]}…, {digests.name} says {noted[:12]}…; take back the change, or "
            f"write the new digest there before any run that it is to judge"
        )
    told = json.loads(file.read_text())
    claims = tuple(_claim(one) for one in told["claims"])
    rules = Rules(**{name: told["rules"][name] for name in Rules.__dataclass_fields__})
    cannot = tuple((one["says"], one["why"]) for one in told["cannot"])
    return Declared(digest, told["written"], rules, claims, cannot, older=tuple(told["runs_before_this_file"]))


def _claim(told: Mapping[str, Any]) -> Claim:
    if told["test"] != "signed ranks" or told["rule"] != ("ahead" if "within" not in told else "level"):
        raise ChangedClaimsError(f"{told['id']} names a test or a rule that this script does not have")
    return Claim(
        told["says"],
        tuple(told["sets"]),
        tuple((name(ahead), name(behind)) for ahead, behind in told["pairs"]),
        tuple(told["stages"]),
        within=told.get("within"),
        whose=told["whose"],
        family=told["family"],
        range=tuple(told["range"]),
        id=told["id"],
        until_run=told.get("until_run", ""),
    )


def name(strategy: str) -> str:
    """A strategy as its values say, however it is written: width=1.0 is width=1, noise=1e-10 is what it is anyway."""
    if not strategy.endswith(")") or " (" in strategy:
        return strategy
    call = ast.parse(strategy, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    given = {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg is not None}
    values = {key: int(value) if isinstance(value, float) and value == int(value) else value
              for key, value in given.items()}  # fmt: skip
    if call.func.id == OURS and values.get("noise") == 1e-10:
        del values["noise"]
    inside = ",".join(f"{key}={value!r}" for key, value in values.items())
    return f"{call.func.id}({inside})" if values else call.func.id


def setting(**given: Any) -> str:
    return name(f"{OURS}({','.join(f'{key}={value!r}' for key, value in given.items())})")
