"""What numbers and times look like."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import Result

from headrace.cli.exits import exit_code_of
from headrace.cli.options import DURATION, SIZE
from headrace.cli.output import show_json, show_table
from headrace.errors import (
    ConfigurationError,
    HeadraceError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NoWorkers,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
    Timeout,
)
from headrace.store.urls import file_of, shown_url
from headrace.values.text import ago, length, local

NOON = 1_780_315_200_000  # 2026-06-01 12:00 UTC


@pytest.fixture(autouse=True)
def _in_zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOON, "14:00:00 CEST (just now)"),
        (NOON - 180_000, "13:57:00 CEST (3 min ago)"),
        (NOON + 7_200_000, "16:00:00 CEST (in 2 h)"),
        (NOON - 86_400_000, "2026-05-31 14:00:00 CEST (24 h ago)"),
        (NOON + 30 * 86_400_000, "2026-07-01 14:00:00 CEST (in 30 days)"),
        (None, ""),
    ],
)
def test_times_are_local_and_have_an_age(at: int | None, text: str) -> None:
    assert local(at, NOON) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_500, "1.5 s"),
        (2_960, "3 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
    ],
)
def test_lengths(milliseconds: int, text: str) -> None:
    assert length(milliseconds) == text
    assert ago(0, milliseconds) == ("just now" if milliseconds < 1000 else f"{text} ago")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("30", 30_000), ("0.5", 500), ("5 minutes", 300_000), ("1h30m", 5_400_000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert DURATION.convert(text, None, None) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("2gb", 2_000_000_000), ("1GiB", 2**30), ("1.5 k", 1500), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert SIZE.convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1TB5"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a size\. Write for example 500MB or 2GB\."):
        SIZE.convert(text, None, None)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("redis+cluster://me:s:e@c@host:1,other:2/0", "redis+cluster://me:***@host:1,other:2/0"),
        ("redis://host:6379/0?ns=a@b", "redis://host:6379/0?ns=a@b"),
        ("redis://me:secret@host/0?ns=a@b", "redis://me:***@host/0?ns=a@b"),
        ("redis://me:se/c#r?e@t@host:1/0", "redis://me:***@host:1/0"),
        ("redis://me:secret@host:1:5/0", "redis://me:***@host:1:5/0"),
        ("redis://me:secret@[::1/0", "redis://me:***@[::1/0"),
        ("redis:/me:secret@host", "redis:/me:***@host"),
        ("REDIS://:secret@host", "REDIS://:***@host"),
        ("redis://host?password=secret&ns=a", "redis://host?password=***&ns=a"),
        ("redis+sentinel://h/s?sentinel_password=secret", "redis+sentinel://h/s?sentinel_password=***"),
        ("sqlite:////var/a:b@c/jobs.db", "sqlite:////var/a:b@c/jobs.db"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize("url", ["redis://host/0", "sqlite:///:memory:", "sqlite:///:memory:?durability=host"])
def test_a_store_without_a_file(url: str) -> None:
    assert file_of(url) is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 78),
        (StoreBusy("x"), 75),
        (StoreFull("x"), 3),
        (StoreUnavailable("x"), 3),
        (StoreCorrupt("x"), 3),
        (JobFailed("x", "", "", "", ""), 4),
        (JobCancelled("x"), 5),
        (Timeout("x"), 75),
        (JobNotFound("x"), 1),
        (NoWorkers("x"), 1),
        (HeadraceError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: HeadraceError, code: int) -> None:
    assert exit_code_of(error) == code


def test_arguments_that_are_not_utf_8_are_refused(run: Callable[..., Result]) -> None:
    result = run("job", "\udcff")
    assert result.exit_code == 2
    assert "'\\udcff' is not UTF-8" in result.output


# -- tables --

ROWS = [("a" * 30, "1", "long words " * 20), ("b", "22", "short")]


def test_a_table_folds_what_may_be_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_table(("name", "number", "meaning"), ROWS, whole="name number", numbers="number", folds="meaning")
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert shown.count("long") == 20


def test_a_piped_table_is_not_padded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show_table(("name", "number", "meaning"), [("a\x1bb", "1", "x\ny"), ("c", "2", "")], whole="name", numbers="number")
    assert capsys.readouterr().out == "NAME\tNUMBER\tMEANING\na\\x1bb\t1\tx↵y\nc\t2\t\n"


def test_json_escapes_what_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "é\x1b[2J\x9b2J\u202e\u2066\u200b\U000e0001\ud800"
    show_json({"name": hostile})
    shown = capsys.readouterr().out
    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert "é" in shown
    assert json.loads(shown) == {"name": hostile}
