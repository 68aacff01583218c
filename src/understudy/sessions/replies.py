"""What a session answers, in plain values: the page and other programs get these as JSON, field by field."""

from dataclasses import dataclass, field

from understudy.data.encoders.choice import FeaturesNote
from understudy.sessions.log.events import Ask, Source
from understudy.sessions.record import Contest, Resolution


@dataclass(frozen=True)
class Column:
    """What a column of the table says of an item: for people, never for models."""

    name: str
    value: str


@dataclass(frozen=True)
class Shown:
    """An item as it is shown. `item` is its row in the pool, `id` the name its source gave it."""

    item: int
    id: str
    kind: str  # "image" or "text"
    text: str | None = None  # a text itself, where it is short enough to travel along
    columns: list[Column] = field(default_factory=list)  # those that the project shows beside it


@dataclass(frozen=True)
class OwnWork:
    """How far somebody is with what they were assigned."""

    labels: int  # items that carry a label of theirs
    quota: int | None  # labels they are asked for in all
    done: int  # of the items that are assigned to them, those with a decision; audit items left out
    part: int  # how many these are; 0 for none


@dataclass(frozen=True)
class Question:
    """An item that is leased to an annotator; `item` is null where nothing is left to ask."""

    item: int | None
    id: str | None = None
    kind: str | None = None
    text: str | None = None
    ask: Ask | None = None  # shown as "audit" and so on only where that does not influence the answer
    lease_seconds: float | None = None  # how long it is kept for this annotator
    lease_until: float | None = None  # the same as a time, seconds since 1970
    lease: int | None = None  # the number of the event by which it was leased: the later, the larger
    suggestion: int | None = None  # the likeliest class; null for audit items and before there is a model
    confidence: float | None = None  # calibrated; null while too few items have a label to check it
    flagged: bool = False
    mine: int | None = None  # what this annotator said of it before, after an undo or in a review
    reason: str | None = None  # why there is nothing to ask, where there is nothing
    columns: list[Column] = field(default_factory=list)
    note: str = ""  # of this annotator's flag
    work: OwnWork | None = None  # null without a quota and a part of one's own


@dataclass(frozen=True)
class Stored:
    """A decision that is safely in the log, and the next question to the same annotator."""

    stored: int  # number of the event
    repeated: bool  # the key was known: nothing new was stored
    next: Question
    labelled: int  # labels so far, for the counter
    trained_at: int | None = None
    left_out: list[int] = field(default_factory=list)  # near-copies that could not be answered along any more


@dataclass(frozen=True)
class Undone:
    """What was taken back, and the item it was about, which is asked again."""

    stored: int
    repeated: bool
    undone: int  # number of the event that did not happen
    what: str  # its kind
    next: Question


@dataclass(frozen=True)
class Training:
    """Where training stands: "waiting" for labels, "running", or "failed" the last time."""

    state: str
    at_labels: int | None = None  # the last model's labels
    next_at: int | None = None  # labels at which the next training starts
    seconds: float | None = None  # since it was started, where it runs
    reason: str | None = None  # why it failed


@dataclass(frozen=True)
class CalibrationStatus:
    """How far the confidences that are shown can be believed, in one sentence for people."""

    rough: bool  # fewer than 30 audit items have an answer
    audited: int
    sentence: str


@dataclass(frozen=True)
class AuditPlan:
    """What the audit items of a project can show once all have an answer."""

    items: int
    share: float  # of the pool
    half_width: float | None  # of the accuracy's interval, for a model that is right on 90 %; null without items
    least: int  # audit items that "enough" needs at least
    usual: int  # where two models differ on one item in twenty
    raise_to: float | None  # a share with which "enough" could come; null where it can already, or never
    line: str


@dataclass(frozen=True)
class ItemsNews:
    """Items that joined the pool last."""

    seq: int
    count: int
    line: str


@dataclass(frozen=True)
class Joining:
    """New items that are being encoded; they join when that is done."""

    done: int
    total: int


