"""`headrace check`: can the code about to be deployed run what waits?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.records import NewJob

from . import shop
from .conftest import Run

NEXT = """
from headrace import Headrace
app = Headrace("sqlite:///never-used.db")
@app.task(name="tests:add")
def add(a: int, b: int, c: int): ...
"""


@pytest.fixture
def coming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The app that is about to be deployed."""
    (tmp_path / "coming.py").write_text(NEXT.replace("tests:add", shop.add.name), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "coming:app"
    sys.modules.pop("coming", None)


def test_code_that_can_run_all_that_waits_passes(app: Headrace, run: Run) -> None:
    shop.add.enqueue(1)
    shop.send.every("every day at 4am").enqueue("ada")
    result = run("check", f"{shop.__name__}:app")
    assert result.exit_code == exits.OK
    assert result.output == "1 job and 1 schedule checked: this code can run all of them.\n"


def test_what_would_fail_is_shown_with_counts_and_examples(app: Headrace, run: Run, coming: str) -> None:
    first, second = shop.add.enqueue(1), shop.add.enqueue(2)
    sent = shop.send.enqueue("ada")
    result = run("check", coming)
    assert result.exit_code == exits.NOT_DONE
    words = f"the arguments do not fit {shop.add.name}: Object missing required field `b`"
    heading, adds, sends, _, last = result.output.splitlines()
    assert heading.split() == ["WHAT", "TASK", "COUNT", "EXAMPLE", "WHY"]
    assert adds.split(maxsplit=4)[:4] == ["job", shop.add.name, "2", second.id]
    assert adds.rstrip().endswith(words)
    assert sends.split(maxsplit=4)[:4] == ["job", shop.send.name, "1", sent.id]
    assert last == "3 of 3 jobs and 0 schedules would fail with this code."
    answer = json.loads(run("check", coming, "--json").output)
    assert answer["misfits"][0] == {
        "what": "job", "task": shop.add.name, "count": 2, "example": second.id, "why": words,
    }  # fmt: skip
    assert {name: value for name, value in answer.items() if name != "misfits"} == {
        "ok": False, "jobs": 3, "schedules": 0, "left_out": [],
    }  # fmt: skip
    first.cancel()
    second.cancel()
    sent.cancel()
    assert run("check", coming).exit_code == exits.OK
    assert run("check", coming, "--all").exit_code == exits.NOT_DONE


def test_an_app_that_cannot_be_imported_or_a_store_that_is_not_there_has_its_own_exit_code(
    app: Headrace, run: Run, coming: str
) -> None:
    assert run("check", "nowhere:app").exit_code == exits.CONFIGURATION
    missing = run("check", coming, store="sqlite:///nowhere.db")
    assert (missing.exit_code, "There is no store at" in missing.output) == (exits.STORE, True)
    assert not Path("nowhere.db").exists()
    assert run("check").exit_code == exits.USAGE


def test_words_of_jobs_reach_no_terminal_as_they_are(app: Headrace, run: Run, coming: str) -> None:
    app.store.run(app.store.put([NewJob(id="evil", task="a\x1b[2Jb", body=b"{}")]))
    assert "a\\x1b[2Jb" in run("check", coming).output
