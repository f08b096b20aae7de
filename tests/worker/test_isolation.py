"""A process per job: what happens at its beginning and at its end, and what its job may rely on. As users' scripts."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from processes import environment

BEGINNING = """
import asyncio
import os
import sys
import time
from headrace import Headrace, current, inject

app = Headrace("sqlite:///" + os.path.dirname(os.path.abspath(__file__)) + "/jobs.db")
is_worker = __name__ == "__main__"

"""


def run_script(folder: Path, text: str, *, guarded: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script that has an app; the part after `---` is what it does when it is run and not imported."""
    declared, _, done = text.partition("---")
    script = BEGINNING + dedent(declared).strip() + "\n\n"
    script += "if is_worker:\n" if guarded else "if True:\n"
    script += "".join(f"    {line}\n" for line in dedent(done).strip().splitlines())
    path = folder / "script.py"
    path.write_text(script)
    command = [sys.executable, str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


# -- its end --


def test_a_crash_is_told_with_what_the_job_had_left_by_then(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        """
        @app.task(isolate=True, max_crashes=1)
        def work() -> None:
            current().update({"step": 1})
            os._exit(3)
        ---
        from headrace.ops.attempts import attempts
        job = work.enqueue()
        app.worker().run_until_empty()
        (run,) = attempts(app, job.id)
        print(run.outcome, run.error.message, run.data_before, run.data_after)
        """,
    )
    assert ran.stdout == "failed its process exited with code 3 None {'step': 1}\n", ran.stderr


def test_a_stop_hook_that_ends_the_process_takes_nothing_back(tmp_path: Path) -> None:
    """The function has returned, and that is what counts."""
    ran = run_script(
        tmp_path,
        """
        @app.on_stop
        def stop():
            if not is_worker:
                os._exit(7)

        @app.task(isolate=True)
        def work() -> int:
            return 1
        ---
        job = work.enqueue()
        app.worker().run_until_empty()
        print(job.refresh().state, job.attempts, job.crashes, job.result(timeout=0))
        """,
    )
    assert ran.stdout == "done 1 0 1\n", ran.stderr


def test_a_stop_hook_that_hangs_holds_up_nothing(tmp_path: Path) -> None:
    """The outcome is there long before the process is ended; the worker waits for it for a moment when it stops."""
    began = time.monotonic()
    ran = run_script(
        tmp_path,
        """
        @app.on_stop
        def stop():
            if not is_worker:
                time.sleep(60)

        @app.task(isolate=True)
        def work(number: int) -> int:
            return number
        ---
        with app.worker(slots=2):
            began = time.monotonic()
            jobs = [work.enqueue(number) for number in range(2)]
            print([job.result(timeout=30) for job in jobs], time.monotonic() - began < 5)
        print([(job.refresh().attempts, job.crashes) for job in jobs])
        """,
    )
    assert ran.stdout == "[0, 1] True\n[(1, 0), (1, 0)]\n", ran.stderr
    assert time.monotonic() - began < 20


def test_stop_hooks_of_the_last_job_come_to_their_end(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        """
        @app.on_stop
        async def stop():
            if not is_worker:
                await asyncio.sleep(1)
                print("tidied up", flush=True)

        @app.task(isolate=True)
        def work() -> None: ...
        ---
        work.enqueue()
        app.worker().run_until_empty()
        """,
    )
    assert ran.stdout == "tidied up\n", ran.stderr


# -- its event loop --


def test_values_and_coroutines_share_a_loop(tmp_path: Path) -> None:
    """So a pool of connections that a provider has opened works there, and so do the tasks that it has started."""
    ran = run_script(
        tmp_path,
        """
        loops = []

        @app.on_start
        async def start():
            loops.append(asyncio.get_running_loop())

        @app.on_stop
        async def stop():
            if not is_worker:
                print("stop", loops[0] is asyncio.get_running_loop(), flush=True)

        @app.provide("pool")
        async def pool():
            ticked = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.call_later(0.01, ticked.set)
            return loop, ticked, asyncio.create_task(ticked.wait())

        @app.task(isolate=True)
        async def work(pool=inject("pool")) -> list[bool]:
            loop, ticked, waiting = pool
            same = loop is asyncio.get_running_loop() and loops[0] is loop
            return [same, await asyncio.wait_for(waiting, 5)]
        ---
        job = work.enqueue()
        app.worker().run_until_empty()
        print(job.result(timeout=0))
        """,
    )
    assert ran.stdout == "stop True\n[True, True]\n", ran.stderr


# -- its beginning --


def test_a_script_that_runs_a_worker_when_it_is_imported(tmp_path: Path) -> None:
    """To import it runs a worker, which would import it, and so on; and enqueues a job, which asks for an import, too.

    So a failed import is not tried again for a while.
    """
    ran = run_script(
        tmp_path,
        """
        with open("imports", "a") as file:
            file.write("x")

        @app.task(isolate=True)
        def work() -> int:
            return 1
        ---
        job = work.enqueue()
        app.worker().run_until_empty()
        print(job.refresh().state)
        """,
        guarded=False,
    )
    assert (tmp_path / "imports").read_text() == "xx", "run once, imported once"
    assert ran.stdout == "scheduled\n"
    assert "Traceback" not in ran.stderr
    assert 'Put it under `if __name__ == "__main__":`' in ran.stderr


def test_a_run_whose_process_comes_after_its_lease_has_lapsed_is_not_entered(tmp_path: Path) -> None:
    """The machine sleeps for an hour while the app is imported for it: by then another worker may run the job."""
    ran = run_script(
        tmp_path,
        """
        if not is_worker:
            open("importing", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.01)

        @app.task(isolate=True)
        def work() -> None:
            with open("ran", "a") as file:
                file.write("x")
        ---
        with app.worker() as worker, app.events(timeout=30, what=["released", "done"]) as events:
            job = work.enqueue()
            while not os.path.exists("importing"):
                time.sleep(0.01)
            leases = worker._pump.leases
            steady = leases.steady
            leases.steady = lambda: steady() + 3_600_000
            open("go", "w").close()
            print(next(iter(events)).what, os.path.exists("ran"))
            leases.steady = steady
            job.result(timeout=30)
            print(open("ran").read(), job.refresh().attempts)
        """,
    )
    assert ran.stdout == "released False\nx 1\n", ran.stderr


def test_an_import_that_failed_is_not_tried_again_by_the_next_job(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        """
        with open("imports", "a") as file:
            file.write("x")
        if not is_worker:
            raise RuntimeError("broken")

        @app.task(isolate=True)
        def work() -> int:
            return 1
        ---
        with app.worker():
            for _ in range(3):
                job = work.enqueue()
                while job.refresh().state != "scheduled":
                    time.sleep(0.01)
        """,
    )
    assert (ran.returncode, (tmp_path / "imports").read_text()) == (0, "xx"), ran.stderr
    assert ran.stderr.count("its process could not be started") == 3


@pytest.mark.parametrize("way", ["app.worker().run()", "app.worker().start()"])
def test_a_worker_process_refuses_such_a_script(tmp_path: Path, way: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{BEGINNING}{way}\n")
    command = [sys.executable, "-m", "headrace", "worker", "script:app", "--burst"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode != 0
    assert 'Put it under `if __name__ == "__main__":`' in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_child_whose_parent_died_before_it_could_ask_dies_too() -> None:
    code = """
import os, sys
from headrace.worker.zygote import die_with_parent
parent = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:
    pass
die_with_parent(parent)
os.write(1, b"alive")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, timeout=30, check=True
    )
    assert done.stdout == b""
