"""Django's own tests of tasks, with headrace's backend in the place of Django's.

They are in Django's source distribution, which is not part of this repository: `make django-sources` fetches it, or
`HEADRACE_DJANGO_SOURCES` names the folder where it was unpacked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment

django = pytest.importorskip("django")


def sources() -> Path:
    """Where the sources of the installed Django are."""
    if django.VERSION < (6, 0):
        pytest.skip("Django 5.2 has no tests of tasks: its tasks are those of the backport")
    name = f"django-{django.get_version()}"
    places = [os.environ.get("HEADRACE_DJANGO_SOURCES"), Path(sys.prefix) / "django-sources" / name]
    for place in places:
        if place and (Path(place) / "tests" / "tasks").is_dir():
            return Path(place)
    pytest.skip("Django's sources are not here: make django-sources fetches them")


def test_djangos_tests_of_tasks_pass_with_a_worker_behind_each_enqueue(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "django_backend.djangos_own", str(sources())]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = re.search(r"(\d+) cases ran, 4 left out", done.stdout)
    assert ran is not None
    assert int(ran[1]) >= 50
