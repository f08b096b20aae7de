"""Settings from the shell, and what workers make of them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from processes import eventually, worker_process

from . import shop

Ask = Callable[..., Any]
Run = Callable[..., Any]


def values(ask: Ask, *arguments: str) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in ask("settings", *arguments)["settings"]}


def test_settings_are_shown_with_their_defaults(app: Headrace, ask: Ask, run: Run) -> None:
    shop.add.enqueue(1)
    day = 86_400_000
    assert values(ask) == {
        "session-timeout": 15_000, "jobs-history": 7 * day, "jobs-history-count": 50_000, "results-history": None,
        "failed-history": 30 * day, "max-job-history": 100, "stats-history": 30 * day,
        "histogram-history": 7 * day, "max-worker-age": day,
    }  # fmt: skip
    text = run("settings").stdout
    assert "jobs-history-count\t50,000" in text
    assert "results-history\tno limit" in text
    assert "how long done jobs are kept" in text


def test_settings_are_changed_and_unset(app: Headrace, ask: Ask, run: Run) -> None:
    shop.add.enqueue(1)
    assert values(ask, "jobs-history", "3 days") == {"jobs-history": 3 * 86_400_000}
    assert values(ask, "max-job-history", "1,000") == {"max-job-history": 1_000}
    assert values(ask, "session-timeout", "60", "--queue", "mail") == {"session-timeout:mail": 60_000}
    assert app.store.run(app.store.settings()) == {
        "session-timeout:mail": 60_000, "jobs-history": 259_200_000, "max-job-history": 1_000
    }  # fmt: skip
    assert "3 days" in run("settings", "jobs-history").stdout
    assert values(ask)["session-timeout:mail"] == 60_000
    assert values(ask, "jobs-history", "--unset") == {"jobs-history": 7 * 86_400_000}
    assert values(ask, "session-timeout", "--queue", "mail", "--unset") == {"session-timeout:mail": 15_000}
    assert list(app.settings.changed()) == ["max-job-history"]


def test_the_session_timeout_of_a_queue_is_that_of_all_until_it_has_its_own(app: Headrace, ask: Ask) -> None:
    shop.add.enqueue(1)
    ask("settings", "session-timeout", "60s")
    (entry,) = ask("settings", "session-timeout", "--queue", "mail")["settings"]
    assert (entry["value"], entry["default"], entry["set"], entry["text"]) == (60_000, 60_000, False, "1 minute")
    (entry,) = ask("settings", "session-timeout", "4s", "--queue", "mail")["settings"]
    assert (entry["value"], entry["default"], entry["set"]) == (4_000, 60_000, True)


def test_max_concurrency_is_the_limit_of_a_queue(app: Headrace, ask: Ask, run: Run) -> None:
    shop.add.enqueue(1)
    assert values(ask, "max-concurrency", "4", "--queue", "mail") == {"max-concurrency:mail": 4}
    assert app.queue("mail").running_at_most == 4
    assert values(ask)["max-concurrency:mail"] == 4
    assert "max-concurrency:mail" in run("settings").stdout
    assert values(ask, "max-concurrency", "--queue", "mail", "--unset") == {"max-concurrency:mail": None}
    assert app.queue("mail").running_at_most is None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("max-concurrency", "0", "--queue", "q"), exits.CONFIGURATION, "a limit is at least 1, not 0"),
        (("session-timeouts", "5"), exits.CONFIGURATION, "There is no setting 'session-timeouts'"),
        (("session-timeouts",), exits.CONFIGURATION, "There is no setting 'session-timeouts'"),
        (("session-timeout", "soon"), exits.CONFIGURATION, "session-timeout: 'soon'"),
        (("session-timeout", "0.5"), exits.CONFIGURATION, "session-timeout goes from 1 second to 1 day, not 500 ms."),
        (("max-job-history", "many"), exits.CONFIGURATION, "max-job-history is a whole number, not 'many'."),
        (("jobs-history", "1d", "--queue", "mail"), exits.CONFIGURATION, "jobs-history is one for all"),
        (("--queue", "mail"), exits.USAGE, "Which setting"),
        (("--unset",), exits.USAGE, "which one to unset"),
        (("session-timeout", "5", "--unset"), exits.USAGE, "without a value"),
        (("max-concurrency", "5"), exits.USAGE, "add --queue"),
        (("max-concurrency", "few", "--queue", "q"), exits.CONFIGURATION, "max-concurrency is a whole number"),
        (("max-concurrency", "²", "--queue", "q"), exits.CONFIGURATION, "max-concurrency is a whole number, not '²'."),
        (("max-concurrency", "9" * 23, "--queue", "q"), exits.CONFIGURATION, "goes up to 281,474,976,710,655"),
        (("max-concurrency", "9" * 5_000, "--queue", "q"), exits.CONFIGURATION, "max-concurrency is a whole number"),
        (("max-concurrency", "3", "--queue", "www-*"), exits.CONFIGURATION, "name one queue"),
        (("jobs-history", "²"), exits.CONFIGURATION, "jobs-history: "),
        (("jobs-history", "9" * 400), exits.CONFIGURATION, "jobs-history: "),
        (("jobs-history-count", "²"), exits.CONFIGURATION, "jobs-history-count is a whole number, not '²'."),
    ],
)
def test_what_makes_no_sense(app: Headrace, run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    shop.add.enqueue(1)
    result = run("settings", *arguments)
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert app.store.run(app.store.settings()) == {}


def test_a_worker_reads_the_session_timeout_when_it_starts_and_on_sighup(
    app: Headrace, ask: Ask, url: str, tmp_path: Path
) -> None:
    def timeouts() -> list[float]:
        return [entry["timeout"] for entry in ask("workers")["workers"]]

    app.settings["session-timeout"] = 40
    app.settings["session-timeout:mail"] = "20s"
    with worker_process("cli.shop:app", url, "--queues", "mail,default", log=tmp_path / "log") as worker:
        eventually(lambda: timeouts() == [20.0], "the worker to come")
        app.settings["session-timeout:mail"] = "5s"
        worker.process.send_signal(signal.SIGHUP)
        eventually(lambda: timeouts() == [5.0], "its successor to come")
    with worker_process("cli.shop:app", url, "--session-timeout", "7s", log=tmp_path / "log"):
        eventually(lambda: timeouts() == [7.0], "a worker that was told otherwise")


def test_an_embedded_worker_reads_it_too(app: Headrace, ask: Ask) -> None:
    app.settings["session-timeout"] = "30s"
    with app.worker(queues=["default"]):
        assert [entry["timeout"] for entry in ask("workers")["workers"]] == [30.0]
