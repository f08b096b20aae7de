"""What a server answers, as a client reads it: the status as an exception, the headers, the body. No I/O here."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from headrace.dialects.bedrock.wire import unescape
from headrace.errors import HeadraceError


class BedrockError(HeadraceError):
    """The server refused. `status` is its whole status line; `detail` SQLite's message, if it sent one."""

    def __init__(self, status: str, detail: str = "") -> None:
        super().__init__(f"{status}: {detail}" if detail else status)
        self.status = status
        self.detail = detail


class MalformedAttribute(BedrockError):
    """402: a parameter is missing, or cannot be what it is."""


class DoesNotExist(BedrockError):
    """404: there is no such job, or none to run."""


class IllegalAction(BedrockError):
    """405: the job's state does not allow that."""


class SqlFailed(BedrockError):
    """502: the SQL could not be run."""


class WaitTimeout(BedrockError):
    """303: no job came in the time that was given."""


_ERRORS = {303: WaitTimeout, 402: MalformedAttribute, 404: DoesNotExist, 405: IllegalAction, 502: SqlFailed}


class Reply(NamedTuple):
    """An answer: its status line, its headers as the server spells them, its body."""

    status: str
    headers: dict[str, str]
    body: bytes

    @property
    def not_processed(self) -> bool:
        """Whether the server says that it has done nothing, so that another one may be asked."""
        if self.status.startswith("555 Timeout"):
            return self.status != "555 Timeout postProcessing command"
        return self.status == "500 Internal Server Error"

    def check(self) -> Reply:
        """Itself, unless the server refused."""
        code = int(self.status[:3]) if self.status[:3].isdecimal() else 0
        if code not in (200, 202):
            raise _ERRORS.get(code, BedrockError)(self.status, self.headers.get("error", ""))
        return self

    @property
    def content(self) -> Any:
        """The body, decoded; an empty one is None."""
        return msgspec.json.decode(self.body) if self.body else None


class ReplyReader:
    """Cuts the bytes from a server into answers."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[str, dict[str, str]] | None = None
        self._size = 0

    def feed(self, data: bytes) -> Reply | None:
        """More has arrived; the answer, if that was all of it. No bytes are the end of the connection."""
        if not data:
            raise ConnectionResetError("the server has closed the connection")
        self._buffer += data
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            self._read_head(self._buffer[:end].decode(errors="replace"))
            del self._buffer[: end + 4]
        if self._head is None or len(self._buffer) < self._size:
            return None
        (status, headers), self._head = self._head, None
        body = bytes(self._buffer[: self._size])
        del self._buffer[: self._size]
        return Reply(status, headers, body)

    def _read_head(self, head: str) -> None:
        status, *lines = head.split("\r\n")
        headers = {name: unescape(value.strip(" ")) for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("Content-Length", "0")
        self._size = int(length) if length.isdecimal() else 0
        self._head = status, headers
