"""Statements on a connection, many in one round trip, without cursors: psycopg's take as long as the server does.

So what the owner of a connection that was lent has set on psycopg's object does not matter, nor does it change.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeAlias

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult

from headrace.store.postgres.arrays import encoded

Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""A text and its values."""
Statements: TypeAlias = Sequence[Statement]
_BINARY, _FAILED, _SYNC = int(pq.Format.BINARY), int(pq.ExecStatus.FATAL_ERROR), int(pq.ExecStatus.PIPELINE_SYNC)


SILENT_SECONDS = 5.0
"""After so long without a word from the server it is found out whether it still works on what it was sent."""
Works: TypeAlias = Callable[[int, float], bool]
"""Whether the server process with this number works, having been silent for so many seconds."""


class Silence(psycopg.OperationalError):
    """The server does not answer, although it has nothing left to do for us: its answer got lost."""


class TooLarge(Exception):
    """Statements whose values take more bytes than may be sent at once."""


class Wire:
    """A connection that one thread uses at a time: our own, or one that the app's pool has lent."""

    def __init__(
        self,
        connection: Any,
        give_back: Callable[[], None] | None = None,
        *,
        works: Works = lambda _, __: False,
    ) -> None:
        self.connection = connection
        self.pgconn: PGconn = connection.pgconn
        self.give_back = give_back
        """To the pool that has lent it; None: it is ours."""
        self._works = works
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] | None = None
        """The statements that are prepared, by text and types of values. None: when it is lent again, none is known."""
        self._round = 0
        """How often all of them were forgotten."""
        self.reads_committed = True
        """Whether a transaction that does not say otherwise sees what others have committed meanwhile."""

    def prepare(self) -> None:
        """From now on statements are prepared when they are first run."""
        self._names = {}

    def close(self) -> None:
        if self.give_back is None:
            self.connection.close()
        else:
            self.pgconn.finish()
            self.give_back()

    def run(
        self, statements: Statements, *, prepare: bool = True, then: Statements = (), at_most: int | None = None
    ) -> list[PGresult]:
        """Run statements, in order, in one round trip. Raises the first error, behind which none was run.

        What comes `then` is run after these have been committed. One that need not be prepared is sent without a
        pipeline, which is quicker. If the values take more than `at_most` bytes, nothing is sent: `TooLarge`.
        """
        if len(statements) == 1 and prepare and at_most is None and not then:
            found = self._run_prepared(*statements[0])
            if found is not None:
                return [found]
        wire, names, new = self.pgconn, self._names if prepare else None, False
        ready = [(text, *encoded(values)) for text, values in (*statements, *then)]
        if at_most is not None:
            given_all = chain.from_iterable([given for _, given, _, _ in ready])
            if sum(map(len, filter(None, given_all))) > at_most:
                raise TooLarge
        alone = len(ready) == 1 and (names is None or all((text, types) in names for text, _, types, _ in ready))
        if not alone:
            wire.enter_pipeline_mode()
        for place, (text, given, types, formats) in enumerate(ready):
            if then and place == len(statements):
                wire.pipeline_sync()
            if names is None:
                wire.send_query_params(text.encode(), given, types, formats, _BINARY)
                continue
            key = text, types
            if key not in names:
                new, names[key] = True, _name(key, self._round)
                wire.send_prepare(names[key], text.encode(), types)
            wire.send_query_prepared(names[key], given, formats, _BINARY)
        if not alone:
            wire.pipeline_sync()
        results = self._results(alone, 2 if then else 1)
        for result in results:
            if result.status == _FAILED:
                if new and names is not None:
                    names.clear()  # the server may not know all of them
                    self._round += 1
                raise error_from_result(result)
        return [result for result in results if result.command_status] if new else results  # not of what was prepared

    def _run_prepared(self, text: str, values: tuple[Any, ...]) -> PGresult | None:
        """The result of a statement that is prepared already; None: it is not. `run`, written out for plain jobs."""
        given, types, formats = encoded(values)
        name = None if self._names is None else self._names.get((text, types))
        if name is None:
            return None
        self.pgconn.send_query_prepared(name, given, formats, _BINARY)
        result, *_ = self._results(True, 1)
        if result.status == _FAILED:
            raise error_from_result(result)
        return result

    def _results(self, alone: bool, syncs: int) -> list[PGresult]:
        """The results of all that was sent; or up to the last word of a server that hangs up."""
        wire, results = self.pgconn, list[PGresult]()
        try:
            while wire.flush():  # more than the socket takes
                both = select.poll()
                both.register(wire.socket)
                self._wait(both)
                wire.consume_input()
            while True:
                while wire.is_busy():
                    self._wait(self._poll)
                    wire.consume_input()
                if (result := wire.get_result()) is None:  # a statement has no more of them
                    if alone:
                        return results
                    continue
                if result.status == _SYNC:
                    syncs -= 1
                    if syncs:
                        continue
                    wire.exit_pipeline_mode()
                    return results
                results.append(result)
        except psycopg.OperationalError:
            if all(result.status != _FAILED for result in results):
                raise
            return results

    def _wait(self, poll: select.poll) -> None:
        """Sleep until something can be read or written, as long as the server works."""
        begun = time.monotonic()
        while not poll.poll(SILENT_SECONDS * 1000):
            silent = time.monotonic() - begun
            if not self._works(self.pgconn.backend_pid, silent):
                self.pgconn.finish()
                raise Silence(f"the server has not answered for {silent:.0f} s")

    def query(self, text: str, *values: Any) -> list[Any]:
        """The rows of a statement."""
        return rows_of(*self.run([(text, values)]))


def _name(key: tuple[str, tuple[int, ...]], number: int) -> bytes:
    """Of a prepared statement. Should a pooler give its connection to others: the same name means the same text."""
    return f"headrace {blake2b(repr(key).encode(), digest_size=12).hexdigest()} {number}".encode()


def rows_of(result: PGresult) -> list[Any]:
    """The rows of a result, as tuples."""
    if not result.ntuples:
        return []
    reader = Transformer()
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)
