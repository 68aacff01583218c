"""Near-copies that can be answered together with an item, and what becomes of the others.

Only items that nobody has dealt with are answered along. Audit items never are, neither as the item on the screen nor
as its copies: they are a random sample, each answered when it is asked for. Training items that are chosen for being
like an audit item would make the model look better than it is.
"""

from collections import Counter
from collections.abc import Sequence

from understudy.messages import count_of
from understudy.sessions.near_copies import NearCopy
from understudy.sessions.record import Record
from understudy.sessions.replies import Copies, Copy
from understudy.sessions.views import SessionState, show_item


def _may_follow(record: Record, item: int) -> bool:
    """Whether an item can be given the answer of its near-copy: nobody has dealt with it, or is at it now."""
    return record.state_of(item)[0] == "open"


def items_to_follow(record: Record, items: Sequence[int]) -> tuple[list[int], list[int]]:
    """The items that a call about near-copies labels, the first always among them; and those that are left out."""
    first, *others = items
    allowed = record.settings.copies == "ask" and not record.is_audit(first)
    followers = [item for item in others if allowed and _may_follow(record, item)]
    return [first, *followers], [item for item in others if item not in set(followers)]


def show_copies(state: SessionState, item: int, near: Sequence[NearCopy]) -> Copies:
    """The near-copies of an item as they are shown."""
    record = state.record
    if record.settings.copies == "off":
        return _no_copies(item, "This project does not look for near-copies; see its settings.")
    if record.is_audit(item):
        return _no_copies(item, "This is an audit item, which is answered on its own: the sample stays random.")
    others = Counter(_why_not(record, each.item) for each in near)
    found = [_show(state, each) for each in near if _may_follow(record, each.item)]
    return Copies(
        item,
        found,
        labelled=others["labelled"],
        audit=others["audit"],
        elsewhere=others["elsewhere"],
        line=_describe(len(found), others) if near else "",
    )


def _no_copies(item: int, line: str) -> Copies:
    return Copies(item, [], labelled=0, audit=0, elsewhere=0, line=line)


def _show(state: SessionState, near: NearCopy) -> Copy:
    look = show_item(state.project, near.item)
    return Copy(look.item, look.id, look.kind, look.text, exact=near.is_exact, distance=near.distance)


def _why_not(record: Record, item: int) -> str:
    """Why a near-copy is not answered along; "" where it can be."""
    if _may_follow(record, item):
        return ""
    if record.is_audit(item):
        return "audit"
    return "labelled" if record.label_of(item) is not None or record.decisions(item).bad else "elsewhere"


def _describe(count: int, others: Counter[str]) -> str:
    parts = [f"{count_of(count, 'near-copy', 'near-copies')} can be labelled with it"]
    if labelled := others["labelled"]:
        parts.append(f"{labelled} {'has' if labelled == 1 else 'have'} an answer already")
    if audit := others["audit"]:
        parts.append(
            "1 is an audit item, which is asked for on its own"
            if audit == 1
            else f"{audit} are audit items, which are asked for on their own"
        )
    if elsewhere := others["elsewhere"]:
        parts.append(f"{elsewhere} {'is' if elsewhere == 1 else 'are'} with somebody, or skipped")
    return "; ".join(parts) + "."
