"""Which transaction a job is part of: the one of `OPTIONS["database"]`, or the store's own after that has committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.db import connections

from headrace.errors import ConfigurationError, Unsupported
from headrace.transactions import putting

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.store import Store

_known: WeakKeyDictionary[Store, dict[str, bool]] = WeakKeyDictionary()
"""By store and alias: whether the alias leads to the database of the store."""


def joined_connection(app: Headrace, alias: str) -> Any:
    """The connection of an alias if it leads to the store's database, so that jobs can be part of its transactions.

    The database is asked once: two URLs may name the same one, and two that look the same may not.
    """
    store = app.store
    known = _known.setdefault(store, {})
    if alias not in known:
        known[alias] = leads_to_store(app, alias)
    return connections[alias] if known[alias] else None


def leads_to_store(app: Headrace, alias: str) -> bool:
    """Whether jobs can be put through the connection of an alias: puts none there, and looks what becomes of that."""
    app._create_store()
    try:
        app.store.run(putting(app, [], connections[alias]))
    except (ConfigurationError, Unsupported):
        return False
    return True
