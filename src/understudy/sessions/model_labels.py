"""Labels by a model: it labels the items of a project that it is sure of, and people are asked for the others.

They are not taken for people's: every one is marked in the log and in exports, audit items are left to people, and
whatever a person says of the same item decides.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from understudy.errors import Conflict, UsageError
from understudy.labels.predictions import read_predictions
from understudy.messages import count_of, list_some
from understudy.predictors import ITEMS_PER_CALL, find_predictor, is_function_name, predict_pool
from understudy.projects.opening import create_or_open
from understudy.projects.project_file import existing_folder
from understudy.sessions.opening import open_session
from understudy.sessions.people import check_person_name
from understudy.sessions.record import BY_MODEL, Record
from understudy.sessions.session import Session

THRESHOLD: Final = 0.95
Ask = Callable[[Sequence[int]], np.ndarray]  # rows -> (m, c): probabilities of the classes that count


def annotate_project(
    source: str,
    model: str,
    *,
    threshold: float = THRESHOLD,
    annotator: str | None = None,
    most: int | None = None,
    store: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[str]:
    """Let a model label what is open in a project that nobody serves; lines that say what became of it.

    `model` is a function, `module:name`, or a file of predictions. It labels items of which its likeliest class has at
    least the probability `threshold`, `most` of them at the most, in the order of the pool. Labels are stored some at a
    time, so that little is lost if it ends early; those it was not sure of are asked again the next time.
    """
    if not 0 < threshold <= 1:
        raise UsageError(f"the threshold must be above 0 and at most 1, 0.95 for instance; got {threshold}")
    if most is not None and most < 1:
        raise UsageError(f"the number of labels must be 1 or more; got {most}")
    name = model.rpartition(":")[2] if is_function_name(model) else Path(model).stem
    who = check_person_name(name if annotator is None else annotator)
    with _session_of(source, store) as session:
        record = session.record
        _require_model(record, who)
        numbers = sorted(record.class_table.alive)
        if len(numbers) < 2:
            raise UsageError(
                f"a model needs classes to choose from, and this project has {len(numbers)}; add some first"
            )
        ask = _asker(session, model, [record.classes[number] for number in numbers])
        rows = [row for row in range(record.n_items) if record.state_of(row)[0] == "open"]
        counts: Counter[int] = Counter()
        seen = unsure = 0
        for start in range(0, len(rows), ITEMS_PER_CALL):
            block = rows[start : start + ITEMS_PER_CALL]
            sure = _sure_labels(ask(block), block, numbers, threshold)
            left = len(sure) if most is None else most - counts.total()
            chosen = dict(list(sure.items())[:left])
            session.label_by_model(chosen, who)
            counts.update(label for label, _ in chosen.values())
            seen += len(block)
            unsure += len(block) - len(sure)
            if progress is not None:
                progress(seen, len(rows))
            if most is not None and counts.total() >= most:
                break
        yield from _report(record, who, counts)
        yield f"{unsure:,} of {seen:,} it was less than {threshold:.4g} sure of; people are asked for them"
        if counts.total() + unsure < seen or seen < len(rows):
            yield f"ended at {count_of(counts.total(), 'label')}; run it again for more"
        yield from _report_audit(record)


def take_back_labels(source: str, annotator: str, *, store: str | None = None) -> Iterator[str]:
    """Take back all labels that a model gave under this name; a line that says how many."""
    with _session_of(source, store) as session:
        count = session.take_back_by_model(annotator)
        if not count:
            raise Conflict(f"no label of a model called {annotator!r} is there to be taken back")
        yield f"{count_of(count, 'label')} by {annotator!r} taken back; these items are open again"


@contextmanager
def _session_of(source: str, store: str | None) -> Iterator[Session]:
    session = open_session(create_or_open(project=existing_folder(source), store=store))
    try:
        yield session
    finally:
        session.close()


def _require_model(record: Record, who: str) -> None:
    """Refuse the name of somebody who labels: theirs and the model's labels could not be told apart."""
    known = record.people.by_id.get(record.people.id_or_name(who))
    if known is None:
        return
    labels = record.events_by_annotator.get(known.id, ())
    if known.is_added or known.has_acted or any(event.data.get("source") != BY_MODEL for event in labels):
        raise Conflict(f"{who!r} is a person of this project; give the model another name with --annotator")


def _asker(session: Session, model: str, classes: Sequence[str]) -> Ask:
    pool = session.project.pool
    if not is_function_name(model):
        probs = read_predictions(Path(model), pool.ids, classes)
        return lambda rows: probs[list(rows)]
    predictor = find_predictor(model, classes)
    return lambda rows: predict_pool(predictor, pool, classes, rows).probs


def _sure_labels(
    probs: np.ndarray, rows: Sequence[int], numbers: Sequence[int], threshold: float
) -> Mapping[int, tuple[int, float]]:
    """The class and its probability of each row for which that is large enough."""
    best, value = probs.argmax(1).tolist(), probs.max(1).tolist()
    return {
        row: (numbers[column], round(sure, 6))
        for row, column, sure in zip(rows, best, value, strict=True)
        if sure >= threshold
    }


def _report(record: Record, who: str, counts: Counter[int]) -> Iterator[str]:
    total = counts.total()
    of_each = (f"{count:,} {record.classes[label]}" for label, count in counts.most_common())
    named = f" ({list_some(of_each, 5)})" if total else ""
    yield f"{count_of(total, 'item')} labelled by {who!r}{named}"


def _report_audit(record: Record) -> Iterator[str]:
    audit = sum(record.label_of(row) is None for row in record.audit_rows)
    if audit:
        yield f"{count_of(audit, 'audit item')} left to people: they measure models, this one included"
    elif not record.audit_rows:
        yield "there are no audit items, so nothing measures what these labels lead to; see --audit-share"
