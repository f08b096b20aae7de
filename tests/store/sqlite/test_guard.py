"""A file that is open and has been deleted is noticed."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from headrace.store.sqlite.guard import nameless


@pytest.mark.parametrize("statx", [True, False])
def test_a_deleted_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statx: bool) -> None:
    if not statx:
        monkeypatch.setattr(ctypes, "PyDLL", lambda _: object())
    path = tmp_path / "file"
    path.touch()
    file = os.open(path, os.O_RDONLY)
    try:
        is_nameless = nameless(file)
        assert is_nameless.__name__ == ("by_statx" if statx else "by_fstat")
        assert not is_nameless()
        os.link(path, tmp_path / "other")
        path.unlink()
        assert not is_nameless()
        (tmp_path / "other").unlink()
        assert is_nameless()
    finally:
        os.close(file)