@dataclass(frozen=True)
class SourceLook:
    """What there is in the data of a project that is not in its pool, or the other way round."""

    new: int  # items that join once their files have stood still for a moment and they are encoded
    unusable: int  # items that were left out; they are tried again when they change
    gone: int  # items of the pool that are not in the data any more: they keep their labels
    notes: list[str]


@dataclass(frozen=True)
class SetUp:
    """How far the set-up of the surrogate is, once all items are prepared."""

    phase: str  # "basis", "width", "rows"
    share: float  # of the whole set-up


@dataclass(frozen=True)
class Status:
    """The numbers that are always on the page."""

    project: str
    phase: str  # "preparing" (features are being made), "ready"
    done: int  # items prepared so far, while preparing
    kind: str  # "image" or "text"
    classes: list[str]  # names by number, those of classes that are gone included
    class_counts: list[int]
    labelled: int  # items with a label, audit items included
    total: int
    skipped: int
    unknown: int
    bad: int
    flagged: int
    audited: int  # audit items with an answer
    audit_missing: int  # audit items that were asked and have none: skipped, or nobody could tell
    accuracy: float | None  # of the last model on the audit items
    interval: tuple[float, float] | None  # Wilson, 95 %
    trained_at: int | None  # labels the last model was trained on
    model: str | None  # its version
    training: Training
    online: list[str]
    suspicious: int  # labels that wait for a review
    version: int  # grows whenever something changed
    features: FeaturesNote | None = None  # what the features are, and how better ones are had; null while preparing
    calibration: CalibrationStatus | None = None  # null before there is a model
    audit: AuditPlan | None = None  # null while features are being made
    folders: "Folders | None" = None  # folders that may be classes; null once somebody has labelled
    class_order: list[int] = field(default_factory=list)  # numbers of the classes that are offered, in their order
    class_styles: list["ClassStyle"] = field(default_factory=list)  # of those that have more than a name
    class_news: "ClassNews | None" = None  # the last change of classes
    disputed: int = 0  # items on which people differ and nobody has decided; the majority's label counts meanwhile
    items_news: ItemsNews | None = None  # the last time that items joined
    joining: Joining | None = None  # new items on their way
    setup: SetUp | None = None  # while the surrogate is being set up, where that takes a moment
    slow_or_lost: list[str] = field(default_factory=list)  # blocks of the pool on a cluster, to owners; a line each


@dataclass(frozen=True)
class ClassStyle:
    """What a class is known by, apart from its name."""

    number: int
    shortcut: str | None
    colour: str | None
    description: str


@dataclass(frozen=True)
class ClassNews:
    """What somebody did to classes, or took back, last."""

    seq: int
    by: str | None
    line: str


@dataclass(frozen=True)
class ClassShown:
    """A class as it is now. `gone`: "merged" into another, "removed" or "taken back"; null while it is alive."""

    number: int  # for ever
    name: str
    count: int  # labels
    shortcut: str | None  # the key that labels with it, for everybody
    colour: str | None
    description: str
    hidden: bool  # not offered, while its labels count
    examples: list[Shown]
    former_names: list[str]
    gone: str | None
    into: int | None  # what it was merged into


@dataclass(frozen=True)
class ChangeShown:
    """Something that was done to classes; `kept` says why it cannot be taken back, null: it can."""

    seq: int
    at: float
    by: str | None
    line: str
    kept: str | None


@dataclass(frozen=True)
class ClassList:
    """All classes in the order they are shown in, then those that are gone; and the last changes, latest first."""

    classes: list[ClassShown]
    changes: list[ChangeShown]


@dataclass(frozen=True)
class PersonShown:
    """Somebody who labels, or did. `person` is their id for ever, `name` what they are called now."""

    person: str
    name: str
    role: str  # "annotator", "reviewer" or "owner"
    retired: bool
    former_names: list[str]
    added: bool  # somebody let them in; others are known by their labels only
    online: bool
    labels: int


