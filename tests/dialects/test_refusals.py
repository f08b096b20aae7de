"""`REFUSES` is what a dialect's store raises, and what its page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.helpers import new
from headrace import Headrace
from headrace.dialects.base import DialectStore
from headrace.dialects.bedrock.store import BedrockStore
from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.qless.store import QlessStore
from headrace.dialects.workkit import WorkKitStore
from headrace.errors import Unsupported
from headrace.options import CARRIED, OF_CALL, used
from headrace.records import Expiry, IfFailed, Lane

PAGES = Path(__file__).parents[2] / "docs" / "dialects"

STORES: dict[str, DialectStore] = {
    "bedrock": BedrockStore("bedrock://localhost"),
    "gearmonkey": GearMonkeyStore("gearmonkey+redis://localhost/0"),
    "hworker": HworkerStore("hworker+redis://localhost/0?name=mail"),
    "qless": QlessStore("qless+redis://localhost/0"),
    "workkit": WorkKitStore("workkit+redis://localhost/0?schedule=app"),
}
"""Nothing is listening there: a refusal comes before anything is sent."""

SHOWN = {
    **dict.fromkeys(CARRIED, "`using(...)`"),
    "unique": "`unique=`, `unique_key=`",
    "test": "`test=True`",
    "if_failed": '`if_failed="fail"` (the default) or `"run"`',
    "lane": "`lane=`, `rate=`, `sequence=`",
    "history": "`job.history()`",
    "revive": "`job.revive()`",
    "job_waiter": "`job.result()`",
    "requeue": "`job.requeue()`, and another queue for `job.revive()` or `job.take_back()`",
    "update": "`job.update()`",
    "failure_times": "first and last failure of a group, failures by hour",
    "tick": "ticking a schedule",
}
"""What users write for an option or an operation, where that is not the option's name."""

PARTLY: dict[type, dict[str, str]] = {
    BedrockStore: {
        "lane": "`lane=`, `limit=`, `rate=`",
        "priority": "`priority=`, other ones",
        "unique": "`unique=` with arguments, `unique_key=`, `unique_for=`, `on_clash=`",
        "after": "`after=`, several or others",
    },
    QlessStore: {"run_after": "`run_after=` as a delay, with `after=`"},
    WorkKitStore: {"unique": "`unique_key=`, `unique_for=`, `on_clash=`"},
}
"""The same where a wire carries some of it."""

USES: dict[str, dict[str, Any]] = {
    "run_after": {"after": ("a",), "if_failed": IfFailed.WAIT, "delay": 1_000},
    "priority": {"priority": 7},
    "retries": {"options": b'{"retries":1}'},
    "timeout": {"options": b'{"timeout":0}'},
    "keep_result": {"options": b'{"keep_result":false}'},
    "headers": {"options": b'{"headers":{"trace":"7"}}'},
    "expires": {"expires": Expiry(after=5)},
    "max_crashes": {"max_crashes": 9},
    "unique": {"unique_key": "k"},
    "require_worker": {"require_worker": True},
    "after": {"after": ("a",)},
    "if_failed": {"after": ("7",), "if_failed": IfFailed.RUN},
    "lane": {"lane": Lane("k")},
    "tags": {"tags": ("red",)},
    "id": {"nonce": "1"},
    "test": {"queue": "~default"},
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {"update": ("a", None, b"")}
"""Of an operation that takes more than an id."""
PARTS = {
    "queue",  # (every wire has one)
    *("limit", "rate", "sequence", "weight"),  # of a lane
    *("unique_key", "unique_for", "on_clash"),  # of unique
}
"""Options that belong to others."""

EACH = [(name, what) for name, store in STORES.items() for what in store.REFUSES]


def table_of(store: DialectStore) -> str:
    """The part of a page that the table gives."""
    words = SHOWN | PARTLY.get(type(store), {})
    shown = {words.get(what, f"`{what}=`"): sentence for what, sentence in store.REFUSES.items()}
    rows = [f"| {what} | {sentence.replace('|', '&#124;')} |" for what, sentence in shown.items()]
    return "\n".join(["| refused | the answer |", "| --- | --- |", *rows, ""])


@pytest.mark.parametrize("name", STORES)
def test_the_page_has_the_table_of_refusals(name: str) -> None:
    table = table_of(STORES[name])
    page = (PAGES / f"{name}.md").read_text("utf-8")
    assert f"\n{table}\n" in f"{page}\n", f"write this into docs/dialects/{name}.md:\n{table}"


def test_a_job_uses_the_options_that_it_was_put_with() -> None:
    for option, fields in USES.items():
        assert option in used(new("a", **fields))
    assert used(new("a")) == []


def test_every_option_that_a_wire_may_lack_has_an_example() -> None:
    assert set(USES) == set(OF_CALL) - PARTS


@pytest.mark.parametrize(("name", "what"), EACH)
def test_what_is_refused_raises_its_sentence_before_anything_is_sent(name: str, what: str) -> None:
    store: Any = STORES[name]
    arguments: tuple[Any, ...] = ARGUMENTS.get(what, ("a",))
    if what in USES:
        arguments = ([new("a", body=b"{}"), new("b", body=b"{}", **USES[what])],)
    operation = store.put if what in USES else getattr(store, what)
    with pytest.raises(Unsupported) as refused:
        operation(*arguments)
    assert str(refused.value) == store.REFUSES[what]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, option)
        for name, store in STORES.items()
        for option in USES
        if (facet := OF_CALL[option].facet) is not None and facet not in store.facets
    ],
)
def test_an_option_of_a_facet_that_the_store_lacks_is_refused(name: str, option: str) -> None:
    """With a sentence of its own or without."""
    store: Any = STORES[name]
    with pytest.raises(Unsupported):
        store.put([new("a", body=b"{}", **USES[option])])


@pytest.mark.parametrize("name", STORES)
def test_rules_of_lanes_are_refused_in_words(name: str) -> None:
    app = Headrace(STORES[name].url)
    app.use_store(STORES[name])
    lane = app.queue("q").lane("k")
    for act in (lambda: lane.limit(1), lambda: lane.rate("1/minute"), lane.clear):
        with pytest.raises(Unsupported, match="has no lanes: use a native store"):
            act()
