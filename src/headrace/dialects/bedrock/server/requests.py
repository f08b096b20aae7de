"""Cuts the bytes from a client into requests: a method line, header lines, an empty line, a body. No I/O here.

Lines end with CRLF or LF. No command reads a body: it is counted and thrown away as it arrives, never kept.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getsizeof
from typing import NamedTuple, TypeVar

from headrace.dialects.bedrock.server.values import is_integer, read_integer
from headrace.dialects.bedrock.wire import MEBIBYTE, PRIORITIES, Refused, Unreadable, unescape
from headrace.schedule.errors import ScheduleError

Default = TypeVar("Default", int, None)

MOST_READ = 65_536
"""Bytes of a buffer that have been read and are still kept."""


class Limits(NamedTuple):
    """How large a request may be."""

    head: int = 16 * MEBIBYTE
    body: int = 16 * MEBIBYTE
    headers: int = 1_000


class Request:
    """One request. Header names are in lower case; what could not be read is in `malformed`."""

    __slots__ = ("arrived", "headers", "line", "malformed", "verb")

    def __init__(self, line: str, headers: dict[str, str], malformed: frozenset[str] = frozenset()) -> None:
        self.line = line
        self.verb = line.partition(" ")[0].lower()
        self.headers = headers
        self.malformed = malformed
        self.arrived = 0.0
        """When it was complete, on the server's monotonic clock."""

    @property
    def memory(self) -> int:
        """Bytes that it takes in memory, where a character may take four."""
        return sum(map(getsizeof, (self.headers, self.line, *self.headers, *self.headers.values())))

    def get(self, name: str) -> str:
        if name in self.malformed:
            raise _malformed(name)
        return self.headers.get(name, "")

    def find(self, name: str) -> str | None:
        if name in self.malformed:
            raise _malformed(name)
        return self.headers.get(name)

    def required(self, name: str, longest: int = MEBIBYTE) -> str:
        """A value that must be there, of so many bytes at most."""
        value = self.get(name)
        if not value:
            raise Refused(f"402 Missing {_SPELT.get(name, name)}")
        if len(value) > longest or len(value.encode()) > longest:
            raise _malformed(name)
        return value

    def parsed(self, name: str, parse: Callable[[str], object]) -> str:
        """A value that can be parsed, if there is one; as it came."""
        value = self.get(name)
        try:
            if value:
                parse(value)
        except ScheduleError:
            raise _malformed(name) from None
        return value

    def integer(self, name: str) -> int:
        return read_integer(self.get(name))

    def flag(self, name: str) -> bool:
        """`true` in any case, or an integer other than zero."""
        return self.get(name).lower() == "true" or self.integer(name) != 0

    def job_id(self) -> int:
        text = self.required("jobid")
        if not is_integer(text):
            raise _malformed("jobid")
        return int(text)

    def priority(self, default: Default, name: str = "jobpriority") -> int | Default:
        if self.find(name) is None:
            return default
        priority = self.integer(name)
        if priority not in PRIORITIES:
            raise Refused("402 Invalid priority value")
        return priority


_SPELT = {
    name.lower(): name
    for name in (
        "commandExecuteTime", "decrementFailures", "firstRun", "getMockedJobs", "ignoreRepeat", "jobID", "jobIDs",
        "jobPriority", "mockRequest", "nextRun", "numResults", "parentJobID", "ReadDBFlags", "retryAfter",
        "sequentialKey", "shouldClearRepeat", "SQLiteArgs",
    )
}  # fmt: skip
"""Names that are written with capitals."""


def _malformed(name: str) -> Refused:
    return Refused(f"402 Malformed {_SPELT.get(name, name)}")


