"""The example project: its own tests, and a site with a worker beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from processes import SOURCE, eventually

pytest.importorskip("django")

EXAMPLE = Path(__file__).parents[2] / "examples" / "django_project"

SITE = """
from wsgiref.simple_server import make_server
from django.core.wsgi import get_wsgi_application
server = make_server("127.0.0.1", 0, get_wsgi_application())
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, with its tables."""
    folder = tmp_path / "site"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*", "*.sqlite3"))
    manage(folder, "migrate", "--run-syncdb", "--verbosity", "0")
    return folder


def environment() -> dict[str, str]:
    without = ("HEADRACE_STORE", "HEADRACE_APP")
    env = {name: value for name, value in os.environ.items() if name not in without}
    return env | {"PYTHONPATH": str(SOURCE), "DJANGO_SETTINGS_MODULE": "shop.settings"}


def manage(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, *arguments]
    with (folder / "log").open("ab") as log:
        running = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield running
    finally:
        running.terminate()
        running.communicate(timeout=60)


def asked(address: str, **form: str) -> dict[str, Any]:
    body = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(address, body, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def test_the_examples_own_tests_pass_and_its_settings_are_sound(project: Path) -> None:
    manage(project, "test")
    assert "headrace.I001" in manage(project, "check", "--database", "default", "--fail-level", "WARNING")


def test_a_site_enqueues_in_a_transaction_and_its_worker_confirms_the_order(project: Path) -> None:
    with process(project, "-c", SITE) as site, process(project, "manage.py", "headrace", "worker"):
        assert site.stdout is not None
        place = f"http://127.0.0.1:{int(site.stdout.readline())}"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            asked(f"{place}/buy/", email="ada@example.com")
        bought = asked(f"{place}/buy/", email="ada@example.org")
        done = eventually(
            lambda: (found := asked(f"{place}/orders/{bought['order']}/{bought['task']}/"))["confirmed"] and found,
            "the confirmation",
            60,
        )
        assert done["attempts"] == 1
    jobs = json.loads(manage(project, "headrace", "jobs", "--json"))
    found = jobs["jobs"] if isinstance(jobs, dict) else jobs
    assert [job["task"] for job in found] == ["shop.tasks.confirm"]
