"""Empty databases: the protocol has no namespaces, so each test has the database to itself."""

from __future__ import annotations

from store.redis import servers

DATABASE = 9


def fresh(program: str = "") -> str:
    """The URL of this process' own database, emptied."""
    server = servers.shared(program or servers.preferred())
    with server.client() as client:
        client.execute_command("SELECT", DATABASE)
        client.flushdb()
    return f"gearmonkey+{server.url}?db={DATABASE}"
