"""Jobs that are part of the caller's own transaction: which connection an enqueue goes through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from headrace.options import refuse_unknown
from headrace.records import NewJob, Put
from headrace.store.batches import thousands
from headrace.store.contract import Operation
from headrace.store.facets import transactional

if TYPE_CHECKING:
    from headrace.app import Headrace


class Block:
    """A `with app.transaction(connection):` block. Tasks and threads that outlive it may still have it in context."""

    __slots__ = ("app", "connection", "outer")

    def __init__(self, app: Headrace, connection: object, outer: Block | None) -> None:
        self.app = app
        self.connection: object | None = connection
        """None: the block has ended."""
        self.outer = outer


open_block: ContextVar[Block | None] = ContextVar("headrace_transaction", default=None)


@contextmanager
def block(app: Headrace, connection: object) -> Iterator[None]:
    """Have every enqueue of an app inside go through a connection."""
    putting(app, [], connection)  # refuses now what could not be used later
    entered = Block(app, connection, open_block.get())
    token = open_block.set(entered)
    try:
        yield
    finally:
        entered.connection = None
        open_block.reset(token)


def connection_for(app: Headrace, given: object | None) -> object | None:
    """What an enqueue goes through: the connection given, that of the innermost block, or None: the store's own."""
    if given is not None:
        return given
    found = open_block.get()
    while found is not None and (found.app is not app or found.connection is None):
        found = found.outer
    return None if found is None else found.connection


def putting(app: Headrace, jobs: list[NewJob], connection: object) -> Operation[list[Put]]:
    """The put of these jobs through a connection."""
    return transactional(app.store, "connection=").put_within(connection, jobs)


def require_known(app: Headrace, named: Sequence[str], connection: object | None = None) -> None:
    """Refuse to let a job come after one that was never there."""
    for ids in thousands(named):
        refuse_unknown(ids, app.store.run(_looking_for(app, ids, connection)))


async def arequire_known(app: Headrace, named: Sequence[str], connection: object | None = None) -> None:
    """The same as `require_known`, from async code."""
    for ids in thousands(named):
        refuse_unknown(ids, await app.store.arun(_looking_for(app, ids, connection)))


def _looking_for(app: Headrace, ids: Sequence[str], connection: object | None) -> Operation[Any]:
    """Which of these jobs there are, seen through a connection or not: something true for each."""
    store = app.store
    if connection is None:
        return store.get(ids)
    return transactional(store, "connection=").known_within(connection, ids)
