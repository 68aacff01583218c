"""Lists of items: by class, person, state, confidence, words, likeness or place on a map, in an order, page by page.

What is listed is found in arrays, without the session's lock; it is held to copy them and to show the items of one
page, so that nobody who labels waits. Confidences are those of the last model: they change with a training, not with
every label, so a list stays in order while somebody works through it. So is surprise: 1 - the calibrated probability
that the model gives the label that counts. It costs nothing, and is too low for labels that the model was trained on;
the review, which leaves each label out, takes longer and finds more.
"""

import re
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from understudy.data.items import Texts
from understudy.errors import NotFound, UnderstudyError
from understudy.learners.calibration import Calibration
from understudy.projects.project import Project
from understudy.sessions.bulk_decisions import MAX_ITEMS
from understudy.sessions.calibrations import Audits
from understudy.sessions.item_columns import (
    NO_LABEL,
    STATES,
    Columns,
    ItemColumns,
    State,
    label_shown,
    last_decided,
    states_of,
)
from understudy.sessions.models import Models
from understudy.sessions.record import Record
from understudy.sessions.replies import BrowsedItem, BrowsePage, Column, FlagGiven, LabelGiven

Sort = Literal["pool", "confidence-up", "confidence-down", "surprise", "latest", "earliest", "name", "similarity"]
SORTS: Final[tuple[Sort, ...]] = get_args(Sort)
Polygon = tuple[tuple[float, float], ...]
RowsInside = Callable[[Polygon], np.ndarray]  # the rows inside a polygon on a map of the pool
MAX_PAGE: Final = 200  # items
MAX_CORNERS: Final = 64  # of a lasso
MAX_SHORT_TEXT: Final = 400  # characters of a text in a list
ITEMS_PER_UPDATE: Final = 200  # looked at again while the lock is held: a millisecond or two
ROWS_PER_BLOCK: Final = 8192
STRUCK: Final = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe"})
# letters with an accent that Unicode does not take apart
MAX_DISTANCES: Final = 4  # items whose distances to all others are remembered
NEAREST_EXACT: Final = 1000  # of the most similar items, whose distances are subtracted rather than multiplied out


@dataclass(frozen=True)
class Filter:
    """Which items are listed: those to which all that is given applies. Without anything, all items."""

    labels: tuple[int, ...] = ()  # labelled as one of these classes
    suggested: tuple[int, ...] = ()  # one of these classes is suggested
    person: str | None = None  # who decided something about it
    states: tuple[State, ...] = ()  # in one of these states
    confidence_from: float = 0.0
    confidence_to: float = 1.0
    text: str = ""  # in the text, whatever the case and accents
    name: str = ""  # in the name, likewise
    search: str = ""  # in the text or in the name
    id: str | None = None  # exactly this name
    item: int | None = None
    similar: int | None = None  # nearest to this item first
    lasso: Polygon = ()


@dataclass(frozen=True, eq=False)
class _Facts:
    """What a session knew at one moment, for a list."""

    columns: Columns
    by_person: np.ndarray | None  # rows that the filter's person decided about
    probs: np.ndarray | None  # of the last model; None: nothing is to be suggested
    calibration: Calibration
    is_hidden: np.ndarray  # (c,): classes that are not offered
    audit_rows: tuple[int, ...]
    becomes: tuple[int | None, ...]
    people: list[str]


@dataclass(frozen=True, eq=False)
class _Suggestions:
    """The class that the last model finds likeliest and its calibrated probability, by row; -1 and nan for none."""

    best: np.ndarray
    confidence: np.ndarray


@dataclass(frozen=True, eq=False)
class Overview:
    """What is known of every item at one moment. The arrays are others' too: read them only."""

    columns: Columns
    suggested: np.ndarray  # (n,): the class that is suggested; NO_LABEL for none
    confidence: np.ndarray  # (n,): how surely; nan for none
    n_classes: int  # that there ever were


