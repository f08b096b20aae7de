"""Statements on a connection, many in one round trip, without cursors: psycopg's take as long as the server does.

So what the owner of a connection that was lent has set on psycopg's object does not matter, nor does it change.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from itertools import count
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


class Wire:
    """A connection that one thread uses at a time: our own, or one that the app's pool has lent."""

    def __init__(self, connection: Any, give_back: Callable[[], None] | None = None, *, prepare: bool = False) -> None:
        self.connection = connection
        self.pgconn: PGconn = connection.pgconn
        self.give_back = give_back
        """To the pool that has lent it; None: it is ours."""
        self._numbers = count()
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] | None = {} if prepare else None
        """The statements that are prepared, by text and types of values. None: when it is lent again, none is known."""

    def close(self) -> None:
        if self.give_back is None:
            self.connection.close()
        else:
            self.pgconn.finish()
            self.give_back()

    def run(self, statements: Statements, *, prepare: bool = True) -> list[PGresult]:
        """Run statements, in order, in one round trip. Raises the first error, behind which none was run.

        One that need not be prepared is sent without a pipeline, which is quicker.
        """
        wire, names, new = self.pgconn, self._names if prepare else None, False
        ready = [(text, *encoded(values)) for text, values in statements]
        alone = len(ready) == 1 and (names is None or all((text, types) in names for text, _, types, _ in ready))
        if not alone:
            wire.enter_pipeline_mode()
        for text, given, types, formats in ready:
            if names is None:
                wire.send_query_params(text.encode(), given, types, formats, _BINARY)
                continue
            key = text, types
            if key not in names:
                new, names[key] = True, b"headrace %d" % next(self._numbers)
                wire.send_prepare(names[key], text.encode(), types)
            wire.send_query_prepared(names[key], given, formats, _BINARY)
        if not alone:
            wire.pipeline_sync()
        results = self._results(alone)
        for result in results:
            if result.status == _FAILED:
                if new and names is not None:
                    names.clear()  # the server may not know all of them
                raise error_from_result(result)
        return [result for result in results if result.command_status] if new else results  # not of what was prepared

    def _results(self, alone: bool) -> list[PGresult]:
        """The results of all that was sent; or up to the last word of a server that hangs up."""
        wire, results = self.pgconn, list[PGresult]()
        try:
            while wire.flush():  # more than the socket takes
                both = select.poll()
                both.register(wire.socket)
                both.poll()
                wire.consume_input()
            while True:
                while wire.is_busy():
                    self._poll.poll()
                    wire.consume_input()
                if (result := wire.get_result()) is None:  # a statement has no more of them
                    if alone:
                        return results
                    continue
                if result.status == _SYNC:
                    wire.exit_pipeline_mode()
                    return results
                results.append(result)
        except psycopg.OperationalError:
            if all(result.status != _FAILED for result in results):
                raise
            return results

    def query(self, text: str, *values: Any) -> list[Any]:
        """The rows of a statement."""
        return rows_of(*self.run([(text, values)]))


def rows_of(result: PGresult) -> list[Any]:
    """The rows of a result, as tuples."""
    if not result.ntuples:
        return []
    reader = Transformer()
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)
