"""`headrace worker`, as a process that gets signals."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace, State
from headrace.cli import exits
from processes import WorkerProcess, eventually, worker_process
from store.redis.servers import Server

from . import shop

Shell = Callable[..., subprocess.CompletedProcess[str]]


def test_burst_does_what_there_is_and_ends(app: Headrace, url: str, headrace: Shell) -> None:
    jobs = [shop.add.enqueue(number) for number in range(3)]
    mail = shop.send.enqueue("ada")
    result = headrace("worker", "cli.shop:app", "--store", url, "--burst")
    assert result.returncode == 0, result.stderr
    assert [job.result(timeout=0) for job in jobs] == [2, 3, 4]
    assert mail.result(timeout=0) == "ada: hi"


def test_the_banner(app: Headrace, url: str, headrace: Shell) -> None:
    lines = headrace("worker", "cli.shop:app", "--store", url, "--burst", "-s", "3").stderr
    assert f"store {url}, durability process" in lines
    assert "queues default, mail (in turn)" in lines
    assert "processes 1, jobs at once in each 3" in lines
    assert "tasks cli.shop:add, cli.shop:fail" in lines


def test_only_the_named_queues(app: Headrace, url: str, headrace: Shell) -> None:
    job, mail = shop.add.enqueue(1), shop.send.enqueue("ada")
    assert headrace("worker", "cli.shop:app", "--store", url, "--burst", "--queues", "mail").returncode == 0
    assert (job.state, mail.state) == (State.READY, State.DONE)


def test_log_lines_as_json(app: Headrace, url: str, headrace: Shell) -> None:
    job = shop.fail.enqueue("broken\nline")
    lines = headrace("worker", "cli.shop:app", "--store", url, "--burst", "--log-json").stderr.splitlines()
    records = [json.loads(line) for line in lines]
    assert {"time", "level", "logger", "process", "message"} <= records[0].keys()
    assert [record["task"] for record in records if record.get("job_id") == job.id] == ["cli.shop:fail"]


def test_log_level(app: Headrace, url: str, headrace: Shell) -> None:
    assert headrace("worker", "cli.shop:app", "--store", url, "--burst", "--log-level", "ERROR").stderr == ""


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ("", "shpo:app", "Cannot find a module named 'shpo'. Is it spelled right, and are you in the folder"),
        ("x = 1", "bad_app:app", "bad_app has no 'app'. Write module:name, where name is your Headrace(...)."),
        ("app = 1", "bad_app:app", "bad_app:app is a int, not a Headrace app."),
        ("x = 1", "bad_app", "bad_app has no Headrace app: say which one, as in bad_app:app."),
        ("1 / 0", "bad_app:app", "Importing bad_app:app failed: ZeroDivisionError: division by zero"),
        (
            "import nonesuch",
            "bad_app:app",
            "Importing bad_app:app failed: ModuleNotFoundError: No module named 'nonesuch'",
        ),
        ("def f(:", "bad_app:app", "Importing bad_app:app failed: SyntaxError: invalid syntax (bad_app.py, line 1)\n"),
        ("", "bad_app.py.py:app", "There is no file bad_app.py.py."),
        ("", "", "'' names no module. Write module:app, for example shop.tasks:app."),
        ("", ":", "':' names no module. Write module:app, for example shop.tasks:app."),
        ("", ".bad_app:app", "'.bad_app:app' names no module. Write module:app, for example shop.tasks:app."),
    ],
)
def test_an_app_that_cannot_be_imported(content: str, path: str, message: str, tmp_path: Path, headrace: Shell) -> None:
    (tmp_path / "bad_app.py").write_text(content)
    result = headrace("worker", path)
    assert result.returncode == exits.CONFIGURATION
    assert result.stderr.startswith(f"headrace: {message}")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("line", ['json.loads("{")', "msgspec.json.decode(b'{')", 'import_module("nonesuch")'])
def test_a_failed_import_is_reported_with_the_users_line(line: str, tmp_path: Path, headrace: Shell) -> None:
    """Not with the line of a library that it called."""
    (tmp_path / "bad_app.py").write_text("import own_module\n")
    own = tmp_path / "own_module.py"
    own.write_text(f"import json, msgspec\nfrom importlib import import_module\n\n{line}\n")
    assert f"(in {own}, line 4)" in headrace("worker", "bad_app:app").stderr


def test_a_mistake_in_an_option_is_reported_with_its_place(tmp_path: Path, headrace: Shell) -> None:
    file = tmp_path / "bad_app.py"
    file.write_text("from headrace import Headrace\napp = Headrace(retries=-1)\n")
    assert headrace("worker", "bad_app:app").stderr.startswith(f"headrace: {file}, line 2: retries")


def test_an_app_that_enqueues_while_it_is_imported(tmp_path: Path, headrace: Shell) -> None:
    file = tmp_path / "eager_app.py"
    file.write_text(
        """from headrace import Headrace