class Browser:
    """The lists of a session. `note` is called with its lock held, by what follows the record."""

    def __init__(self, project: Project, record: Record, models: Models, audits: Audits, lock: threading.RLock) -> None:
        self.project, self.record, self.models, self.audits, self.lock = project, record, models, audits, lock
        self.rows_inside: RowsInside | None = None  # given by who has a map of the pool
        self._columns: dict[str | None, ItemColumns] = {None: ItemColumns(record)}
        self._computing = threading.Lock()
        self._suggestions: tuple[np.ndarray, Calibration, _Suggestions] | None = None
        self._distances: dict[tuple[int, int], np.ndarray] = {}  # from an item, in a pool of this size
        self._folded: dict[str, list[str]] = {}
        self._name_ranks: np.ndarray | None = None

    def note(self, items: Iterable[int]) -> None:
        """Something was decided about these items, or taken back."""
        for columns in self._columns.values():
            columns.note(items)

    def overview(self) -> Overview:
        """What is known of every item now, found without holding up who labels."""
        facts = self._facts(Filter(), None)
        found = self._suggest(facts)
        return Overview(facts.columns, found.best, found.confidence, len(facts.is_hidden))

    # -- a page -------------------------------------------------------------------------------------------

    def page(
        self,
        wanted: Filter,
        sort: Sort | None = None,
        *,
        offset: int = 0,
        limit: int = 60,
        only: str | None = None,
        with_rows: bool = False,
    ) -> BrowsePage:
        """A page of the items that match. With `only`: of what this annotator decided, and nothing of anybody else.

        Without a `sort`, what is similar to an item comes nearest first and all else in the order of the pool.
        """
        if offset < 0 or not 1 <= limit <= MAX_PAGE:
            raise UnderstudyError(f"a page begins at 0 or later and has 1 to {MAX_PAGE} items; got {offset}, {limit}")
        order: Sort = sort or ("pool" if wanted.similar is None else "similarity")
        if order == "similarity" and wanted.similar is None:
            raise UnderstudyError("sorting by similarity needs the item to be similar to; give similar=ITEM")
        self._check(wanted)
        facts = self._facts(wanted, only)
        suggestions = self._suggest(facts)
        matches = self._matches(facts, suggestions, wanted, only)
        counts: dict[str, int] = {state: int((matches & facts.columns.is_in([state])).sum()) for state in STATES}
        if wanted.states:
            matches &= facts.columns.is_in(wanted.states)
        rows = self._in_order(np.flatnonzero(matches), order, facts, suggestions, wanted)
        shown = rows[offset : offset + limit]
        return BrowsePage(
            items=self._show(shown, facts, suggestions, wanted, only),
            total=len(rows),
            offset=offset,
            counts=counts,
            people=facts.people,
            rows=rows[:MAX_ITEMS].tolist() if with_rows else [],
        )

    def _check(self, wanted: Filter) -> None:
        n = self.record.n_items
        for item in (wanted.item, wanted.similar):
            if item is not None and not 0 <= item < n:
                raise NotFound(f"there is no item {item}; there are {n:,}, numbered from 0")
        if not 0 <= wanted.confidence_from <= wanted.confidence_to <= 1:
            raise UnderstudyError(
                "confidences must be from 0 to 1, the lower one first; "
                f"got {wanted.confidence_from:g} to {wanted.confidence_to:g}"
            )
        known = len(self.record.classes)
        for label in (*wanted.labels, *wanted.suggested):
            if not 0 <= label < known:
                raise NotFound(f"there is no class {label}; there are {known}, numbered from 0")
        if wanted.person is not None and wanted.person not in self.record.annotators:
            raise NotFound(f"there is no annotator {wanted.person!r}; see GET /api/progress for who labelled here")
        if wanted.lasso and self.rows_inside is None:
            raise NotFound("there is no map of this pool, so nothing lies inside a lasso; leave lasso out")

    def _facts(self, wanted: Filter, only: str | None) -> _Facts:
        """A copy of what is known, once every item that was noted has been looked at, a few at a time."""
        while True:
            with self.lock:
                columns = self._columns.get(only)
                if columns is None:
                    columns = self._columns[only] = ItemColumns(self.record, only)
                if columns.update(ITEMS_PER_UPDATE):
                    return self._copy(columns, wanted)
            time.sleep(0)  # whoever waits for the lock has it now

    def _copy(self, columns: ItemColumns, wanted: Filter) -> _Facts:
        record, probs = self.record, self.models.probs
        may_suggest = record.settings.suggestions and probs is not None
        return _Facts(
            columns=columns.copy(),
            by_person=None if wanted.person is None else columns.decided_by(wanted.person),
            probs=probs if may_suggest else None,
            calibration=self.audits.calibration(probs),
            is_hidden=np.array([each.hidden or each.gone is not None for each in record.class_table.classes], bool),
            audit_rows=record.audit_rows,
            becomes=tuple(record.class_table.becomes),
            people=columns.people,
        )

    # -- what matches -------------------------------------------------------------------------------------

    def _matches(self, facts: _Facts, suggestions: _Suggestions, wanted: Filter, only: str | None) -> np.ndarray:
        """(n,): the items to which all but the states applies."""
        labels = facts.columns.labels
        found = np.ones(len(labels), bool)
        if only is not None:
            found &= ~np.isnan(facts.columns.times)
        if wanted.labels:
            wanted_now = [now for label in wanted.labels if (now := facts.becomes[label]) is not None]
            found &= np.isin(labels, wanted_now)
        if wanted.suggested:
            found &= np.isin(suggestions.best, wanted.suggested)
        if facts.by_person is not None:
            found &= _as_mask(facts.by_person, len(found))
        if wanted.confidence_from > 0 or wanted.confidence_to < 1:
            with np.errstate(invalid="ignore"):
                found &= suggestions.confidence >= wanted.confidence_from
                found &= suggestions.confidence <= wanted.confidence_to
        if wanted.lasso and self.rows_inside is not None:
            found &= _as_mask(self.rows_inside(wanted.lasso), len(found))
        if wanted.item is not None:
            found &= np.arange(len(found)) == wanted.item
        if wanted.id is not None:
            ids = self.project.pool.ids
            found &= _as_mask([ids.index(wanted.id)] if wanted.id in ids else [], len(found))
        return self._match_words(found, wanted)

    def _match_words(self, found: np.ndarray, wanted: Filter) -> np.ndarray:
        """Those of these items that have the words that are looked for."""
        for words, where in (
            (wanted.text, ("texts",)),
            (wanted.name, ("names",)),
            (wanted.search, ("texts", "names")),
        ):
            if words:
                folded = fold(words)
                found &= np.logical_or.reduce([self._have(folded, each, len(found)) for each in where])
        return found

    def _have(self, folded: str, where: str, n: int) -> np.ndarray:
        """(n,): the items that have this in their text or name."""
        if where == "texts" and not isinstance(self.project.pool.items, Texts):
            return np.zeros(n, bool)
        with self._computing:
            known = self._folded.get(where)
            if known is None or len(known) != n:
                items = self.project.pool.items
                texts = items.texts if where == "texts" and isinstance(items, Texts) else self.project.pool.ids
                known = self._folded[where] = [fold(text) for text in texts]
        return np.fromiter((folded in text for text in known), bool, n)

    # -- order --------------------------------------------------------------------------------------------

    def _in_order(
        self, rows: np.ndarray, sort: Sort, facts: _Facts, suggestions: _Suggestions, wanted: Filter
    ) -> np.ndarray:
        """The rows by a value each, smallest first; equal ones by row, and those without a value at the end."""
        if sort == "pool":
            return rows
        if sort == "confidence-up":
            values = suggestions.confidence[rows]
        elif sort == "confidence-down":
            values = -suggestions.confidence[rows]
        elif sort == "surprise":
            values = -_surprise_of(rows, facts.columns.labels[rows], facts.probs, facts.calibration, suggestions)
        elif sort in ("latest", "earliest"):
            values = facts.columns.times[rows] * (-1 if sort == "latest" else 1)
        elif sort == "name":
            values = self._ranks_of_names()[rows]
        else:
            assert wanted.similar is not None
            values = self._distances_from(wanted.similar)[rows]
        return rows[np.argsort(values, kind="stable")]

    def _ranks_of_names(self) -> np.ndarray:
        """(n,): the place of each item when they are sorted by name, numbers in names by their size."""
        with self._computing:
            ids = self.project.pool.ids
            if self._name_ranks is None or len(self._name_ranks) != len(ids):
                keys = [name_key(name) for name in ids]
                self._name_ranks = np.empty(len(ids), np.int64)
                self._name_ranks[sorted(range(len(ids)), key=keys.__getitem__)] = np.arange(len(ids))
            return self._name_ranks

    def _distances_from(self, item: int) -> np.ndarray:
        """(n,): the distance of the features of every item from those of one."""
        features = self.project.features
        with self._computing:
            asked = item, len(features)
            if asked not in self._distances:
                while len(self._distances) >= MAX_DISTANCES:
                    del self._distances[next(iter(self._distances))]
                self._distances[asked] = distances_from(features, item)
            return self._distances[asked]

    # -- suggestions --------------------------------------------------------------------------------------

    def _suggest(self, facts: _Facts) -> _Suggestions:
        """What is suggested, and how surely, by row: not for audit items, nor of classes that are not offered."""
        n = len(facts.columns.labels)
        if facts.probs is None:
            return _Suggestions(np.full(n, NO_LABEL), np.full(n, np.nan))
        with self._computing:
            known = self._suggestions
            if known is None or known[0] is not facts.probs or known[1] != facts.calibration:
                found = _likeliest(facts.probs, facts.calibration)
                known = self._suggestions = (facts.probs, facts.calibration, found)
        best, confidence = np.full(n, NO_LABEL), np.full(n, np.nan)
        said = min(n, len(facts.probs))
        best[:said], confidence[:said] = known[2].best[:said], known[2].confidence[:said]
        is_offered = np.zeros(max(len(facts.is_hidden), facts.probs.shape[1]) + 1, bool)
        is_offered[: len(facts.is_hidden)] = ~facts.is_hidden
        nothing = ~is_offered[best]  # the last place is that of NO_LABEL
        nothing[list(facts.audit_rows)] = True
        best[nothing], confidence[nothing] = NO_LABEL, np.nan
        return _Suggestions(best, confidence)

    # -- what is shown ------------------------------------------------------------------------------------

    def _show(
        self, rows: np.ndarray, facts: _Facts, suggestions: _Suggestions, wanted: Filter, only: str | None
    ) -> list[BrowsedItem]:
        distances = None if wanted.similar is None else self._distances_from(wanted.similar)
        with self.lock:
            labels = [label_shown(self.record, item, only) for item in rows.tolist()]
            given = np.array([NO_LABEL if label is None else label for label in labels], np.int64)
            surprise = _surprise_of(rows, given, facts.probs, facts.calibration, suggestions)
            is_known = facts.calibration.is_known
            return [
                self._show_item(
                    item,
                    only,
                    suggestion=None if suggestions.best[item] == NO_LABEL else int(suggestions.best[item]),
                    confidence=_number(suggestions.confidence[item]) if is_known else None,
                    surprise=_number(surprise[place]) if is_known else None,
                    distance=None if distances is None else float(distances[item]),
                )
                for place, item in enumerate(rows.tolist())
            ]

    def _show_item(
        self,
        item: int,
        only: str | None,
        *,
        suggestion: int | None,
        confidence: float | None,
        surprise: float | None,
        distance: float | None,
    ) -> BrowsedItem:
        record, pool = self.record, self.project.pool
        found = record.decisions(item)
        lease = record.leases.get(item)

        name_of = record.people.name_of

        def shown(people: Iterable[str]) -> list[str]:
            return [name_of(who) for who in people if only in (None, who)]

        marks = sorted(found.marks.items(), key=lambda pair: pair[1].seq)
        return BrowsedItem(
            item=item,
            id=pool.ids[item],
            kind=self.project.kind,
            text=pool.items.texts[item][:MAX_SHORT_TEXT] if isinstance(pool.items, Texts) else None,
            states=list(states_of(record, item, only)),
            label=label_shown(record, item, only),
            labels=[
                LabelGiven(name_of(who), mark.label, mark.at, mark.source) for who, mark in marks if only in (None, who)
            ],
            skipped_by=shown(found.skipped),
            unknown_to=shown(found.unknown),
            bad_by=shown(found.bad),
            flags=[FlagGiven(name_of(who), note) for who, note in found.flags.items() if only in (None, who)],
            at=last_decided(found, only),
            held_by=None if lease is None or only not in (None, lease.annotator) else name_of(lease.annotator),
            suggestion=suggestion,
            confidence=confidence,
            surprise=surprise,
            distance=distance,
            columns=[Column(name, value) for name, value in self.project.columns_of(item)],
        )


