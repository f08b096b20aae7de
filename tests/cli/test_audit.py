"""`headrace audit`."""

from __future__ import annotations

import json

import pytest

from headrace import Headrace

from . import shop
from .conftest import Run


def test_the_trail_is_shown_and_paged(app: Headrace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_OPERATOR", "ops@desk")
    job = shop.add.enqueue(1)
    assert run("audit").stdout == "No acts.\n"
    run("cancel", job.id)
    run("revive", job.id)
    shown = run("audit").stdout
    assert "ops@desk" in shown
    assert shown.index("revive") < shown.index("cancel")
    (newest,) = json.loads(run("audit", "--json", "--limit", "1").stdout)["acts"]
    assert (newest["what"], newest["about"]) == ("revive", job.id)
    (older,) = json.loads(run("audit", "--json", "--before", newest["number"]).stdout)["acts"]
    assert (older["what"], older["about"]) == ("cancel", job.id)


def test_the_name_given_with_by_is_who_acted(app: Headrace, run: Run) -> None:
    shop.add.enqueue(1)
    run("queues", "pause", "default", "--by", "ada")
    (line,) = json.loads(run("audit", "--json").stdout)["acts"]
    assert (line["who"], line["what"], line["about"]) == ("ada", "pause", "queue default")


def test_an_edit_by_filter_is_one_line(app: Headrace, run: Run) -> None:
    jobs = [shop.add.enqueue(number) for number in range(2)]
    run("edit", "--task", "cli.shop:add", "--priority", "3", "--yes")
    (line,) = json.loads(run("audit", "--json").stdout)["acts"]
    ids = ", ".join(job.id for job in reversed(jobs))
    assert (line["what"], line["about"]) == ("edit", f"2 jobs ({ids}): priority from 0 to 3")
