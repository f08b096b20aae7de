"""Jobs in a store that knows nothing of the caller's database: the hooks that docs/transactions.md shows."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from store.redis import servers

from .callers import OnPostgres, configure, confirm, engine, purchase_of_django, purchase_of_sqlalchemy

PAGE = (Path(__file__).parents[2] / "docs/transactions.md").read_text("utf-8")
DJANGO, SQLALCHEMY = re.findall(
    r"^```python\n(.*?)^```", PAGE.partition("### Elsewhere")[2].partition("\n## ")[0], re.MULTILINE | re.DOTALL
)


@pytest.fixture
def app() -> Iterator[Headrace]:
    """Where the jobs are."""
    made = Headrace(servers.fresh_url())
    made.task(name="confirm")(confirm)
    yield made
    made.close()


@pytest.fixture
def run(shop: OnPostgres, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs an example with these names in the modules `shop` and `shop.models`. Returns its own names."""

    def run(example: str, purchase: Any, **more: Any) -> dict[str, Any]:
        program, models = types.ModuleType("shop"), types.ModuleType("shop.models")
        program.__dict__.update(confirm=app.tasks["confirm"], Purchase=purchase, **more)
        models.__dict__.update(Purchase=purchase)
        monkeypatch.setitem(sys.modules, "shop", program)
        monkeypatch.setitem(sys.modules, "shop.models", models)
        names: dict[str, Any] = {}
        exec(example, names)
        return names

    return run


def enqueued(app: Headrace) -> list[int]:
    app.worker().run_until_empty()
    return sorted(job.refresh().result() for job in app.jobs())


def test_django(shop: OnPostgres, app: Headrace, run: Callable[..., dict[str, Any]]) -> None:
    pytest.importorskip("django")
    configure(shop.url)
    names = run(DJANGO, purchase_of_django())
    assert (shop.purchases(), enqueued(app)) == (1, [7])
    with names["transaction"].atomic():
        names["transaction"].on_commit(lambda: app.tasks["confirm"].enqueue(8))
        names["transaction"].set_rollback(True)
    assert enqueued(app) == [7]


def test_sqlalchemy(shop: OnPostgres, app: Headrace, run: Callable[..., dict[str, Any]]) -> None:
    event = pytest.importorskip("sqlalchemy").event
    names = run(SQLALCHEMY, purchase_of_sqlalchemy(), engine=engine(shop.url))
    session_class, purchase = names["Session"], names["Purchase"]

    def buy(session: Any, number: int) -> None:
        session.add(purchase(number=number))
        session.info.setdefault("calls", []).append(lambda: app.tasks["confirm"].enqueue(number))

    try:
        assert (shop.purchases(), enqueued(app)) == (1, [7])
        with session_class(engine(shop.url)) as session:
            buy(session, 8)
            session.rollback()
            with session.begin_nested():
                buy(session, 9)
            assert enqueued(app) == [7], "a savepoint was released, and nothing is committed"
            session.rollback()
            buy(session, 10)
            with pytest.raises(LookupError), session.begin_nested():
                raise LookupError
            session.commit()
        assert (shop.purchases(), enqueued(app)) == (2, [7, 10])
    finally:
        event.remove(session_class, "after_commit", names["make_calls"])
        event.remove(session_class, "after_transaction_end", names["forget_calls"])
