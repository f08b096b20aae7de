"""The pytest plugin: the app under test, a store for each test, and real worker processes. See docs/guide.md.

pytest imports this in every project that has headrace installed, so the rest of headrace is imported by the fixtures.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.testing import Testing

STARTS_WITHIN = 60.0
STOPS_WITHIN = 30.0
"""Seconds. The jobs that run then have five to finish."""

_WORKERS = pytest.StashKey["Workers"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("headrace_app", "The Headrace app under test: module:app.", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "headrace_workers(*options): options of `headrace worker` for the fixture.")


@pytest.fixture(scope="session")
def headrace_app(pytestconfig: pytest.Config) -> Headrace:
    """The app under test: as the ini option `headrace_app` names it, else as `[tool.headrace]` in pyproject.toml does.

    Override it to return an app of your own.
    """
    from headrace.errors import ConfigurationError  # noqa: PLC0415
    from headrace.loading import load_app  # noqa: PLC0415
    from headrace.project import app_of_project  # noqa: PLC0415

    try:
        path = str(pytestconfig.getini("headrace_app")) or app_of_project()
        if path is None:
            raise ConfigurationError(
                "Which app is under test? Write headrace_app = 'shop.tasks:app' into the pytest section of "
                "pyproject.toml, or a fixture headrace_app that returns it into conftest.py."
            )
        return load_app(path)
    except ConfigurationError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def headrace_testing(headrace_app: Headrace) -> Iterator[Testing]:
    """The app under test inside `app.testing()`: a store in memory, and a clock that the test moves."""
    with headrace_app.testing() as testing:
        yield testing


@pytest.fixture
def headrace_workers(headrace_app: Headrace, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    """`headrace worker` for the app under test, which enqueues into a SQLite file of the test meanwhile.

    Options of the command come from `@pytest.mark.headrace_workers("--processes", "2")`. A worker that dies fails the
    test. Its log is a part of the report of a test that fails.
    """
    from headrace.loading import path_of  # noqa: PLC0415
    from headrace.store import open_store  # noqa: PLC0415
    from headrace.values.clock import SystemClock  # noqa: PLC0415

    if "headrace_testing" in request.fixturenames:
        pytest.fail("A test has one store: use headrace_testing or headrace_workers, not both.", pytrace=False)
    path = path_of(headrace_app)
    if path is None:
        pytest.fail(f"Worker processes can't import {headrace_app!r}: make it an attribute of a module.", pytrace=False)
    marker = request.node.get_closest_marker("headrace_workers")
    url = f"sqlite:///{tmp_path}/headrace.db"
    store = open_store(url)
    headrace_app.stand_in(store, SystemClock())
    try:
        workers = Workers(path, url, tmp_path / "headrace-worker.log", marker.args if marker else ())
        request.node.stash[_WORKERS] = workers
        try:
            workers.wait_until_ready(headrace_app)
            yield workers
            workers.stop()
        finally:
            workers.kill()
    finally:
        headrace_app.stand_down(store)
        store.close()


class Workers:
    """A running `headrace worker`. What the fixture `headrace_workers` gives."""

    def __init__(self, app_path: str, url: str, log: Path, options: tuple[str, ...]) -> None:
        self.url = url
        self._log = log
        command = [sys.executable, "-m", "headrace", "worker", app_path, "--store", url, "--grace", "5", *options]
        imports = os.pathsep.join(filter(None, sys.path))  # what the test can import, they can
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                env={**os.environ, "PYTHONPATH": imports, "HEADRACE_STORE": url},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def log(self) -> str:
        """All that it has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_until_ready(self, app: Headrace) -> None:
        """Wait until the store knows a worker process."""
        end = time.monotonic() + STARTS_WITHIN
        while not app.workers() and not self._has_ended():
            if time.monotonic() > end:
                self._fail(f"did not start within {STARTS_WITHIN:g} s")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it, and fail if it did not live until now, or does not end."""
        if self._has_ended():
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            self._fail(f"did not stop within {STOPS_WITHIN:g} s")

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        self.process.kill()
        self.process.wait()

    def _has_ended(self) -> bool:
        """Whether it has ended in good order, as with --burst. Fails if it died."""
        code = self.process.poll()
        if code:
            self._fail(f"died ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})")
        return code == 0

    def _fail(self, how: str) -> NoReturn:
        pytest.fail(f"headrace worker {how}:\n{self.log}", pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Show the log of the workers beside the failure of their test."""
    outcome = yield
    workers = item.stash.get(_WORKERS, None)
    if workers is not None:
        report = outcome.get_result()
        if report.failed and report.when == "call":
            report.sections.append(("headrace worker", workers.log))
