"""The way from an app to its store: opened when first used, replaced while tests run, closed and opened anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

from headrace.errors import ConfigurationError, StoreBusy
from headrace.locks import is_mine, reentrant_lock
from headrace.store import Store, open_store
from headrace.store.contract import Facet, Operation
from headrace.store.facets import Rows, Sql, refusal
from headrace.store.urls import HiddenUrl, load_driver
from headrace.values.clock import Clock, SystemClock

DEFAULT_URL = "sqlite:///headrace.db"


class _OpenedWhenNeeded:
    """Stands for the store until it is an attribute of the app. (`__getattr__` would slow all attributes down.)"""

    def __get__(self, holder: StoreHolder | None, owner: type) -> Store | _OpenedWhenNeeded:
        return self if holder is None else holder._open()


class StoreHolder:
    """What an app knows about its store. The base of `Headrace`."""

    url = HiddenUrl()
    """Where the jobs live, with its password if there is one: `shown_url` leaves that out."""

    store = cast("Store", _OpenedWhenNeeded())
    """The store. It is opened when first needed, and a plain attribute from then on."""

    def __init__(self, url: str | None, clock: Clock | None, pool: object | None = None) -> None:
        if url is not None and not isinstance(url, str):
            raise ConfigurationError(f"A store's URL is text, as in 'sqlite:///jobs.db', not {url!r}.")
        self.url = url or os.environ.get("HEADRACE_STORE") or DEFAULT_URL
        load_driver(self.url)
        self.pool = pool
        """The program's own pool. Worker processes and isolated jobs open connections by themselves, by the URL."""
        self._clock = clock
        self.clock: Clock = clock or SystemClock()
        self._own: tuple[Store | None, Clock] = (None, self.clock)
        self._stand_ins: list[tuple[Store, Clock]] = []
        """What each `testing()` put in place, the innermost last. While there is one, nothing opens `url`."""
        self._opening = reentrant_lock()

    def _open(self) -> Store:
        if is_mine(self._opening):
            raise StoreBusy(
                "The store is just being opened by this very thread, which this code interrupts (a signal handler, "
                "or __del__). Nothing was done. Use the store once before the handler is installed."
            )
        with self._opening:
            if "store" not in vars(self):
                self.store = self._introduced(open_store(self.url, clock=self._clock, pool=self.pool, create=None))
        return self.store

    @property
    def _opened(self) -> Store | None:
        found: Store | None = vars(self).get("store")
        return found

    def _place(self, store: Store | None) -> None:
        if store is None:
            vars(self).pop("store", None)
        else:
            self.store = store

    def use_store(self, store: Store | None) -> Store | None:
        """Put another store in place (None: open `url` anew when needed). Returns the one before."""
        if store is None and self._stand_ins:
            store = self._stand_ins[-1][0]
        previous = self._opened
        self._place(None if store is None else self._introduced(store))
        return previous

    def stand_in(self, store: Store, clock: Clock) -> None:
        """Use this store and clock in place of the app's own until `stand_down`, whatever is closed meanwhile."""
        if not self._stand_ins:
            self._own = self._opened, self.clock
        self._stand_ins.append((store, clock))
        self.store, self.clock = store, clock

    def stand_down(self, store: Store) -> None:
        """End the use of a stand-in. Tests may end in any order, so the app's own store waits for the last one."""
        self._stand_ins = [place for place in self._stand_ins if place[0] is not store]
        store_before, self.clock = self._stand_ins[-1] if self._stand_ins else self._own
        self._place(store_before)

    @property
    def is_in_testing(self) -> bool:
        """Whether `testing()` has put another store in place."""
        return bool(self._stand_ins)

    def _introduced(self, store: Store) -> Store:
        """A dialect may need to know the tasks: how they are named on its wire, in which order they take arguments."""
        serve = getattr(store, "serve", None)
        if serve is not None:
            serve(self)
        return store

    def _create_store(self) -> None:
        """Create the store before a look that something is written after. (A look alone creates no schema.)"""
        create = getattr(self.store, "create", None)
        if create is not None:
            create()

    async def _acreate_store(self) -> None:
        if hasattr(self.store, "create"):
            from asyncio import to_thread  # noqa: PLC0415  (half of what `import headrace` would take)

            await to_thread(self._create_store)

    def close(self) -> None:
        """Let go of the store; the next use opens it anew. Inside `testing()` its store stays until the end."""
        store = self._opened
        if store is not None and not self._stand_ins:
            store.close()
            self._place(None)

    async def aclose(self) -> None:
        """The same, from async code."""
        from asyncio import to_thread  # noqa: PLC0415  (half of what `import headrace` would take)

        await to_thread(self.close)

    def require(self, facet: Facet, what: str) -> None:
        """Refuse in words what the store cannot do, before anything is written."""
        if facet not in self.store.facets:
            raise refusal(self.store, facet, asked=what)

    def require_option(self, facet: Facet, option: str, what: str = "") -> None:
        """Refuse an option in words if the store can't do what it needs, and carries it in no other way either."""
        if option not in getattr(self.store, "CARRIES", ()):
            self.require(facet, what or f"{option}=")

    def carries_headers(self) -> bool:
        """Whether jobs in the store can have headers. (Some wires have no place for them.)"""
        return "headers" not in getattr(self.store, "REFUSES", ())

    def sql(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Look at a SQLite or PostgreSQL store with one statement that reads. `values` are for its question marks.

        Python's `sqlite3` is not safe for that in a process that uses headrace; see docs/stores/sqlite.md.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task(name="greet")
        ... def greet(name: str) -> None: ...
        >>> job = greet.enqueue("ada")
        >>> app.sql("SELECT task, state FROM jobs WHERE id = ?", job.id)
        [{'task': 'greet', 'state': 'ready'}]
        """
        return _records(self.store.run(self._sql(query, values)))

    async def asql(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """The same, from async code."""
        return _records(await self.store.arun(self._sql(query, values)))

    def _sql(self, query: str, values: Sequence[Any]) -> Operation[Rows]:
        self.require(Facet.SQL, "sql()")
        return cast("Sql", self.store).sql(query, values)


def _records(found: Rows) -> list[dict[str, Any]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
