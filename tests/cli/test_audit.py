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
