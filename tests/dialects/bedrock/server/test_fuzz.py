"""Whatever comes in: no crash, no hang, bounded memory. In a soak the parser is given a million inputs."""

from __future__ import annotations

import random
import tracemalloc

from dialects.bedrock.harness import InProcess
from headrace.dialects.bedrock.server.requests import Limits, Parser, Request
from headrace.dialects.bedrock.wire import Unreadable
from volume import volume

PIECES = [
    b"CreateJob", b"GetJob", b"FinishJob", b"Query", b"Ping", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r", b": ", b":",
    b" ", b"\t", b"name", b"data", b"Content-Length", b"Connection", b"wait", b"timeout", b"jobID", b"0", b"1", b"-1",
    b"99999999999", b"{}", b'{"a":1}', b"[", b"*", b"\\", b"\\\\", b"\\u", b"\\ud83d", b"0041", b"\x00", b"\xff",
    b"\xe2\x82\xac", b"\xe2\x82", b"Transfer-Encoding", b"mail/*", b"a,b", b"'", b";", b"SELECT", b"repeat", b"hourly",
    b"forget", b"close", b"x" * 50,
]  # fmt: skip
INPUTS = 1_000_000 if volume(1) >= 20 else volume(4_000)
LIMITS = Limits(head=400, body=100, headers=8)


def noise(choice: random.Random) -> bytes:
    return b"".join(choice.choices(PIECES, k=choice.randrange(1, 40)))


def read_all(parser: Parser) -> list[tuple[str, dict[str, str]] | str]:
    found: list[tuple[str, dict[str, str]] | str] = []
    try:
        while (request := parser.next()) is not None:
            assert isinstance(request, Request)
            found.append((request.line, request.headers))
    except Unreadable as refused:
        found.append(refused.status)
    return found


def test_the_parser_takes_anything() -> None:
    choice = random.Random(1)
    tracemalloc.start()
    try:
        for _ in range(INPUTS):
            data = noise(choice) + b"\n\n"
            whole = Parser(LIMITS)
            whole.feed(data)
            expected = read_all(whole)
            # Cut anywhere, it reads the same; only how much of what is too large had arrived may differ.
            pieces = Parser(LIMITS)
            found: list[tuple[str, dict[str, str]] | str] = []
            start = 0
            while start < len(data) and not (found and isinstance(found[-1], str)):
                end = start + choice.randrange(1, 30)
                pieces.feed(data[start:end])
                found += read_all(pieces)
                assert pieces.buffered <= LIMITS.head + 33
                start = end
            assert found == expected, data
        assert tracemalloc.get_traced_memory()[0] < 10_000_000
    finally:
        tracemalloc.stop()


def test_the_server_survives_anything(server: InProcess) -> None:
    choice = random.Random(2)
    for _ in range(volume(150)):
        wire = server.connect()
        try:
            for _ in range(choice.randrange(1, 4)):
                wire.send(noise(choice) + b"\n\n")
            wire.finish()
            while True:
                wire.read()
        except (EOFError, ConnectionError):
            pass
        finally:
            wire.close()
    with server.connect() as honest:
        assert honest.ask("Ping").status == "200 OK"
        assert server.waiting() == 0
        assert server.on_loop(lambda: server.server.held) == 0