class Parser:
    """Cuts a stream of bytes into requests.

    >>> parser = Parser()
    >>> parser.feed(b"GetJob\\nname: mail/*\\n\\nPing\\r\\n\\r\\n")
    >>> parser.next().headers, parser.next().verb, parser.next()
    ({'name': 'mail/*'}, 'ping', None)
    """

    __slots__ = ("_buffer", "_limits", "_request", "_scanned", "_skip", "_start")

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._buffer = bytearray()
        self._start = 0
        """Where the next request begins in the buffer."""
        self._scanned = 0
        """Up to where no end of the head was found."""
        self._request: Request | None = None
        """A request whose body has not arrived in full."""
        self._skip = 0
        """So many bytes of it are missing."""

    @property
    def buffered(self) -> int:
        return len(self._buffer) - self._start

    @property
    def held(self) -> int:
        """Bytes that are kept here: what has not been cut yet, and the head of a request whose body is missing."""
        return self.buffered + (0 if self._request is None else self._request.memory)

    def feed(self, data: bytes) -> None:
        if self._start == len(self._buffer):
            self._buffer = bytearray(data)
            self._start = self._scanned = 0
        else:
            self._tidy()
            self._buffer += data

    def next(self) -> Request | None:
        """The next complete request, or None until more has arrived. Raises `Unreadable`."""
        if self._request is None:
            head = self._next_head()
            if head is None:
                self._tidy()
                return None
            self._request = parse_head(head)
            self._skip = self._body_length(self._request.headers)
        taken = min(self._skip, self.buffered)
        self._start += taken
        self._scanned = max(self._scanned, self._start)
        self._skip -= taken
        if self._skip:
            self._tidy()
            return None
        request, self._request = self._request, None
        return request

    def _tidy(self) -> None:
        """Let go of what has been read: now and then, not with every request."""
        if self._start > MOST_READ:
            del self._buffer[: self._start]
            self._scanned -= self._start
            self._start = 0

    def _next_head(self) -> bytes | None:
        buffer, start = self._buffer, self._start
        size = len(buffer)
        while start < size and buffer[start] in b"\r\n":  # stray newlines between requests are harmless
            start += 1
        self._start = start
        scan = max(start, self._scanned - 2)
        end = buffer.find(b"\n\n", scan)
        skip = 2
        other = buffer.find(b"\n\r\n", scan, end if end >= 0 else size)
        if other >= 0:
            end, skip = other, 3
        if (size if end < 0 else end) - start > self._limits.head:
            raise Unreadable("413 Request too large")
        if end < 0:
            self._scanned = size
            return None
        head = bytes(buffer[start:end])
        if head.count(b"\n") > self._limits.headers:
            raise Unreadable("413 Request too large", ("error", f"more than {self._limits.headers} headers"))
        self._start = self._scanned = end + skip
        return head

    def _body_length(self, headers: dict[str, str]) -> int:
        if "transfer-encoding" in headers:
            raise Unreadable("400 Bad Transfer-Encoding", ("error", "send a Content-Length instead"))
        length = headers.get("content-length")
        if length is None:
            return 0
        if not (length.isascii() and length.isdigit()):
            raise Unreadable("400 Bad Content-Length")
        if len(length) > 18 or int(length) > self._limits.body:
            raise Unreadable("413 Request too large")
        return int(length)


def parse_head(head: bytes) -> Request:
    try:
        text = head.decode()
        plain = "\\" not in text and "\0" not in text
    except UnicodeDecodeError:
        return _parse_lines(head.decode(errors="surrogateescape").split("\n"))
    lines = text.split("\n")
    if not plain:
        return _parse_lines(lines)
    headers: dict[str, str] = {}
    for index in range(1, len(lines)):
        line = lines[index]
        if line[:1] in (" ", "\t"):
            return _parse_lines(lines)
        name, _, value = line.removesuffix("\r").partition(":")
        if name := name.strip(" "):
            headers[name.lower()] = value.strip(" ")
    return Request(lines[0].removesuffix("\r").strip(" "), headers)


def _parse_lines(lines: list[str]) -> Request:
    """The same for heads with escapes, continued lines, or bytes that are not text."""
    method = ""
    headers: dict[str, list[str]] = {}
    last: list[str] | None = None
    for index, raw in enumerate(lines):
        line = raw.removesuffix("\r")
        if index == 0:
            method = line
        elif line[:1] in (" ", "\t"):
            if last is None:
                method += line
            else:
                last.append(line)
        else:
            name, _, value = line.partition(":")
            if name := name.strip(" "):
                headers[name.lower()] = last = [unescape(value.strip(" "))]
    values = {name: "".join(parts) for name, parts in headers.items()}
    malformed = frozenset(name for name, value in values.items() if not _is_text(value))
    for name in malformed:
        values[name] = ""
    return Request(method.strip(" ").encode(errors="replace").decode(errors="replace"), values, malformed)


def _is_text(value: str) -> bool:
    """Whether a value is text that SQLite and JSON can carry."""
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
