"""Speaks TLS before a server that was built without it: `python tls_front.py CERTIFICATE KEY PORT SOCKET`."""

from __future__ import annotations

import asyncio
import ssl
import sys
from contextlib import closing, suppress


async def serve(certificate: str, key: str, port: int, path: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_unix_connection(path)
        with closing(writer), closing(before):
            flows = [asyncio.ensure_future(copy(*way)) for way in ((reader, before), (behind, writer))]
            await asyncio.wait(flows, return_when=asyncio.FIRST_COMPLETED)
            for flow in flows:
                flow.cancel()

    async with await asyncio.start_server(join, ["127.0.0.1", "127.0.0.2"], port, ssl=context) as server:
        await server.serve_forever()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
