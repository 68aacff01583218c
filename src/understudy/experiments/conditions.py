"""What a comparison was run on, from its settings: data set, learner, regime, budgets; what is paired with what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Everything else that a plan holds is part of its regime.
NOT_OF_REGIME: Final = ("dataset", "digest", "classes", "pool_rows", "test_rows", "learner", "schedule", "seed")
PICKS_OF: Final = "picks of "  # how the protocol of a replay begins
USUAL: Final = "as it is"  # the regime of a comparison that changes nothing


@dataclass(frozen=True)
class Conditions:
    """What must be equal for results to be about the same question."""

    dataset: str
    digest: str
    learner: str
    regime: str
    schedule: tuple[int, ...]
    seed: int

    @property
    def title(self) -> str:
        return " · ".join(filter(None, _parts(self)))

    def paired_with(self, other: "Conditions") -> bool:
        """Whether repetitions of the same number had the same initial labels and the same seeds."""
        return self._pairing == other._pairing

    @property
    def is_replay(self) -> bool:
        """Whether these are picks of another comparison, judged once more."""
        return PICKS_OF in self.regime

    @property
    def _pairing(self) -> tuple[object, ...]:
        return (self.dataset, self.digest, self.learner, self.regime, self.seed, self.schedule[0])


def _parts(of: Conditions) -> tuple[str, str, str]:
    return of.dataset, of.learner, "" if of.regime == USUAL else of.regime


def conditions_of(settings: Mapping[str, Any]) -> Conditions:
    """The conditions of a comparison with these settings."""
    plan = settings["plan"]
    return Conditions(
        dataset=str(plan.get("dataset", "")),
        digest=str(plan.get("digest", "")),
        learner=str(plan.get("learner", "")),
        regime=_regime_of(settings),
        schedule=tuple(int(labels) for labels in plan["schedule"]),
        seed=int(plan.get("seed", 0)),
    )


def _regime_of(settings: Mapping[str, Any]) -> str:
    """The regime in words: what was done to the data, and how the first rows were chosen."""
    said = []
    for name, value in settings["plan"].items():
        is_start = name == "start" and value is not None  # 0 is a regime of its own
        if name in NOT_OF_REGIME or not (value or is_start):
            continue
        said.append(f"given {name} {value[:8]}" if name == "predictions" else f"{name} {_in_words(value)}")
    protocol = str(settings.get("protocol", ""))
    return ", ".join([*said, *([protocol] if protocol.startswith(PICKS_OF) else [])]) or USUAL


def _in_words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def shared_conditions(of: Sequence[Conditions]) -> list[str]:
    """What the short titles leave out, since it is the same for all."""
    return [part[0] for part in zip(*map(_parts, of), strict=True) if part[0] and len({*part}) == 1]


def short_titles(of: Sequence[Conditions]) -> list[str]:
    """A title for each, without what all of them share, or the data set; numbered where they would be the same."""
    parts = [_parts(one) for one in of]
    kept = [i for i in range(3) if len({part[i] for part in parts}) > 1] or [0]
    titles = [" · ".join(part[i] for i in kept if part[i]) or part[0] for part in parts]
    return [
        f"{title} ({titles[: i + 1].count(title)})" if titles.count(title) > 1 else title
        for i, title in enumerate(titles)
    ]