@dataclass(frozen=True)
class PeopleList:
    """All people, those who retired last; and the last changes, latest first."""

    people: list[PersonShown]
    changes: list[ChangeShown]


@dataclass(frozen=True)
class Folders:
    """Folders of images that may be classes, and what they are taken for now: that can still be changed."""

    taken_for: str  # "classes", "folders", or "undecided", which is as folders
    count: int
    names: list[str]  # the first of them
    items: int  # images in them
    loose: int  # images beside them
    looks: str | None  # what they look like where they are hardly classes
    line: str  # all of this in a line


@dataclass(frozen=True)
class Neighbour:
    """A labelled item that lies near: its label and how far away it is, in units of the pool's mean distance."""

    item: int
    label: str | None
    distance: float


@dataclass(frozen=True)
class Taught:
    """An item that an answer would teach about, and the share of its doubt that would go."""

    item: int
    share: float


@dataclass(frozen=True)
class Factor:
    """What an item's utility is made of, beside the quartiles over all items that may be asked for."""

    value: float
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Why:
    """Why an item is asked for: one plain line, and what it rests on.

    The shares say how much each of the two sets the item apart from an ordinary one.
    """

    item: int
    line: str
    ask: Ask | None
    influence_share: float | None
    uncertainty_share: float | None
    n_taught: int
    teaches: list[Taught]
    nearest: list[Neighbour]
    influence: Factor | None = None
    uncertainty: Factor | None = None


@dataclass(frozen=True)
class Doubt:
    """A label that the surrogate finds surprising: what it would have said, and how strongly."""

    item: int
    id: str
    kind: str
    text: str | None
    label: int
    by: str
    expected: int
    surprise: float  # 0: what was expected; 1: certain of the contrary
    columns: list[Column] = field(default_factory=list)


@dataclass(frozen=True)
class Likely:
    """An unlabelled item that is likely of one class."""

    item: int
    id: str
    kind: str
    text: str | None
    probability: float | None  # calibrated; null while too few items have a label to check it


@dataclass(frozen=True)
class GridOffer:
    """Likely items of one class to confirm at once, what is promised of them, and why there are not more."""

    items: list[Likely]
    promised: float | None  # share of them that is right, as far as audit items can show; null: nothing is promised
    likely: int  # how many items there are that are likeliest of this class
    reason: str


@dataclass(frozen=True)
class Copy:
    """An item that is nearly the same as another, and has no answer yet."""

    item: int
    id: str
    kind: str
    text: str | None
    exact: bool  # whether its content is the same to the last byte
    distance: float  # as a share of what is usual in the pool; at most a third


@dataclass(frozen=True)
class Copies:
    """Near-copies of an item that can be answered with it, and what there is to say of the others."""

    item: int
    copies: list[Copy]
    labelled: int  # near-copies that have an answer
    audit: int  # those that are audit items: each is asked for on its own
    elsewhere: int  # those that somebody has now, or skipped or did not know
    line: str  # all of this in a line; "" where there is no near-copy


@dataclass(frozen=True)
class MapShown:
    """The map of the pool: what is shown, and names of the items' places and colours that change when they do."""

    items: int
    layout: str  # "axes": along the principal axes; "neighbours": neighbours lie together
    is_being_made: bool  # a better one, which follows
    trouble: str | None  # why there is none
    points: str  # of GET /api/map/points
    colours: str  # of GET /api/map/colours


@dataclass(frozen=True)
class CurvePoint:
    """A model's accuracy on the audit items."""

    labels: int
    accuracy: float | None
    low: float | None
    high: float | None
    audited: int
    asked_accuracy: float | None  # P: how often the learner had the items right that were asked until then
    at: float


@dataclass(frozen=True)
class Hint:
    """What to do: "start", "go on", "slowing", "enough", "weak" or "untrained", and why, in a sentence or two."""

    advice: str
    line: str
    promise: float | None  # what the best next label still explains, as a share of the first one's


