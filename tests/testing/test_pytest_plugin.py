"""The pytest plugin, in projects of its users: each test runs pytest in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.process

GUIDE = (Path(__file__).parents[2] / "docs/guide.md").read_text(encoding="utf-8")

SHOP = """
    import os
    from headrace import Headrace
    app = Headrace("sqlite:///production.db")

    @app.task(queue="mail")
    def send(to: str, subject: str = "hi") -> str:
        return f"{to}: {subject}"

    @app.task
    def where() -> int:
        return os.getpid()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("HEADRACE_STORE", "PYTEST_ADDOPTS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\nheadrace_app = shop:app\n")
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:valkey", *options, timeout=120)
    assert not (project.path / "production.db").exists(), "a test has opened the app's own store"
    return result


def test_the_harness_is_a_fixture_and_each_test_has_a_store_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from shop import send

        @pytest.mark.parametrize("turn", [1, 2])
        def test_send(headrace_testing, turn):
            assert headrace_testing.jobs == []
            job = send.enqueue("ada")
            headrace_testing.assert_enqueued(send, to="ada")
            headrace_testing.run_all()
            assert job.result() == "ada: hi"
        """
    )
    run(project).assert_outcomes(passed=2)


def test_a_call_that_is_missing_is_shown_beside_the_nearest_one_at_the_line_of_the_test(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        from shop import send

        def test_send(headrace_testing):
            send.enqueue("ada", "bye")
            headrace_testing.assert_enqueued(send, "ada", "hi")
        """
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       headrace_testing.assert_enqueued(send, *",
            "E       AssertionError: shop:send(to='ada', subject='hi') was not enqueued.",
            "E       Jobs of this task, the nearest first (- expected, + enqueued):",
            "E         shop:send(to='ada', subject='bye')  [[]ready, queue mail[]]",
            "E           - subject='hi'",
            "E           + subject='bye'",
        ]
    )
    result.stdout.no_fnmatch_line("*harness.py*")


def test_a_fixture_of_the_project_names_the_app_as_well(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\n")
    project.makeconftest(
        """
        import pytest, shop

        @pytest.fixture
        def headrace_app():
            return shop.app
        """
    )
    project.makepyfile(
        """
        from shop import send

        def test_send(headrace_testing):
            send.enqueue("ada")
            assert headrace_testing.run_all() == 1

        def test_work(headrace_workers):
            assert send.enqueue("ada").result(timeout=60) == "ada: hi"
        """
    )
    run(project).assert_outcomes(passed=2)


def test_the_app_of_the_project_is_under_test_where_nothing_else_is_said(project: pytest.Pytester) -> None:
    (project.path / "tox.ini").unlink()
    project.makepyprojecttoml(
        """
        [tool.headrace]
        app = "shop:make_app"
        """
    )
    with (project.path / "shop.py").open("a") as shop:
        shop.write("\n\ndef make_app() -> Headrace:\n    return app\n")
    project.makepyfile(
        """
        from shop import send

        def test_send(headrace_testing):
            send.enqueue("ada")
            assert headrace_testing.run_all() == 1
        """
    )
    run(project).assert_outcomes(passed=1)


def test_without_an_app_the_error_says_where_to_name_it(project: pytest.Pytester) -> None:
    project.makepyfile("def test_send(headrace_testing): ...")
    project.makeini("[pytest]\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["Which app is under test? Write headrace_app = 'shop.tasks:app' into *"])
    project.makeini("[pytest]\nheadrace_app = shop:ap\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["shop has no 'ap'. Write module:name, *"])


def test_worker_processes_run_jobs_on_a_file_of_the_test_and_stop_after_it(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import os
        import pytest
        import shop

        pids = []

        @pytest.mark.headrace_workers("--processes", "2", "--slots", "1")
        def test_work(headrace_workers, tmp_path):
            assert shop.where.enqueue().result(timeout=60) != os.getpid()
            assert headrace_workers.url == f"sqlite:///{tmp_path}/headrace.db"
            assert "processes 2" in headrace_workers.log
            shop.app.close()  # as the shutdown of a web framework does
            assert shop.send.enqueue("ada").result(timeout=60) == "ada: hi"
            pids.append(headrace_workers.process.pid)

        def test_after():
            with pytest.raises(ProcessLookupError):
                os.kill(pids[0], 0)
            assert repr(shop.app) == "<Headrace on sqlite:///production.db>"
        """
    )
    run(project, "--strict-markers").assert_outcomes(passed=2)


def test_the_log_of_a_worker_is_in_the_report_of_its_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import os, signal
        import pytest
        import shop

        def test_wrong(headrace_workers):
            assert shop.send.enqueue("ada").result(timeout=60) == "ada: bye"

        def test_died(headrace_workers):
            headrace_workers.process.send_signal(signal.SIGKILL)
            headrace_workers.process.wait()

        @pytest.mark.headrace_workers("--no-such-option")
        def test_never_started(headrace_workers):
            raise AssertionError("unreachable")

        def test_both(headrace_testing, headrace_workers): ...
        """
    )
    result = run(project)
    result.assert_outcomes(failed=1, passed=1, errors=3)
    result.stdout.fnmatch_lines(
        [
            "headrace worker died (SIGKILL):",
            "*tasks shop:send, shop:where",
            "headrace worker died (exit code 2):",
            "*No such option*--no-such-option*",
            "A test has one store: use headrace_testing or headrace_workers, not both.",
            "*test_wrong*",
            "E       AssertionError: assert 'ada: hi' == 'ada: bye'",
            "*- headrace worker -*",
            "*tasks shop:send, shop:where",
        ]
    )
    result.stdout.no_fnmatch_line("*unreachable*")


def test_pytest_imports_nothing_of_headrace_but_the_plugin(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_modules():
            found = sorted(name for name in sys.modules if name.startswith("headrace"))
            assert found == ["headrace", "headrace.errors", "headrace.pytest_plugin"]
            assert "apsw" not in sys.modules and "msgspec" not in sys.modules
        """
    )
    run(project).assert_outcomes(passed=1)


def test_the_tests_of_the_guide_pass(project: pytest.Pytester) -> None:
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "headrace_workers" in block]
    project.makepyfile(block)
    run(project, "--strict-markers").assert_outcomes(passed=2)


def test_a_worker_of_a_test_ends_with_ctrl_c(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import os, pathlib

        def test_work(headrace_workers):
            pathlib.Path("pid").write_text(str(headrace_workers.process.pid))
            raise KeyboardInterrupt
        """
    )
    result = run(project)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not Path(f"/proc/{(project.path / 'pid').read_text()}").exists()
