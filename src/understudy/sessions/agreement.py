"""How far people agree on the items that two or more of them labelled.

Labels are given as item -> annotator -> label, annotators in the order of their first answer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import combinations, permutations

from understudy.errors import UnderstudyError
from understudy.sessions.replies import Agreement, ClassAgreement, ConfusedClasses, Pair, Split

Labels = Mapping[int, Mapping[str, int]]


def wants_second(item: int, share: float, seed: int) -> bool:
    """Whether an item is to be labelled by two people: decided by the seed and its row alone, once and for all."""
    if not 0 <= share <= 1:
        raise UnderstudyError(f"the agreement share must be from 0 to 1; got {share}")
    digest = blake2b(f"second {seed} {item}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def agreement(labels: Labels) -> Agreement:
    """All figures for a project, the most disputed items first."""
    shared = _with_several_answers(labels)
    alike, pairs = _pairs_alike(shared.values())
    return Agreement(
        items=len(shared),
        share=alike / pairs if pairs else None,
        alpha=krippendorff(shared),
        pairs=pairs_of(shared),
        disagreements=disagreements(shared),
        fleiss=fleiss(shared),
        by_class=by_class(shared),
        confused=confused_classes(shared),
    )


def pairs_of(labels: Labels) -> list[Pair]:
    """Each two annotators who share items, by name: how often they agree, and Cohen's kappa."""
    answers: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for by_name in labels.values():
        for first, second in combinations(sorted(by_name), 2):
            answers.setdefault((first, second), []).append((by_name[first], by_name[second]))
    return [
        Pair(first, second, len(both), sum(a == b for a, b in both) / len(both), cohen(both))
        for (first, second), both in sorted(answers.items())
    ]


def cohen(both: list[tuple[int, int]]) -> float | None:
    """Cohen's kappa of two people's labels: agreement beyond that of two who answer at random at their own rates.

    None where chance alone would agree always: both gave one and the same label throughout.
    """
    n = len(both)
    first, second = Counter(a for a, _ in both), Counter(b for _, b in both)
    by_chance = sum(first[label] * second[label] for label in first)  # times n²
    if by_chance == n * n:
        return None
    return (sum(a == b for a, b in both) * n - by_chance) / (n * n - by_chance)


def fleiss(labels: Labels) -> float | None:
    """Fleiss' kappa: agreement beyond that of people who answer at random at the rates of all answers together.

    An item counts by the share of its pairs of answers that are alike. With the same number of answers for every item
    this is Fleiss' own definition; where the numbers differ, items count alike and so do answers, which is the usual
    general form. None where nobody shares an item, or one class was given throughout.
    """
    shared = _with_several_answers(labels)
    counts = [Counter(by_name.values()) for by_name in shared.values()]
    totals = sum(counts, Counter[int]())
    n = sum(totals.values())
    if len(totals) < 2:
        return None
    alike = sum(a / b for a, b in (_pairs_alike([by_name]) for by_name in shared.values())) / len(shared)
    by_chance = sum(count * count for count in totals.values()) / (n * n)
    return (alike - by_chance) / (1 - by_chance)


def by_class(labels: Labels) -> list[ClassAgreement]:
    """How often people agree on each class, by its number: positive specific agreement.

    If one person says the class, how often another says it too: of all answers that are the class, each beside every
    other answer for the same item. With two people it is twice the items on which both say it, over both their counts.
    """
    beside: Counter[int] = Counter()
    alike: Counter[int] = Counter()
    answers: Counter[int] = Counter()
    items: Counter[int] = Counter()
    for by_name in _with_several_answers(labels).values():
        for label, count in Counter(by_name.values()).items():
            beside[label] += count * (len(by_name) - 1)
            alike[label] += count * (count - 1)
            answers[label] += count
            items[label] += 1
    return [
        ClassAgreement(label, alike[label] / beside[label], answers[label], items[label]) for label in sorted(items)
    ]


def confused_classes(labels: Labels) -> list[ConfusedClasses]:
    """The pairs of classes between which people differ: those of the most items first, then by number."""
    items: Counter[tuple[int, int]] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for by_name in labels.values():
        counts = Counter(by_name.values())
        for first, second in combinations(sorted(counts), 2):
            items[first, second] += 1
            pairs[first, second] += counts[first] * counts[second]
    in_order = sorted(items, key=lambda both: (-items[both], -pairs[both], both))
    return [ConfusedClasses(*both, items[both], pairs[both]) for both in in_order]


def krippendorff(labels: Labels) -> float | None:
    """Krippendorff's alpha for names: 1 - observed over expected disagreement, with any number of people an item.

    1: all agree; 0: as if labels were dealt out at random. None where nobody shares an item, or only one class
    was ever given on shared ones, so that nothing could have been disagreed upon.
    """
    totals: Counter[int] = Counter()
    apart = 0.0
    for by_name in labels.values():
        m = len(by_name)
        if m < 2:
            continue
        counts = Counter(by_name.values())
        totals += counts
        apart += (m * m - sum(count * count for count in counts.values())) / (m - 1)
    n = sum(totals.values())
    expected = n * n - sum(count * count for count in totals.values())
    return 1 - (n - 1) * apart / expected if expected else None


def disagreements(labels: Labels) -> list[Split]:
    """Items on which people differ, the most disputed first, then by row."""
    split = [item for item, by_name in labels.items() if len(set(by_name.values())) > 1]
    return [Split(item, dict(labels[item])) for item in sorted(split, key=lambda item: (peace(labels[item]), item))]


def peace(by_name: Mapping[str, int]) -> tuple[float, int]:
    """How little an item is disputed: the share of pairs of answers that are alike, then fewer answers."""
    alike, pairs = _pairs_alike([by_name])
    return (alike / pairs if pairs else 1.0), -len(by_name)


def with_others(labels: Labels) -> dict[str, float]:
    """Of each person who shares items: how often another's label of the same item is the same."""
    alike: Counter[str] = Counter()
    met: Counter[str] = Counter()
    for by_name in labels.values():
        for first, second in combinations(by_name, 2):
            for name in (first, second):
                met[name] += 1
                alike[name] += by_name[first] == by_name[second]
    return {name: alike[name] / met[name] for name in met}


def kappas_with_others(labels: Labels) -> dict[str, float | None]:
    """Of each person who shares items: Cohen's kappa of theirs and others' labels, every pair of labels counted."""
    both: dict[str, list[tuple[int, int]]] = {}
    for by_name in labels.values():
        for name, other in permutations(by_name, 2):
            both.setdefault(name, []).append((by_name[name], by_name[other]))
    return {name: cohen(pairs) for name, pairs in both.items()}


def _with_several_answers(labels: Labels) -> dict[int, Mapping[str, int]]:
    return {item: by_name for item, by_name in labels.items() if len(by_name) > 1}


def _pairs_alike(items: Iterable[Mapping[str, int]]) -> tuple[int, int]:
    """How many pairs of answers for the same item are alike, of how many."""
    alike = pairs = 0
    for by_name in items:
        m = len(by_name)
        pairs += m * (m - 1) // 2
        alike += sum(count * (count - 1) // 2 for count in Counter(by_name.values()).values())
    return alike, pairs
