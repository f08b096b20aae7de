"""A project of Django with headrace as its backend: what its test cases claim, and what its processes do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from processes import environment
from store.postgres import servers

HERE = Path(__file__).parent
CLAIMS = sorted(path.stem for path in (HERE / "shop").glob("claims_*.py"))

pytest.importorskip("django")


def run(*arguments: str, cwd: Path, **more: str) -> str:
    """Run a program in the project's environment: what it prints, or with its errors if it fails."""
    env = environment(DJANGO_SETTINGS_MODULE="project.settings", **more)
    env.pop("HEADRACE_STORE", None)
    env["PYTHONPATH"] += f"{os.pathsep}{HERE}"
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout or done.stderr


def manage(*arguments: str, cwd: Path, **more: str) -> str:
    """Run a command of Django in the project."""
    return run("-W", "error", "-m", "django", *arguments, cwd=cwd, **more)


@pytest.mark.parametrize("claims", CLAIMS)
def test_what_the_projects_cases_claim_is_true(claims: str, tmp_path: Path) -> None:
    more = {}
    if claims == "claims_transactions":
        url = servers.fresh_url()
        place = url.replace(f"schema={parse_qs(urlsplit(url).query)['schema'][0]}", "").rstrip("?&")
        more = {"SHOP_POSTGRES": place, "SHOP_POSTGRES_STORE": url}
    manage("test", f"shop.{claims}", cwd=tmp_path, **more)


ENQUEUE = """
import django, json
django.setup()
from shop import tasks
from shop.models import Order
Order.objects.create(number=1)
results = [tasks.add.enqueue(1, 2), tasks.aadd.enqueue(1), tasks.count_orders.enqueue(), tasks.acount_orders.enqueue()]
results += [tasks.isolated.enqueue(), tasks.flaky.enqueue(2), tasks.send.enqueue("eu")]
print(json.dumps([result.id for result in results]))
"""
LOOK = """
import django, json, sys
django.setup()
from headrace.django.library import task_backends
found = [task_backends["default"].get_result(each) for each in json.loads(sys.argv[1])]
print(json.dumps([[each._return_value, sorted(set(each.worker_ids)), len(each.errors)] for each in found]))
"""


def test_worker_processes_of_manage_py_run_tasks_of_all_kinds(tmp_path: Path) -> None:
    """In a folder from which the project can't be imported: `manage.py` is somewhere else."""
    place = {"SHOP_STORE": f"sqlite:///{tmp_path}/jobs.db", "SHOP_DATABASE": str(tmp_path / "db.sqlite3")}
    manage("migrate", "--verbosity", "0", "--run-syncdb", cwd=tmp_path, **place)
    ids = run("-c", ENQUEUE, cwd=tmp_path, **place)
    worker = (str(HERE / "manage.py"), "headrace", "worker", "--burst", "--settings=project.settings")
    log = run(*worker, cwd=tmp_path, SHOP_DEBUG="1", **place)
    assert "shop.tasks.add, " in log
    assert log.count("path=shop.tasks.aadd state=SUCCESSFUL") == 1
    assert "queues default, mail (in turn)" in log
    found = json.loads(run("-c", LOOK, ids, cwd=tmp_path, **place))
    values = [value for value, _, _ in found]
    assert values[:4] == [3, 1, [1, "sqlite", json.loads(ids)[2]], 1]
    assert isinstance(values[4], int)
    assert values[5:] == [2, "eu: hello"]
    assert {worker for _, workers, _ in found for worker in workers} == {found[0][1][0]}
    assert [errors for _, _, errors in found] == [0, 0, 0, 0, 0, 1, 0]
    assert '"shop.tasks.add"' in manage("headrace", "--backend", "default", "jobs", "--json", cwd=tmp_path, **place)
    job = manage("headrace", "enqueue", "tasks.add", "4", "second=5", cwd=tmp_path, **place).strip()
    assert json.loads(manage("headrace", "job", job, "--json", cwd=tmp_path, **place))["arguments"] == {
        "args": [4],
        "kwargs": {"second": 5},
    }


def test_a_worker_does_not_start_with_settings_that_can_not_work(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No store speaks 'mysql'"):
        manage("headrace", "worker", "--burst", cwd=tmp_path, SHOP_STORE="mysql://localhost/jobs")
