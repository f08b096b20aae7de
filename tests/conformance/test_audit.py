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


def test_a_store_in_which_nobody_acted_has_no_acts(store: Store) -> None:
    assert store.run(store.audit()) == []
