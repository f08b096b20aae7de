"""docs/django.md is a project: its blocks are the files that their first lines name, and the project runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from django_backend.djangos_own import LEFT_OUT
from processes import SOURCE

pytest.importorskip("django")

PAGE = (Path(__file__).parents[2] / "docs" / "django.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))

BASE = """
import django
SECRET_KEY = "for tests"
USE_TZ = True
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "shop"]
INSTALLED_APPS += ["django_tasks"] if django.VERSION < (6, 0) else []
"""
MORE = {
    "shop/__init__.py": "",
    "shop/models.py": "from django.db import models\n\n\nclass Order(models.Model):\n    email = models.EmailField()\n"
    "    confirmed = models.BooleanField(default=False)\n",
    "shop/urls.py": "from django.urls import path\nfrom shop import views\nurlpatterns = [path('buy/', views.buy)]\n",
}


def python(folder: Path, *arguments: str) -> str:
    without = ("HEADRACE_STORE", "HEADRACE_APP")
    env = {name: value for name, value in os.environ.items() if name not in without}
    env |= {"PYTHONPATH": str(SOURCE), "DJANGO_SETTINGS_MODULE": "shop.settings"}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_files_of_the_page_are_a_project_that_works(tmp_path: Path) -> None:
    settings = BASE + FILES["shop/settings.py"].replace("/var/lib/shop/jobs.db", str(tmp_path / "jobs.db"))
    for name, text in {**MORE, **FILES, "shop/settings.py": settings}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    python(tmp_path, "-m", "django", "check", "--fail-level", "WARNING")
    python(tmp_path, "-m", "django", "migrate", "--run-syncdb", "--verbosity", "0")
    python(tmp_path, "-c", "import django; django.setup(); import shop.examples, shop.schedules")
    assert "Ran 2 tests" in python(tmp_path, "-m", "django", "test", "shop.tests", "shop.tests_at_once")
    log = python(tmp_path, "-m", "django", "headrace", "worker", "--burst")
    assert "shop.tasks.confirm, shop.tasks.report" in log
    assert '"state": "done"' in python(tmp_path, "-m", "django", "headrace", "jobs", "--json")


def test_the_page_has_the_reason_for_each_case_of_django_that_is_left_out() -> None:
    named = dict(re.findall(r"^\| `(test_\w+)` \| (.*?) \|$", PAGE, re.MULTILINE))
    said = {f"ImmediateBackendTestCase.{name}": reason.replace("`", "") for name, reason in named.items()}
    assert said == LEFT_OUT
