"""A batch of requests in one transaction, each atomic by itself.

A commit is what costs time, so requests of different clients share one. Each runs within a savepoint, and none is
answered before the commit: an answer that a client has seen survives kill -9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import apsw

from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.statements import SQL
from headrace.dialects.bedrock.server.transaction import Transaction
from headrace.dialects.bedrock.wire import Refused, compose

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")

T = TypeVar("T")
Headers = Iterable[tuple[str, str]]

_SAVEPOINT, _RELEASE, _UNDO = "SAVEPOINT command", "RELEASE command", "ROLLBACK TO command"


class Broken(Exception):
    """The whole transaction is lost (a full disk, say): nothing of this batch has happened."""


class Batch:
    """Collects answers until the transaction is committed; then they go out."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection = server.database.connection
        self._transaction: Transaction | None = None
        self._answers: dict[Connection, list[bytes]] = {}
        self._handed_out: dict[Connection, list[int]] = {}
        self._last_answers: set[Connection] = set()
        self.size = 0
        """Bytes of all answers."""
        self._waking = False
        self.commits = server.commit_count
        self.after_commit: list[Callable[[], None]] = []

    # -- working --

    @property
    def transaction(self) -> Transaction:
        if self._transaction is None:
            self._connection.execute("BEGIN IMMEDIATE")
            server = self._server
            self._transaction = Transaction(self._connection, server.clock.now(), server.blacklist, server.by_names)
        return self._transaction

    def run(self, work: Callable[[Transaction], T], *, writes: bool = False) -> T:
        """Run one command: all of it happens, or it raises `Refused` and nothing has."""
        try:
            tx = self.transaction
            execute = tx.execute
            execute(_SAVEPOINT)
            before = self._connection.total_changes()
            news = len(tx.runnable)
            try:
                result = work(tx)
            except BaseException:
                del tx.runnable[news:]
                tx.woken = False
                if self._connection.in_transaction:
                    execute(_UNDO)
                    execute(_RELEASE)
                raise
            execute(_RELEASE)
        except Refused:
            if not self._connection.in_transaction:  # a query said INSERT OR ROLLBACK, and was alone in its batch
                self._transaction = None
            raise
        except apsw.ConstraintError:
            raise Refused("400 Unique Constraints Violation") from None
        except apsw.Error as error:
            log.error("a command failed: %s", error)
            if not self._connection.in_transaction:
                raise Broken(str(error)) from error
            raise Refused("502 Query failed", ("error", str(error))) from None
        except Exception:
            log.exception("a command failed")
            raise Refused("500 Unhandled Exception") from None
        if writes or self._connection.total_changes() != before:
            self.commits += 1
        if not self._waking and (tx.runnable or tx.woken):
            self._waking = True
            self._server.waits.serve(self, tx)
            self._waking = False
        return result

    # -- answering --

    def answer(self, connection: Connection, answer: bytes, *, last: bool = False) -> None:
        """Answer once the batch is committed; `last`: and close."""
        self._answers.setdefault(connection, []).append(answer)
        self.size += len(answer)
        if last:
            connection.closing = True
            self._last_answers.add(connection)

    def reply(
        self, connection: Connection, status: str, headers: Headers = (), body: bytes = b"", *, last: bool = False
    ) -> None:
        common = [("commitCount", str(self.commits)), ("nodeName", self._server.options.node_name)]
        closing = [("Connection", "close")] if last else []
        self.answer(connection, compose(status, [*common, *headers, *closing], body), last=last)

    def refuse(self, connection: Connection, refused: Refused, *, last: bool = False) -> None:
        self.reply(connection, refused.status, refused.headers, last=last)

    def succeed(self, connection: Connection, body: str = "", ids: Sequence[int] = (), *, last: bool = False) -> None:
        """`ids`: of the jobs that this hands out."""
        if ids:
            self._handed_out.setdefault(connection, []).extend(ids)
        if last:
            self.reply(connection, "200 OK", (), body.encode(), last=True)
            return
        encoded = body.encode()
        # The same as reply(), for the one answer that is sent thousands of times a second.
        common = f"commitCount: {self.commits}\r\n{self._server.node_line}"
        head = f"200 OK\r\n{common}Content-Length: {len(encoded)}\r\n\r\n"
        self._answers.setdefault(connection, []).append(head.encode() + encoded)
        self.size += len(encoded)

    # -- the end --

    def finish(self) -> None:
        """Commit, then answer. If the commit fails nothing has happened, and all answers say so."""
        try:
            if self._transaction is not None:
                if self.commits != self._server.commit_count:
                    self._connection.execute(SQL["save_commit_count"], (self.commits,))
                self._connection.execute("COMMIT")
        except apsw.Error as error:
            self.give_up(error)
            return
        self._server.commit_count = self.commits
        self._send()

    def give_up(self, error: Exception) -> None:
        """Nothing of this batch has happened: say so instead of what would have been said."""
        log.error("a transaction was lost, and nothing in it has happened: %s", error)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._handed_out.clear()
        headers = [("nodeName", self._server.options.node_name), ("error", str(error))]
        failure = compose("500 Unhandled Exception", headers)
        self._answers = {connection: [failure] * len(answers) for connection, answers in self._answers.items()}
        self._send()

    def _send(self) -> None:
        for connection, answers in self._answers.items():
            data = answers[0] if len(answers) == 1 else b"".join(answers)
            connection.send(data, self._handed_out.get(connection, []))
            if connection in self._last_answers:
                connection.close()
        self._server.bound_unread()
        for act in self.after_commit:
            act()