app = Headrace("sqlite:///eager.db")
@app.task
def plain(): ...
@app.task(isolate=True)
def isolated(): ...
plain.enqueue()
app.enqueue_many([plain.call(), isolated.call()])
"""
    )
    result = headrace("worker", "eager_app:app", "--burst", "--processes", "2")
    assert result.returncode == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if "enqueues a job" in line]
    assert len(warnings) == 1, result.stderr
    assert f"importing eager_app:app enqueues a job ({file}, line 7): each process that imports it" in warnings[0]


def test_a_worker_whose_user_lacks_a_right_ends(headrace: Shell) -> None:
    """It said so every second, for ever."""
    with closing(Server(tcp=True)) as server:
        server.command("ACL", "SETUSER", "weak", "reset", "on", ">w", "~*", "&*", "+@all", "-zadd")
        result = headrace("worker", "cli.shop:app", "--store", f"redis://weak:w@127.0.0.1:{server.port}/0")
    assert result.returncode == exits.STORE
    assert "may not run ZADD" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_the_app_may_come_from_the_environment(app: Headrace, url: str, headrace: Shell) -> None:
    result = headrace("worker", "--burst", "--store", url, HEADRACE_APP="cli.shop:app")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--store", "sqlite:///:memory:"], exits.CONFIGURATION, "lives in the memory of one process"),
        (["--store", "nowhere://x"], exits.CONFIGURATION, "No store speaks 'nowhere'"),
        (["--store", "sqlite:////no/such/folder/jobs.db"], exits.STORE, "the folder /no/such/folder does not exist"),
        (["--queues", "a,,b"], exits.USAGE, "A queue needs a name: '' is empty."),
        (["--queues", "a,a"], exits.USAGE, "a queue is named twice."),
        (["--processes", "0"], exits.USAGE, "0 is not in the range 1<=x<=1024."),
        (["--grace", "a while"], exits.USAGE, "Invalid value for '--grace'"),
        (["--max-memory", "much"], exits.USAGE, "'much' is not a size. Write for example 500MB or 2GB."),
        (["--session-timeout", "0.5s"], exits.USAGE, "Invalid value for '--session-timeout': at least a second."),
        (["--burst", "--reload"], exits.USAGE, "--burst stops when all is done, --reload goes on: choose one."),
    ],
)
def test_options_that_cannot_work(options: list[str], code: int, message: str, headrace: Shell) -> None:
    result = headrace("worker", "cli.shop:app", *options)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def holding(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "began", tmp_path / "until"


def test_sigterm_lets_a_job_finish(app: Headrace, worker: WorkerProcess, tmp_path: Path) -> None:
    began, until = holding(tmp_path)
    job = shop.hold.enqueue(str(began), str(until))
    eventually(began.exists, "the job to begin")
    worker.signal(signal.SIGTERM)
    worker.logged("stopping: jobs have 30 s to finish")
    waiting = shop.add.enqueue(1)
    until.touch()
    assert worker.wait() == 0
    assert job.result(timeout=0) == "held"
    assert waiting.state is State.READY


def test_a_second_ctrl_c_gives_the_job_back_unspent(app: Headrace, worker: WorkerProcess, tmp_path: Path) -> None:
    began, until = holding(tmp_path)
    job = shop.hold.enqueue(str(began), str(until))
    eventually(began.exists, "the job to begin")
    worker.signal(signal.SIGINT)
    worker.logged(r"stopping: jobs have 30 s to finish \(Ctrl-C again: at once\)")
    worker.signal(signal.SIGINT)
    worker.logged("stopping at once")
    assert worker.wait() == 0
    assert (job.refresh().state, job.attempts, job.crashes) == (State.READY, 0, 0)
    assert "Traceback" not in worker.log


RELOADED = """
from headrace import Headrace
app = Headrace()
@app.task(name="{task}")
def task() -> str:
    return "{task}"
"""


def test_reload_takes_up_what_changes(url: str, tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    file.write_text(RELOADED.format(task="first"))
    with worker_process("changing.py:app", url, "--reload", log=tmp_path / "log") as worker:
        worker.logged("tasks first")
        worker.logged("reloading when one of 1 files changes")
        worker.logged("worker process .* started")
        file.write_text("app = (")
        worker.logged("Importing changing.py:app failed: SyntaxError")
        worker.logged("waiting for a change")
        file.write_text(RELOADED.format(task="second"))
        worker.logged("tasks second")
        worker.logged("worker process .* started", 2)
        worker.signal(signal.SIGINT)
        assert worker.wait() == 0


def test_reload_with_nothing_to_watch(headrace: Shell) -> None:
    result = headrace("worker", "no_such:app", "--reload")
    assert result.returncode == exits.CONFIGURATION
    assert "Cannot find a module named 'no_such'" in result.stderr