@dataclass(frozen=True)
class ClassScore:
    """The last model on the audit items of one class: how many it has right, of how many, and Wilson's interval."""

    label: int
    right: int
    audited: int
    accuracy: float | None  # null without audit items of the class
    low: float | None
    high: float | None
    predicted: int  # audit items that the model takes for this class, rightly or not


@dataclass(frozen=True)
class Confusion:
    """A cell of the confusion matrix: audit items with this label that the last model takes for that class."""

    label: int
    predicted: int
    count: int


@dataclass(frozen=True)
class Person:
    """What one annotator did, and how far they are with what they were assigned."""

    name: str
    online: bool
    labels: int
    skipped: int
    unknown: int
    median_seconds: float | None
    agreement: float | None  # with others, on the items that both saw
    kappa: float | None = None  # the same beyond chance, by Cohen: theirs and others' labels of the same items
    skipped_share: float | None = None  # of all that they labelled, skipped or did not know; null before the first
    unknown_share: float | None = None
    pace: float | None = None  # labels an hour while at it: pauses of more than five minutes left out
    pace_today: float | None = None  # null for less than a minute
    labels_today: int = 0
    active_seconds: float = 0.0  # that they were at it, in all
    reviewed: int = 0  # labels of theirs that somebody else reviewed
    review_agreement: float | None = None  # how many of these the review left as they were
    retired: bool = False
    share: float | None = None  # of the pool, assigned to them
    classes: list[int] = field(default_factory=list)  # assigned to them
    quota: int | None = None  # labels they are asked for in all
    remaining: int | None = None  # of the quota
    part: int = 0  # items that are assigned to them by share or class, audit items left out
    part_done: int = 0  # those of them with a decision


@dataclass(frozen=True)
class Agreement:
    """How far people agree on the items that two or more of them labelled."""

    items: int
    share: float | None
    alpha: float | None  # Krippendorff's, for names
    pairs: list["Pair"]
    disagreements: list["Split"]
    fleiss: float | None = None  # Fleiss' kappa, for any number of people an item
    by_class: list["ClassAgreement"] = field(default_factory=list)
    confused: list["ConfusedClasses"] = field(default_factory=list)  # between which people differ, most often first


@dataclass(frozen=True)
class Pair:
    """Two annotators: how many items both labelled, how often alike, and Cohen's kappa."""

    first: str
    second: str
    items: int
    share: float
    kappa: float | None


@dataclass(frozen=True)
class Split:
    """An item on which people differ."""

    item: int
    labels: dict[str, int]  # by annotator


@dataclass(frozen=True)
class ClassAgreement:
    """How often people agree on a class: where one says it, how often another who saw the item says it too."""

    label: int
    share: float
    answers: int  # that are this class, on items with two or more answers
    items: int  # of those, with such an answer


@dataclass(frozen=True)
class ConfusedClasses:
    """Two classes between which people differ: on how many items, and in how many pairs of answers."""

    first: int
    second: int
    items: int
    pairs: int


@dataclass(frozen=True)
class Opinion:
    """What one annotator said of an item: a label, or null for who only flagged it or could not tell."""

    annotator: str
    label: int | None
    at: float | None  # of the label
    source: Source | None
    note: str | None  # of their flag; "" for a flag without one
    unknown: bool  # could not tell
    is_later: bool  # the label is later than the settlement


@dataclass(frozen=True)
class SettlementShown:
    """A reviewer's last word about an item. `contradicted_by`: who labelled it otherwise since."""

    label: int
    by: str
    at: float
    note: str
    contradicted_by: list[str]


@dataclass(frozen=True)
class Dispute:
    """An item on which people differ, or did until it was settled.

    `state`: "disputed" while nobody has decided, "review" where a review changed the label, "settled".
    """

    item: int
    id: str
    kind: str
    text: str | None
    state: Contest
    label: int  # that counts now
    resolution: Resolution  # how it came about
    majority: int | None  # what most people say; null where all took their labels back
    is_tie: bool  # as many people say something else: the majority is the earlier label
    opinions: list[Opinion]  # in the order they came
    settlement: SettlementShown | None
    columns: list[Column] = field(default_factory=list)


