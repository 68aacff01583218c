"""Orders that are kept for a block that may be lost: those that a look at all of them would keep, and no more."""

from collections.abc import Sequence

import numpy as np
import pytest

from understudy.distributed.orders import (
    ANCHORS,
    KEEPING,
    MASKS,
    MEASURES,
    OF_A_TRAINING,
    RESTARTS,
    STEPS,
    Order,
    OrderLog,
)

OTHERS = {"make", "restore"}
NAMES = sorted((MASKS | STEPS | MEASURES | KEEPING | ANCHORS | RESTARTS | OTHERS | {"lie_at"}) - {"pass_turns"})


def literal(orders: Sequence[Order]) -> list[tuple[str, object]]:
    """What is kept, by looking at every order that came before each; names and parcels."""
    kept: list[Order] = []
    for order in orders:
        gone: set[str] = set()
        if order.name == "set_masks":
            gone = MASKS
        elif order.name == "lie_at":
            gone = {"lie_at"}
        elif order.name == "measure":
            gone = MEASURES
        elif order.name in ANCHORS:
            gone = OF_A_TRAINING
        kept = [each for each in kept if each.name not in gone]
        if order.name in ANCHORS:
            after = [Order("extend", each.once_trained, once_trained=each.once_trained) for each in kept]
            kept = [new if each.name == "extend" else each for each, new in zip(kept, after, strict=True)]
        kept.append(order)
    return [(order.name, order.parcel) for order in kept]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_what_a_look_at_all_orders_keeps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    orders = [Order(str(rng.choice(NAMES)), number, once_trained=-number) for number in range(150)]
    log, given = OrderLog(), 0
    while given < len(orders):
        for order in orders[given : given + int(rng.integers(0, 12))]:
            log.add(order)
            given += 1
        assert log.given == given
        if rng.integers(3):
            log.note_sent()
            assert (log.sent, log.waiting) == (given, [])
            assert [(order.name, order.parcel) for order in log.all] == literal(orders[:given])


def test_steps_before_all_rows_are_computed_anew_are_a_number_of_turns() -> None:
    log = OrderLog()
    for order in (
        Order("make", "m"), Order("anchor", "a"), Order("apply", "s", steps=2), Order("close", "c"),
        Order("measure", "t"), Order("apply", "s", steps=3), Order("refresh", "r", covers_all=True),
        Order("reset_means", "b"),
    ):  # fmt: skip
        log.add(order)
        log.note_sent()
    assert [(order.name, order.steps) for order in log.all] == [
        ("make", 0), ("anchor", 0), ("close", 0), ("measure", 0), ("pass_turns", 5), ("refresh", 0), ("reset_means", 0),
    ]  # fmt: skip
