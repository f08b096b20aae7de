"""How commands find the app: factories, `[tool.headrace]` in pyproject.toml, and which of several places counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.errors import ConfigurationError
from headrace.loading import load_app, path_of
from headrace.project import app_of_project
from processes import environment

from .conftest import alone

Shell = Callable[..., subprocess.CompletedProcess[str]]

FACTORY = """
import os
from headrace import Headrace

def make_app() -> Headrace:
    with open("calls", "a") as calls:
        print(os.getpid(), file=calls)
    app = Headrace("sqlite:///jobs.db")
    app.include("tasks")
    return app
"""
TASKS = """
import os
from headrace import shared_task

@shared_task
def add(a: int, b: int) -> int:
    return a + b

@shared_task(isolate=True)
def alone(number: int) -> int:
    return add.enqueue(number, os.getpid() * 0).id and number
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a command in a folder below that of the test: `shell("src", "worker")`."""
    alone(tmp_path, monkeypatch)

    def invoke(folder: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *arguments],
            env=environment(**env),
            cwd=tmp_path / folder,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return invoke


# -- factories --


def test_a_factory_makes_the_app_once_in_each_process(tmp_path: Path, shell: Shell) -> None:
    """In the supervisor, in a worker process, and in the one that isolated jobs are forked from."""
    (tmp_path / "factory.py").write_text(FACTORY)
    (tmp_path / "tasks.py").write_text(TASKS)
    put = shell(".", "enqueue", "alone", "7", "--app", "factory:make_app")
    assert put.returncode == 0, put.stderr
    (tmp_path / "calls").unlink()
    worker = shell(".", "worker", "factory:make_app", "--burst")
    assert worker.returncode == 0, worker.stderr
    jobs = shell(".", "jobs", "--app", "factory:make_app", "--json")
    assert jobs.stdout.count('"state": "done"') == 2, worker.stderr + jobs.stdout
    pids = (tmp_path / "calls").read_text().split()
    assert len(pids) == len(set(pids)) == 4  # and the command that looks


def test_the_app_of_a_factory_is_the_same_however_often_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one_factory.py").write_text("from headrace import Headrace\ndef make_app(): return Headrace()\n")
    (tmp_path / "same_factory.py").write_text("from one_factory import make_app\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    app = load_app("one_factory:make_app")
    assert load_app("one_factory:make_app") is load_app("same_factory:make_app") is app
    assert path_of(app) == "one_factory:make_app"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def make(url): ...", "bad:make can't be called without arguments (missing a required argument: 'url')"),
        ("def make(): return 5", "bad:make is a function that returned a int, not a Headrace app."),
        ("def make() -> None: open('called', 'w')", "bad:make is a function that returns None, and not a Headrace"),
        ("async def make(): open('called', 'w')", "bad:make is no plain function"),
        ("def make(): yield open('called', 'w')", "bad:make is no plain function"),
        ("def make(): 1 / 0", "Calling bad:make failed: ZeroDivisionError: division by zero (in "),
        ("def make(): return Headrace(retries=-1)", "line 2: retries"),
        ("class make: ...", "bad:make is a type, not a Headrace app."),
        ("@Headrace().task\ndef make(): open('called', 'w')", "bad:make is a Task, not a Headrace app."),
        ("def make(): app = Headrace(); app.include('nonesuch'); return app", "app.include('nonesuch'): there is no"),
        (
            "def make(): app = Headrace(); app.include('worse'); return app",
            "Importing bad:make failed: KeyError: 7 (in ",
        ),
    ],
)
def test_what_is_no_factory_of_an_app_is_refused_in_a_sentence(
    code: str, problem: str, tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "bad.py").write_text(f"from headrace import Headrace\n{code}\n")
    (tmp_path / "worse.py").write_text("{}[7]\n")
    result = shell(".", "worker", "bad:make")
    assert result.returncode == exits.CONFIGURATION
    assert problem in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "called").exists()


# -- pyproject.toml --


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose app is found from each of its folders."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.headrace]\napp = "factory:make_app"\n')
    (tmp_path / "factory.py").write_text(FACTORY.replace("jobs.db", str(tmp_path / "jobs.db")))
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


@pytest.mark.parametrize("folder", [".", "deep/er"])
def test_commands_find_the_app_of_the_project(folder: str, project: Path, shell: Shell) -> None:
    put = shell(folder, "enqueue", "alone", "7")
    assert put.returncode == 0, put.stderr
    worker = shell(folder, "worker", "--burst")
    assert worker.returncode == 0, worker.stderr
    jobs = shell(folder, "jobs", "--json")
    assert jobs.stdout.count('"state": "done"') == 2, worker.stderr + jobs.stdout
    assert shell(folder, "migrate").stdout.startswith(f"sqlite:///{project / 'jobs.db'} is ready")


def test_the_command_line_goes_before_the_environment_and_that_before_the_project(project: Path, shell: Shell) -> None:
    for name in ("one", "two"):
        text = f"from headrace import Headrace\napp = Headrace('sqlite:///{project}/{name}.db')\n"
        (project / f"{name}.py").write_text(text)

    def store(*arguments: str, **env: str) -> str:
        return shell(".", "migrate", *arguments, **env).stdout.rpartition("/")[2].partition(" ")[0]

    assert store() == "jobs.db"
    assert store(HEADRACE_APP="one:app") == "one.db"
    assert store("--app", "two:app", HEADRACE_APP="one:app") == "two.db"
    assert store(HEADRACE_STORE=f"sqlite:///{project}/three.db") == "jobs.db"
    assert store("--store", f"sqlite:///{project}/three.db") == "three.db"


def test_a_broken_module_keeps_no_operator_from_looking(project: Path, shell: Shell) -> None:
    """Only commands that need tasks import what the app includes."""
    assert shell(".", "migrate").returncode == 0
    (project / "tasks.py").write_text("1 / 0\n")
    assert shell(".", "jobs").returncode == 0
    result = shell(".", "enqueue", "add", "1", "2")
    assert result.returncode == exits.CONFIGURATION
    assert f"Importing factory:make_app failed: ZeroDivisionError: division by zero (in {project}/" in result.stderr


@pytest.mark.parametrize(
    ("command", "how"),
    [(("worker",), "Write headrace worker module:app"), (("enqueue", "add"), "Say --app module:app")],
)
def test_without_any_app_a_command_says_where_to_name_one(
    command: tuple[str, ...], how: str, tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\ndependencies = ["headrace"]\n')
    result = shell(".", *command)
    assert result.returncode == exits.USAGE
    assert f"Which app? {how}, set $HEADRACE_APP, or name it in the pyproject.toml" in result.stderr
    assert '[tool.headrace]\napp = "shop.tasks:app"' in result.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.headrace]\n", "[tool.headrace] names no app. Write app = "),
        ("[tool.headrace]\napp = 5\n", "[tool.headrace] names no app. Write app = "),
        ('[tool.headrace]\napp = "a:b"\nstore = "x"\n', "[tool.headrace] does not know 'store'. It takes app."),
        ("[tool]\nheadrace = 5\n", "tool.headrace is a table"),
        ("[tool.headrace\n", "can't be read: "),
    ],
)
def test_a_mistake_in_the_file_is_named(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as raised:
        app_of_project()
    assert str(raised.value).startswith(str(tmp_path / "pyproject.toml"))
    assert problem in str(raised.value)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in another one, whose pyproject.toml names an app."""
    (tmp_path / "pyproject.toml").write_text('[tool.headrace]\napp = "shop/app.py:app"\n')
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    monkeypatch.setenv("HEADRACE_ROOT", "")
    return tmp_path / "inside"