@dataclass(frozen=True)
class DisputeList:
    """Some of the disputes that were asked for, and how many there are of each state in the whole project."""

    disputes: list[Dispute]
    found: int  # that fit what was asked for
    disputed: int
    review: int
    settled: int


@dataclass(frozen=True)
class Progress:
    """The progress page."""

    curve: list[CurvePoint]
    hint: Hint
    asked_accuracy: float | None
    class_counts: list[int]
    people: list[Person]
    agreement: Agreement | None
    failures: list[str]  # trainings that failed, latest last
    by_class: list[ClassScore] = field(default_factory=list)  # empty while no audit item has been scored
    confusions: list[Confusion] = field(default_factory=list)  # all that are not zero, right ones too
    notes: list[str] = field(default_factory=list)  # on assignments: what goes to everybody, and why
    data_notes: list[str] = field(default_factory=list)  # on the data: what is gone there, or cannot be used


@dataclass(frozen=True)
class SettingShown:
    """A setting of the project. `fixed` says why it stays as it is; null: it may be changed."""

    name: str
    value: bool | int | float | str | list[str] | None
    default: bool | int | float | str | list[str] | None
    meaning: str
    kind: str  # "number", "whole number", "flag", "choice", "columns" or "text"
    least: float | None
    most: float | None
    choices: list[str] | None
    fixed: str | None


@dataclass(frozen=True)
class ProjectSettings:
    """All settings, and what the last change means, in sentences."""

    settings: list[SettingShown]
    notes: list[str]


@dataclass(frozen=True)
class Entry:
    """One line of an annotator's history, latest first."""

    seq: int
    at: float
    what: str
    item: int | None
    label: int | None
    source: Source | None
    undone: bool


@dataclass(frozen=True)
class ItemCard:
    """All that is known of an item."""

    item: int
    id: str
    kind: str
    text: str | None
    label: int | None
    labels: dict[str, int]  # by annotator
    skipped_by: list[str]
    unknown_to: list[str]
    bad: bool
    flagged: bool
    note: str | None
    columns: list[Column] = field(default_factory=list)


@dataclass(frozen=True)
class LabelGiven:
    """One annotator's label of an item."""

    by: str
    label: int
    at: float  # seconds since 1970
    source: Source


@dataclass(frozen=True)
class FlagGiven:
    """A flag and its note, which may be empty."""

    by: str
    note: str


@dataclass(frozen=True)
class BrowsedItem:
    """An item of a list, with all that people decided about it and what the last model says.

    Nothing is suggested for audit items, nor where the project's settings switch suggestions off.
    """

    item: int
    id: str
    kind: str
    text: str | None  # how a text begins
    states: list[str]  # "labelled", "unlabelled", "skipped", "unknown", "bad", "flagged", "disputed", "audit", "leased"
    label: int | None  # the one that counts
    labels: list[LabelGiven]  # earliest first
    skipped_by: list[str]
    unknown_to: list[str]
    bad_by: list[str]
    flags: list[FlagGiven]
    at: float | None  # when something was last decided about it
    held_by: str | None  # who is asked about it now
    suggestion: int | None
    confidence: float | None  # calibrated; null while too few items have a label to check it
    surprise: float | None  # 1 - the last model's calibrated probability of the label
    distance: float | None = None  # from the item that it is to be similar to
    columns: list[Column] = field(default_factory=list)


@dataclass(frozen=True)
class BrowsePage:
    """A page of a list of items."""

    items: list[BrowsedItem]
    total: int  # that match
    offset: int
    counts: dict[str, int]  # by state, of what matches without the filter for states
    people: list[str]  # who decided anything about any item
    rows: list[int]  # all that match in their order, up to 5,000, where they are asked for
