"""The benchmark's side of a peer: its host process, its workers, and the place where its jobs are."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers.environments import ROOT
from bench.peers.servers import Service, die_with_parent
from bench.peers.witness import Reader


class Failure(Exception):
    """A peer did not do what it should have done. Reported beside the figures of the others."""


class Place:
    """One empty database with a host that enqueues into it and workers that come and go."""

    def __init__(self, adapter: str, python: Path, service: Service, purpose: str) -> None:
        self.adapter = adapter
        self.service = service
        self.purpose = purpose
        self.url = service.new_place()
        self.folder = Path(tempfile.mkdtemp(prefix=f"headrace-bench-{adapter}-"))
        self.witness = Reader(self.folder)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "BENCH_URL": self.url,
            "BENCH_FOLDER": str(self.folder),
            "BENCH_PURPOSE": purpose,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        }
        self._log = open(self.folder / "log", "ab")  # noqa: SIM115  (closed by close)
        self._host = subprocess.Popen(
            [python, "-m", "bench.peers.host", adapter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **self._surroundings(),
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._host.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            self._host.stdin.flush()
        line = self._host.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self.last_words()}
        if "error" in answer:
            raise Failure(f"{self.adapter}: {do}: {answer['error']}")
        return answer

    def last_words(self) -> str:
        self._log.flush()
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "ended without a word"

    def start_workers(self, purpose: str | None = None) -> None:
        for command in self.ask("workers", purpose=purpose or self.purpose)["commands"]:
            self._workers.append(
                subprocess.Popen(command, start_new_session=True, stdout=self._log, **self._surroundings())
            )

    def check_workers(self) -> None:
        if self._workers and all(worker.poll() is not None for worker in self._workers):
            raise Failure(f"{self.adapter}: the workers ended: {self.last_words()}")

    def kill_workers(self) -> None:
        """All of them at once, with -9, children and children's children included."""
        for process_id in [found for worker in self._workers for found in _family(worker.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._workers.clear()

    def close(self) -> None:
        self.kill_workers()
        self._host.kill()
        self._host.wait()
        for pipe in (self._host.stdin, self._host.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._log.close()
        self.service.clear(self.url)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _surroundings(self) -> dict[str, Any]:
        return {
            "env": self._environment,
            "cwd": self.folder,
            "stderr": self._log,
            "preexec_fn": die_with_parent,
        }


@contextlib.contextmanager
def place(adapter: str, python: Path, service: Service, purpose: str) -> Iterator[Place]:
    found = Place(adapter, python, service, purpose)
    try:
        found.ask("prepare")
        yield found
    finally:
        found.close()


def _family(process_id: int) -> list[int]:
    """A process and all that descend from it, as far as their parents are known (Linux; elsewhere the process only)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after_name = entry.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(entry.parent.name))
    found = [process_id]
    for known in found:
        found += children.get(known, [])
    return found


def wait_until(done: Any, patience: float, what: str, each: float = 0.002) -> None:
    """Looks every `each` seconds; gives up after `patience` seconds in which `done` says nothing new."""
    seen, since = None, time.monotonic()
    while True:
        answer = done()
        if answer is True:
            return
        if answer != seen:
            seen, since = answer, time.monotonic()
        if time.monotonic() - since > patience:
            raise Failure(f"{what}: stuck at {seen}")
        time.sleep(each)
