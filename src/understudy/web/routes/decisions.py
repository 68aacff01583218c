"""Calls that decide: next item, label, skip, undo. Each is stored durably before it is answered."""

from fastapi import APIRouter

from understudy.sessions.bulk_decisions import BulkDecision
from understudy.sessions.classes import CHANGEABLE
from understudy.sessions.people import may
from understudy.sessions.replies import (
    ClassList,
    ProjectSettings,
    Question,
    SourceLook,
    Status,
    Stored,
    Training,
    Undone,
)
from understudy.web.dependencies import (
    Annotating,
    Holding,
    Owning,
    Ready,
    Reviewing,
    class_number,
    own_name,
    require_role,
)
from understudy.web.error_responses import WRITES, describe_statuses
from understudy.web.requests import (
    Act,
    ClassChange,
    ClassMerge,
    ClassOrder,
    ClassRemoval,
    ClassUndo,
    Flag,
    FlagItems,
    FolderChoice,
    Label,
    LabelItems,
    Labels,
    NewClass,
    OfItem,
    OfItems,
    PutBack,
    PutItemsBack,
    SettingsChange,
    Settle,
    Who,
)

router = APIRouter(prefix="/api", responses=describe_statuses(*WRITES), tags=["decisions"])


@router.post("/next")
def next_item(body: Who, session: Ready, by: Annotating) -> Question:
    """Lease the most useful item to an annotator, or get the lease that is already held."""
    return session.next(own_name(by, body.annotator))


@router.post("/labels")
def label(body: Label, session: Ready, by: Annotating) -> Stored:
    """Say what an item is. Any item may be labelled by anybody at any time, leased or not.

    With `source` "review" the label has the last word, so that needs a reviewer.
    """
    if body.source == "review":
        require_role(by, "reviewer", "settle labels in a review")
    return session.label(
        body.item,
        class_number(session, body.label),
        own_name(by, body.annotator),
        body.key,
        seconds=body.seconds,
        suggestion=body.suggestion,
        source=body.source,
        ago=body.ago,
    )


@router.post("/labels/many")
def label_many(body: Labels, session: Ready, by: Annotating) -> Stored:
    """Say that several items are of one class; one undo takes all back.

    Of near-copies (`source` copies) those that cannot be answered along any more are named in `left_out`.
    """
    return session.label_many(
        body.items,
        class_number(session, body.label),
        own_name(by, body.annotator),
        body.key,
        source=body.source,
        seconds=body.seconds,
        suggestion=body.suggestion,
        ago=body.ago,
    )


