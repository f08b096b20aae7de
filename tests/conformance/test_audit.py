"""What operators have done is written down."""

from __future__ import annotations

from headrace.store.contract import Store
from headrace.values.clock import ManualClock


def test_acts_are_read_newest_first_and_page_by_page(store: Store, clock: ManualClock) -> None:
    for name in ("cancel", "delete", "pause"):
        store.run(store.note("me", name, f"about {name}"))
        clock.advance(5)
    acts = store.run(store.audit())
    assert [(act.who, act.what, act.about) for act in acts] == [
        ("me", name, f"about {name}") for name in ("pause", "delete", "cancel")
    ]
    assert [act.at for act in acts] == [clock.now() - 5, clock.now() - 10, clock.now() - 15]
    assert store.run(store.audit(1)) == acts[:1]
    assert store.run(store.audit(9, acts[0].number)) == acts[1:]
    assert store.run(store.audit(9, acts[-1].number)) == []


def test_acts_older_than_ninety_days_go_with_the_next_one(store: Store, clock: ManualClock) -> None:
    day = 86_400_000
    store.run(store.note("me", "cancel", "the first"))
    clock.advance(60 * day)
    store.run(store.note("me", "cancel", "the second"))
    clock.advance(30 * day)
    store.run(store.note("me", "cancel", "on the ninetieth day"))
    assert len(store.run(store.audit())) == 3
    clock.advance(1)
    store.run(store.note("me", "cancel", "after it"))
    assert [act.about for act in store.run(store.audit())] == ["after it", "on the ninetieth day", "the second"]


def test_a_store_in_which_nobody_acted_has_no_acts(store: Store) -> None:
    assert store.run(store.audit()) == []