# -- values by row ----------------------------------------------------------------------------------------


def _likeliest(probs: np.ndarray, calibration: Calibration) -> _Suggestions:
    """The likeliest class of each row and its calibrated probability; nan where too few items could check it."""
    best, confidence = np.empty(len(probs), np.int64), np.full(len(probs), np.nan)
    for start in range(0, len(probs), ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        best[block] = probs[block].argmax(1)
        if calibration.is_known:
            confidence[block] = calibration.apply(probs[block]).max(1)
    return _Suggestions(best, confidence)


def _surprise_of(
    rows: np.ndarray, labels: np.ndarray, probs: np.ndarray | None, calibration: Calibration, suggestions: _Suggestions
) -> np.ndarray:
    """1 - the calibrated probability of each row's label; nan without a label, a suggestion, or for a newer class.

    By the likeliest class: of two calibrated probabilities the ratio is that of the raw ones to the power 1 / T.
    """
    found = np.full(len(rows), np.nan)
    if probs is None:
        return found
    best = suggestions.best[rows]
    places = np.flatnonzero((labels != NO_LABEL) & (labels < probs.shape[1]) & (best != NO_LABEL) & (rows < len(probs)))
    given, likely = probs[rows[places], labels[places]], probs[rows[places], best[places]]
    ratio = given.astype(np.float64) / likely
    found[places] = 1 - suggestions.confidence[rows[places]] * ratio ** (1 / calibration.temperature)
    return found


def distances_from(features: np.ndarray, item: int) -> np.ndarray:
    """The Euclidean distance of every row from one, in double precision where it is among the nearest."""
    own = np.asarray(features[item], np.float32)
    squares = np.empty(len(features))
    for start in range(0, len(features), ROWS_PER_BLOCK):
        block = np.asarray(features[start : start + ROWS_PER_BLOCK], np.float32)
        squares[start : start + len(block)] = np.einsum("nd,nd->n", block, block) - 2 * (block @ own)
    distances = np.sqrt(np.maximum(squares + float(own @ own), 0))
    near = np.argpartition(distances, min(NEAREST_EXACT, len(distances)) - 1)[:NEAREST_EXACT]
    exact = np.asarray(features[np.sort(near)], np.float64) - own.astype(np.float64)
    distances[np.sort(near)] = np.sqrt(np.square(exact).sum(1))
    return distances


def _as_mask(rows: np.ndarray | Sequence[int], n: int) -> np.ndarray:
    """(n,): True at these rows. Those of items that have joined meanwhile are left out."""
    mask, found = np.zeros(n, bool), np.asarray(rows, np.int64)
    mask[found[found < n]] = True
    return mask


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# -- words ------------------------------------------------------------------------------------------------


def fold(text: str) -> str:
    """A text without its case, accents and the way its letters are composed, for searching."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter)).translate(STRUCK)


def name_key(name: str) -> list[tuple[int, int, str]]:
    """What names are sorted by: pieces of digits by their size, the rest without case."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return [(0, int(piece), piece) if piece[0] in "0123456789" else (1, 0, piece.casefold()) for piece in pieces]


def parse_lasso(text: str) -> Polygon:
    """The corners of a lasso, written "x,y;x,y;x,y"."""
    corners: list[tuple[float, float]] = []
    for corner in text.split(";") if text else []:
        parts = corner.split(",")
        try:
            x, y = (float(part) for part in parts)
        except ValueError:
            raise UnderstudyError(f"a corner of a lasso must be two numbers, 0.5,-1 say; got {corner!r}") from None
        if not (np.isfinite(x) and np.isfinite(y)):
            raise UnderstudyError(f"a corner of a lasso must be two finite numbers; got {corner!r}")
        corners.append((x, y))
    if text and not 3 <= len(corners) <= MAX_CORNERS:
        raise UnderstudyError(f"a lasso must have 3 to {MAX_CORNERS} corners; got {len(corners)}")
    return tuple(corners)
