"""`headrace copy`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import cli, exits
from headrace.store import open_store

from . import shop


def run(*arguments: str, **options: object) -> Result:
    return CliRunner().invoke(cli, ["copy", *arguments], **options)  # type: ignore[arg-type]


def counted(url: str) -> int:
    store = open_store(url)
    found = sum(sum(counts.by_state.values()) for counts in store.run(store.counts()))
    store.close()
    return found


def test_out_and_in(app: Headrace, url: str, tmp_path: Path) -> None:
    shop.add.enqueue(1)
    shop.add.using(run_after=60).enqueue(2)
    other = f"sqlite:///{tmp_path}/other.db"
    result = run(url, "backup.jsonl")
    assert (result.exit_code, result.stdout.startswith("backup.jsonl has been written: ")) == (exits.OK, True)
    result = run("backup.jsonl", other)
    assert result.stdout == "2 jobs and 0 schedules copied; 0 were there already.\n"
    assert counted(other) == 2
    again = run("backup.jsonl", other, "--json")
    assert json.loads(again.stdout) == {"jobs": 0, "schedules": 0, "there": 2, "refused": []}


def test_from_store_to_store_and_through_pipes(app: Headrace, url: str, tmp_path: Path) -> None:
    shop.add.enqueue(1)
    assert run(url, f"sqlite:///{tmp_path}/a.db").exit_code == exits.OK
    text = run(url, "-").stdout_bytes
    assert run("-", f"sqlite:///{tmp_path}/b.db", input=text).exit_code == exits.OK
    assert [counted(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"] == [1, 1]


def test_what_is_there_is_not_overwritten_unasked(app: Headrace, url: str, tmp_path: Path) -> None:
    Path("backup.jsonl").write_text("precious")
    result = run(url, "backup.jsonl")
    assert (result.exit_code, Path("backup.jsonl").read_text()) == (exits.USAGE, "precious")
    assert "is there already: add --overwrite to replace it." in " ".join(result.stderr.split())
    assert run(url, "backup.jsonl", "--overwrite", "--json").exit_code == exits.OK
    assert Path("backup.jsonl").read_text().startswith('{"type":"headrace"')


@pytest.mark.parametrize(
    ("source", "target", "code", "message"),
    [
        ("a.jsonl", "b.jsonl", exits.USAGE, "Neither of the two is the URL of a store."),
        ("nothing.jsonl", "sqlite:///new.db", exits.USAGE, "nothing.jsonl can't be read: No such file or directory."),
        ("sqlite:///nothing.db", "a.jsonl", exits.STORE, "There is no store at"),
        ("garbage.jsonl", "sqlite:///new.db", exits.CONFIGURATION, "The file is no copy of a store"),
    ],
)
def test_mistakes_are_named(url: str, source: str, target: str, code: int, message: str) -> None:
    Path("garbage.jsonl").write_text("garbage\n")
    result = run(source, target)
    assert (result.exit_code, message in " ".join(result.stderr.split())) == (code, True), result.stderr
