"""The files of a server are its owner's alone, and no link leads it to others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.dialects.bedrock.server.database import Database
from headrace.errors import StoreReadOnly


def test_new_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = Database(str(tmp_path / "jobs.db"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
        database.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["jobs.db", "jobs.db-server", "jobs.db-shm", "jobs.db-wal"], 0o600)


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    path.chmod(0o660)
    Database(str(path)).close()
    assert path.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_beside_the_file_leads_nowhere(tmp_path: Path, link: object) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious", encoding="ascii")
    link(elsewhere, tmp_path / "jobs.db-server")  # type: ignore[operator]
    with pytest.raises(StoreReadOnly, match="cannot be served from here: "):
        Database(str(tmp_path / "jobs.db"))
    assert elsewhere.read_text(encoding="ascii") == "precious"
