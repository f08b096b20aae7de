from __future__ import annotations

import functools
import gc
import os
import re
import resource
import signal
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from skips import pytest_terminal_summary
from store.postgres import servers as postgres_servers
from store.redis import servers

if TYPE_CHECKING:
    from app.callers import OnPostgres

__all__ = ["pytest_terminal_summary"]

MARKED_BY = {
    "server": {"servers", "Server", "RedisStore", "PostgresStore", "OnPostgres"},
    "process": {"subprocess", "processes", "multiprocessing", "pty"},
}
"""What a module imports if its tests need a server, or start processes."""


NEED_SERVERS = ("tests/dialects", "tests/store/postgres", "tests/store/redis", "tests/worker")

# A shell that starts a run in the background has it ignore Ctrl-C, and so would every process that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # Tests are hundreds of thousands of objects that stay: to go through them takes half of the collection.


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """The processes of a run share a server, which this one starts before them and ends after them."""
    if "not server" not in config.option.markexpr:
        postgres_servers.begin_run()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a server or start processes: `make quick` leaves them out."""
    for item in items:
        imported = names_imported_by(getattr(item, "module", None))
        stores = "redis" in item.nodeid.partition("[")[2] or item.nodeid.startswith(NEED_SERVERS)
        named = "[" in item.nodeid and "conformance" in item.nodeid  # its parameter says which store it needs
        if stores or (not named and imported & MARKED_BY["server"]):
            item.add_marker("server")
        if imported & MARKED_BY["process"]:
            item.add_marker("process")


@functools.cache
def names_imported_by(module: ModuleType | None) -> set[str]:
    """The last parts of the names of what a module imports, and of the modules where that is from."""
    return {
        name.rpartition(".")[2]
        for value in vars(module).values()
        for name in (getattr(value, "__name__", ""), getattr(value, "__module__", ""))
        if isinstance(name, str)
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged may hold lone surrogates, which xdist cannot send."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test marked `refused(error, words)` passes if it raises this error, and these words are all that it says."""
    marker = pyfuncitem.get_closest_marker("refused")
    if marker is None:
        return (yield)
    error, words = marker.args
    with pytest.raises(error) as refused:
        yield
    assert re.fullmatch(words, str(refused.value), re.DOTALL), f"{refused.value} is not {words}"
    return True


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    servers.tidy()
    postgres_servers.tidy()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OnPostgres]:
    """A program with purchases in PostgreSQL, and an app with jobs in the same database."""
    from app.callers import OnPostgres

    with closing(OnPostgres(tmp_path)) as made:
        yield made


@pytest.fixture
def a_thousand_files() -> Iterator[None]:
    """All descriptors up to 1,024 are taken: `select` could not watch what is opened now."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(before[0], 2_048)
    if before[1] != resource.RLIM_INFINITY and before[1] < most:
        pytest.skip("the operator lets no process here have 2,048 files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    opened: list[int] = []
    try:
        while not opened or opened[-1] < 1_024:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
