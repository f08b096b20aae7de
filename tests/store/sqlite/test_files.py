"""Files beside a database: whose they are, and what strangers may not do with them."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from headrace.store.sqlite import guard

from .conftest import OpenStore
from .helpers import Session, jobs


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_new_store_is_its_owners_alone(open_store: OpenStore, path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = open_store()
        store.run(store.put(jobs(1)))
        Session(store).take(1)
        with closing(store.waiter("waiter", ["default"])) as waiter, closing(store.guard("session")):
            waiter.arm()
            made = {file.name: mode(file) for file in path.parent.rglob("*")}
    finally:
        os.umask(before)
    folder = made.pop("jobs.db-run")
    assert folder == 0o700
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm", "waiters", "copies"} <= made.keys()
    assert set(made.values()) == {0o600}


def test_a_file_that_is_there_keeps_its_mode(open_store: OpenStore, path: Path) -> None:
    path.touch()
    path.chmod(0o660)
    store = open_store()
    store.run(store.put(jobs(1)))
    assert [mode(Path(f"{path}{end}")) for end in ("", "-wal", "-run/copies")] == [0o660] * 3


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["copies", "waiters", f"session-{b'session'.hex()}"])
def test_a_link_in_the_folder_is_not_followed(open_store: OpenStore, path: Path, name: str, link: object) -> None:
    treasure = path.parent / "treasure"
    treasure.touch()
    treasure.chmod(0o640)
    folder = Path(f"{path}-run")
    folder.mkdir()
    assert callable(link)
    link(treasure, folder / name)
    store = open_store()
    store.run(store.put(jobs(1)))
    with closing(store.waiter("waiter", ["default"])) as waiter, closing(store.guard("session")):
        waiter.arm()
        assert len(Session(store).take(1)) == 1
    assert (treasure.read_bytes(), mode(treasure)) == (b"", 0o640)


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_of_a_stranger_is_not_used(
    open_store: OpenStore, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_link: bool
) -> None:
    folder = Path(f"{path}-run")
    if is_link:
        (path.parent / "elsewhere").mkdir()
        folder.symlink_to(path.parent / "elsewhere")
    else:
        folder.mkdir()
        monkeypatch.setattr(guard, "_trusted", lambda _: {folder.stat().st_uid + 1})
    store = open_store()
    store.run(store.put(jobs(1)))
    with closing(store.waiter("waiter", ["default"])) as waiter, closing(store.guard("session")):
        waiter.arm()
        assert len(Session(store).take(1)) == 1
    assert list(folder.iterdir()) == []
    assert [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()][1:] == []
    assert "is not used: it was made by another user" in caplog.text


def test_the_folder_may_be_that_of_the_files_owner(path: Path) -> None:
    path.touch()
    assert guard._trusted(Path(f"{path}-run")) == {os.geteuid(), 0, path.stat().st_uid}