@router.post("/skip")
def skip(body: OfItem, session: Ready, by: Annotating) -> Stored:
    """Not now."""
    return session.skip(body.item, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/dont-know")
def dont_know(body: OfItem, session: Ready, by: Annotating) -> Stored:
    """This annotator cannot tell; another may."""
    return session.dont_know(body.item, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/bad")
def bad(body: OfItem, session: Ready, by: Annotating) -> Stored:
    """No item of this pool: broken, private, off topic."""
    return session.bad(body.item, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/keep", summary="Keep labels in a review")
def keep(body: OfItem, session: Ready, by: Reviewing) -> Stored:
    """Looked at again in a review: the label is right."""
    return session.keep(body.item, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/settle", summary="Settle disputes")
def settle(body: Settle, session: Ready, by: Reviewing) -> Stored:
    """A reviewer's last word about an item on which people differ, or whose label a review changed."""
    number = class_number(session, body.label)
    return session.settle(body.item, number, own_name(by, body.annotator), body.key, note=body.note, ago=body.ago)


@router.post("/flag")
def flag(body: Flag, session: Ready, by: Annotating) -> Stored:
    """Mark an item for somebody to look at, with a note; the item stays leased."""
    return session.flag(body.item, own_name(by, body.annotator), body.key, on=body.on, note=body.note, ago=body.ago)


@router.post("/put-back")
def put_back(body: PutBack, session: Ready, by: Annotating) -> Stored:
    """Let items be asked again that were skipped, or not known: an annotator's own, or for reviewers anybody's."""
    own = not may(by.role, "reviewer")
    return session.put_back(body.what, own_name(by, body.annotator), body.key, own=own)


@router.post("/items/label")
def label_items(body: LabelItems, session: Ready, by: Annotating) -> Stored:
    """Label many items at once; one undo takes all of it back.

    A reviewer's has the last word on items that others labelled, as in a review; an annotator's is one among them.
    """
    decision = BulkDecision("label", tuple(body.items), label=class_number(session, body.label))
    person, may_overrule = own_name(by, body.annotator), may(by.role, "reviewer")
    return session.decide_items(decision, person, body.key, may_overrule=may_overrule, ago=body.ago)


@router.post("/items/flag")
def flag_items(body: FlagItems, session: Ready, by: Annotating) -> Stored:
    """Flag many items at once with one note, or take your own flags away; one undo takes all of it back."""
    decision = BulkDecision("flag" if body.on else "unflag", tuple(body.items), note=body.note)
    return session.decide_items(decision, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/items/bad")
def call_items_bad(body: OfItems, session: Ready, by: Annotating) -> Stored:
    """Leave many items out of everything at once; one undo takes all of it back."""
    decision = BulkDecision("bad", tuple(body.items))
    return session.decide_items(decision, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/items/put-back", summary="Put back what others set aside")
def put_items_back(body: PutItemsBack, session: Ready, by: Reviewing) -> Stored:
    """Take away what put these items aside, whoever said it; one undo takes all of it back."""
    decision = BulkDecision("put_back", tuple(body.items), what=body.what)
    return session.decide_items(decision, own_name(by, body.annotator), body.key, ago=body.ago)


@router.post("/items/look", summary="Look for new items")
def look_for_items(body: Who, session: Ready, by: Owning) -> SourceLook:
    """Look now whether there are new files beside the items, or new rows in their table: they join by themselves.

    That takes a moment: a file must have stood still, and is encoded. `items_news` of the status says when they joined.
    """
    own_name(by, body.annotator)
    return session.growth.look_now()


@router.post("/undo")
def undo(body: Act, session: Ready, by: Annotating) -> Undone:
    """Take the annotator's last decision back. Again and again goes back step by step."""
    return session.undo(own_name(by, body.annotator), body.key)


@router.post("/release")
def release(body: Who, session: Ready, by: Annotating) -> dict[str, str]:
    """Hand back what was leased and not answered."""
    session.release(own_name(by, body.annotator))
    return {}


@router.post("/classes", summary="Add classes")
def add_class(body: NewClass, session: Ready, by: Owning) -> Stored:
    """One class more, for everybody. One that is easily taken for another is refused unless `alike` is given."""
    return session.add_class(body.name, own_name(by, body.annotator), body.key, item=body.item, alike=body.alike)


@router.post("/classes/change", summary="Change classes")
def change_class(body: ClassChange, session: Ready, by: Owning) -> ClassList:
    """Rename a class, hide it, or give it a key, a colour, a description or examples: only what is given."""
    values = body.model_dump(include=set(CHANGEABLE), exclude_none=True)
    return session.change_class(body.number, values, own_name(by, body.annotator), body.key, alike=body.alike)


@router.post("/classes/merge", summary="Merge classes")
def merge_class(body: ClassMerge, session: Ready, by: Owning) -> ClassList:
    """Let a class be another: its labels and what models predict of it count for that one."""
    return session.merge_class(body.number, body.into, own_name(by, body.annotator), body.key)


@router.post("/classes/remove", summary="Remove classes")
def remove_class(body: ClassRemoval, session: Ready, by: Owning) -> ClassList:
    """Remove a class. Its items are unlabelled again, or of the class `into`."""
    who = own_name(by, body.annotator)
    if body.into is not None:
        return session.merge_class(body.number, body.into, who, body.key)
    return session.remove_class(body.number, who, body.key)


@router.post("/classes/order", summary="Order classes")
def order_classes(body: ClassOrder, session: Ready, by: Owning) -> ClassList:
    """Show the classes in this order."""
    return session.order_classes(body.order, own_name(by, body.annotator), body.key)


@router.post("/classes/undo", summary="Take changes of classes back")
def undo_class_change(body: ClassUndo, session: Ready, by: Owning) -> ClassList:
    """Take one change of classes back, whoever made it and whatever happened since."""
    return session.undo_class_change(body.change, own_name(by, body.annotator), body.key)


@router.post("/folders", summary="Decide about folders")
def decide_folders(body: FolderChoice, holder: Holding, by: Owning) -> Status:
    """Say whether the folders of images are classes, and their images labelled by them; while nobody has labelled."""
    own_name(by, body.annotator)
    return holder.decide_folders(body.labels)


@router.post("/settings", summary="Change settings")
def change_settings(body: SettingsChange, session: Ready, by: Owning) -> ProjectSettings:
    """Change settings of the project, for everybody: only what is given. `notes` says what it means."""
    changes = body.model_dump(exclude={"annotator", "key"}, exclude_none=True)
    return session.change_settings(changes, own_name(by, body.annotator), body.key)


@router.post("/train", summary="Start a training")
def train(body: Who, session: Ready, by: Owning) -> Training:
    """Train now, if there is something new to learn; the answer is where training stands."""
    own_name(by, body.annotator)
    return session.train()
