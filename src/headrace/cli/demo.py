"""`headrace demo`: a tour with real worker processes, one of which does not survive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from headrace.cli import exits
from headrace.cli.demo_app import app, convert, deliver, fetch, greet
from headrace.cli.output import console, show_table
from headrace.errors import HeadraceError
from headrace.job import Job
from headrace.ops import look
from headrace.ops.doctor import SURVIVES
from headrace.records import HistoryRecord, State
from headrace.values.text import length

PARCELS = 40
SLOTS = 4
PATIENCE = 30.0
"""Seconds after which something that should have happened won't."""


@click.command("demo")
def demo_command() -> None:
    """See headrace work, in a quarter of a minute.

    Enqueues jobs, runs them in two worker processes, lets one fail and be retried, follows another's progress, and
    kills a worker in the middle of its work. All of it happens in a temporary folder.

    \b
    Example:
      headrace demo
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        app.url = f"sqlite:///{folder / 'jobs.db'}"
        app.use_store(None)
        stack.callback(app.close)
        complete = Tour(folder, stack).run()
    if not complete:
        click.get_current_context().exit(exits.NOT_DONE)


class Tour:
    """The steps, told as they happen."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._console = console()
        self._begin = time.monotonic()

    def run(self) -> bool:
        """The whole tour; False if a job was lost on the way."""
        first, second = self._start_workers()
        self._return_a_value()
        self._fail_and_retry()
        self._follow_progress()
        complete = self._kill_a_worker(first, second)
        self._console.print()
        self._say(f"That was headrace, in {length(round(1000 * (time.monotonic() - self._begin)))}.", style="bold")
        return complete

    # -- the steps --

    def _start_workers(self) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        self._title("Two workers")
        store = app.store
        self._say(f"The jobs live in one file: {app.url.removeprefix('sqlite:///')}")
        command = ["worker", "headrace.cli.demo_app:app", "--slots", str(SLOTS)]
        workers = tuple(self._stack.enter_context(self._worker(command, name)) for name in ("first", "second"))
        self._await("the workers", lambda: len(self._sessions(workers)) == 2)
        self._say(f"$ headrace {' '.join(command)}     (twice: processes {workers[0].pid} and {workers[1].pid})")
        self._say(f"Once it is there, a job survives {SURVIVES[store.durability]}")
        return workers[0], workers[1]

    def _return_a_value(self) -> None:
        self._title("A job returns a value")
        begin = time.monotonic()
        greeting = greet.enqueue("Ada").result(timeout=PATIENCE)
        took = length(round(1000 * (time.monotonic() - begin)))
        self._say(f"greet.enqueue('Ada').result() -> {greeting!r}, from another process, in {took}")

    def _fail_and_retry(self) -> None:
        self._title("A job fails, and is tried again")
        job = fetch.enqueue("https://example.org")
        answer = job.result(timeout=PATIENCE)
        for event in look.job(app, job.id).history or ():
            self._say(f"{_clock(event)}  {event.what:<9}{event.detail}", style="dim")
        self._say(f"-> {answer!r}")

    def _follow_progress(self) -> None:
        self._title("A job says how far it is")
        job = convert.enqueue(25)
        shown = -1
        for done in self._progress_of(job):
            if done >= shown + 5 or done == 25:
                shown = done
                self._say(f"[{'#' * done}{'.' * (25 - done)}] {4 * done} %")
        self._say(f"-> {job.result(timeout=PATIENCE)!r} pages")

    def _kill_a_worker(self, victim: subprocess.Popen[bytes], survivor: subprocess.Popen[bytes]) -> bool:
        self._title("A worker is killed in the middle of its work")
        jobs = app.enqueue_many([deliver.call(parcel) for parcel in range(PARCELS)])
        self._say(f"{PARCELS} parcels to deliver, by two workers with {SLOTS} hands each")
        self._await("both to be busy", lambda: self._delivered() >= 12 and self._held_by(victim) > 0)
        held = self._held_by(victim)
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        self._say(f"$ kill -9 {victim.pid}     ({self._delivered()} delivered, {held} in the dead worker's hands)")
        results = [job.result(timeout=PATIENCE) for job in jobs]
        return self._account_for(jobs, results, survivor.pid)

    def _account_for(self, jobs: list[Job[int]], results: list[int], survivor: int) -> bool:
        snapshots = [job.refresh().snapshot for job in jobs]
        done = sum(snapshot.state is State.DONE for snapshot in snapshots)
        again = sum(snapshot.crashes > 0 for snapshot in snapshots)
        complete = done == PARCELS and results == list(range(PARCELS))
        rows = [
            ("enqueued", str(len(jobs))),
            ("done", str(done)),
            (f"begun by the dead worker, finished by {survivor}", str(again)),
            ("lost", str(len(jobs) - done)),
        ]
        show_table(("parcels", "number"), rows, whole="parcels number", numbers="number")
        return complete

    # -- workers --

    @contextmanager
    def _worker(self, command: list[str], name: str) -> Iterator[subprocess.Popen[bytes]]:
        # Its log goes to a file: shown only if something goes wrong.
        with open(self._folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace", *command, "--store", app.url],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _sessions(self, workers: tuple[subprocess.Popen[bytes], ...]) -> list[look.WorkerFigures]:
        pids = {worker.pid for worker in workers}
        return [found for found in look.workers(app) if found.alive and (found.supervisor or found.pid) in pids]

    def _held_by(self, worker: subprocess.Popen[bytes]) -> int:
        return sum(session.running for session in self._sessions((worker,)))

    def _delivered(self) -> int:
        return sum(queue.done for queue in look.queues(app) if queue.queue == "parcels")

    # -- waiting and telling --

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(file.read_text(errors="replace") for file in sorted(self._folder.glob("*.log")))
                raise HeadraceError(f"Waited in vain for {what}. The workers said:\n{logs}")
            time.sleep(0.02)

    def _progress_of(self, job: Job[Any]) -> Iterator[int]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            progress = job.refresh().progress
            if progress is not None:
                yield int(progress.done)
            if job.state.final:
                return
            time.sleep(0.05)

    def _title(self, text: str) -> None:
        self._console.print()
        self._console.print(text, style="bold cyan", markup=False)

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(f"  {text}", style=style, markup=False, soft_wrap=True)


def _clock(event: HistoryRecord) -> str:
    at = time.localtime(event.at / 1000)
    return f"{time.strftime('%H:%M:%S', at)}.{event.at % 1000:03d}"
