"""The parser by itself (spec 1.1)."""

from __future__ import annotations

import pytest

from headrace.dialects.bedrock.server.requests import Limits, Parser, Request
from headrace.dialects.bedrock.wire import Refused, Unreadable, escape, unescape


def parse(data: bytes, limits: Limits | None = None) -> list[Request]:
    parser = Parser(limits)
    parser.feed(data)
    found = []
    while (request := parser.next()) is not None:
        found.append(request)
    return found


def headers(data: bytes) -> dict[str, str]:
    (request,) = parse(data)
    return request.headers


@pytest.mark.parametrize(
    "data",
    [
        b"Ping\nA: 1\n\n",
        b"Ping\r\nA: 1\r\n\r\n",
        b"Ping\nA: 1\r\n\n",
        b"Ping\r\nA: 1\n\r\n",
        b"\n\r\n\nPing\nA:1\n\n",
        b"  Ping  \nA   :   1   \n\n",
        b"Ping\na: 0\nA: 1\n\n",
        b"Ping\n: nothing\nA: 1\n\n",
        b"pInG / HTTP/1.1\nA: 1\n\n",
    ],
)
def test_ways_to_write_the_same(data: bytes) -> None:
    (request,) = parse(data)
    assert (request.verb, request.headers) == ("ping", {"a": "1"})


def test_colons_and_their_absence() -> None:
    assert headers(b"X\nTime: 10:00:00\nFlag\nEmpty:\n\n") == {"time": "10:00:00", "flag": "", "empty": ""}


def test_continuations() -> None:
    assert headers(b"X\na: one\\n\n  two\\n\n\tthree\nb: 2\n\n") == {"a": "one\n  two\\n\tthree", "b": "2"}
    (request,) = parse(b"Query:\n SELECT 1;\na: b\n\n")
    assert request.line == "Query: SELECT 1;"


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (r"a\nb\rc\td\be\ff", "a\nb\rc\td\be\ff"),
        (r"\\n", r"\n"),
        (r"\"\/\x", '"/x'),
        (r"\u00e9\u20AC", "é€"),
        (r"\ud83d\ude00", "😀"),
        (r"\u12", "u12"),
        (r"\uZZZZ", "uZZZZ"),
        ("end\\", "end\\"),
        (r"{\"a\":\"x\\ny\"}", r'{"a":"x\ny"}'),
    ],
)
def test_escapes(sent: str, meant: str) -> None:
    assert unescape(sent) == meant
    assert headers(f"X\na: {sent}\n\n".encode()) == {"a": meant}


def test_escaping_is_undone_by_unescaping() -> None:
    text = "".join(map(chr, range(1, 0x250))) + "\\\\n\\u0041"
    assert unescape(escape(text)) == text


@pytest.mark.parametrize("value", [b"\xff\xfe", b"a\x00b", b"\\u0000", b"\\ud800", b"\xc3"])
def test_what_is_not_text_is_refused_where_it_is_read(value: bytes) -> None:
    (request,) = parse(b"X\nname: " + value + b"\ngood: \\n1\n\n")
    assert request.get("good") == "\n1"
    with pytest.raises(Refused, match="402 Malformed name"):
        request.get("name")
    with pytest.raises(Refused, match="402 Malformed name"):
        request.find("name")


def test_bodies_are_consumed() -> None:
    requests = parse(b"A\nContent-Length: 5\n\n\n\nB\n\nB\n\nC\ncontent-length: 0\n\n")
    assert [request.line for request in requests] == ["A", "B", "C"]


def test_a_body_in_pieces() -> None:
    parser = Parser()
    for piece in (b"A\nConte", b"nt-Length: 10\n\n123", b"456", b"7890B", b"\n"):
        parser.feed(piece)
    assert parser.next().line == "A"
    assert parser.next() is None
    parser.feed(b"\n")
    assert parser.next().line == "B"


def test_byte_by_byte_is_the_same() -> None:
    data = b"\nCreateJob\r\nname: x\\ny\r\n z\r\nContent-Length: 3\r\n\r\nabcGetJob\nname: *\n\nPing\n\r\n"
    whole = [(request.line, request.headers) for request in parse(data)]
    parser = Parser()
    found = []
    for byte in data:
        parser.feed(bytes([byte]))
        while (request := parser.next()) is not None:
            found.append((request.line, request.headers))
    assert found == whole
    assert [line for line, _ in whole] == ["CreateJob", "GetJob", "Ping"]


@pytest.mark.parametrize("length", ["-1", "+1", "1.0", "x", "", " 1 2", "0x10", "\u0661"])
def test_bad_lengths(length: str) -> None:
    with pytest.raises(Unreadable, match="400 Bad Content-Length"):
        parse(f"X\nContent-Length: {length}\n\n".encode())


@pytest.mark.parametrize(
    "data",
    [
        b"X\nContent-Length: 101\n\n",
        b"X\nContent-Length: " + b"9" * 30 + b"\n\n",
        b"X\nContent-Length: " + b"9" * 5000 + b"\n\n",
        b"X" * 101,
        b"X\na: " + b"y" * 100 + b"\n\n",
        b"X\n" + b"a: b\n" * 11 + b"\n",
    ],
)
def test_too_large(data: bytes) -> None:
    with pytest.raises(Unreadable, match="413 Request too large"):
        parse(data, Limits(head=6000 if b"999" in data else 100, body=100, headers=10))


def test_chunks_are_refused() -> None:
    with pytest.raises(Unreadable, match="400 Bad Transfer-Encoding"):
        parse(b"X\nTransfer-Encoding: chunked\n\n0\r\n\r\n")


def test_many_small_requests_take_linear_time_and_little_memory() -> None:
    parser = Parser()
    for _ in range(20):
        parser.feed(b"Ping\n\n" * 5_000)
        for _ in range(5_000):
            assert parser.next() is not None
        assert parser.next() is None
        assert parser.buffered == 0