def test_folders_around_the_current_one_count_up_to_the_repository_or_home(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app_of_project() is None
    monkeypatch.setenv("HOME", str(inside.parent))
    assert app_of_project() == f"{inside.parent}/shop/app.py:app"
    monkeypatch.setenv("HOME", "/nowhere")
    (inside.parent / ".git").touch()  # as in a worktree
    assert app_of_project() == f"{inside.parent}/shop/app.py:app"
    assert os.environ["HEADRACE_ROOT"] == str(inside.parent)
    (inside / "pyproject.toml").write_text("[project]\n# headrace\n")
    assert app_of_project() == f"{inside.parent}/shop/app.py:app"
    (inside / "pyproject.toml").write_text('[tool.headrace]\napp = "mine:app"\n')
    assert app_of_project() == "mine:app"
    (inside / "pyproject.toml").unlink()
    (inside / ".git").mkdir()
    assert app_of_project() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_counts_in_the_current_folder_alone(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside.parent / ".git").mkdir()
    os.chown(inside.parent / "pyproject.toml", 12345, 12345)
    assert app_of_project() is None
    monkeypatch.chdir(inside.parent)
    assert app_of_project() is not None


def test_a_folder_that_is_gone_names_no_app(inside: Path) -> None:
    inside.rmdir()
    assert app_of_project() is None


@pytest.mark.parametrize("itself", ['"program"', "__name__"])
def test_an_app_of_a_program_includes_the_program_itself(itself: str, tmp_path: Path, shell: Shell) -> None:
    """Run as a script, it is not imported a second time; a worker finds its tasks under the same names."""
    (tmp_path / "program.py").write_text(
        f"""from headrace import Headrace, shared_task
app = Headrace("sqlite:///jobs.db")
app.include({itself})

@shared_task(isolate=True)
def double(number: int) -> int:
    return number * 2

if __name__ == "__main__":
    job = double.enqueue(21)
    app.worker().run_until_empty()
    print(job.task, job.result())
    double.enqueue(4)
"""
    )
    result = subprocess.run(
        [sys.executable, "program.py"],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout == "program:double 42\n", result.stderr
    assert shell(".", "worker", "program:app", "--burst").returncode == 0
    with_app = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    assert [job.state for job in with_app.jobs()] == ["done", "done"]
    with_app.close()
