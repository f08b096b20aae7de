"""Real worker processes on an app of their own, of any version of headrace, and what their jobs wrote down."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.redis.servers import Server

HERE = Path(__file__).parent.parent.parent

APP = """
import os, time
from headrace import Headrace

app = Headrace(os.environ["GROWTH_STORE"])
NOTES = os.open(os.environ["GROWTH_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@app.task(name="noop")
def noop(number: int) -> None:
    pass


@app.task(name="brief")
def brief(number: int) -> None:
    until = time.perf_counter() + 0.0002
    while time.perf_counter() < until:
        pass


@app.task(name="note")
def note(number: int) -> None:
    os.write(NOTES, b"%d %.6f\\n" % (number, time.time()))


@app.task(name="ending")
def ending(number: int) -> None:
    time.sleep(0.02)
    os.write(NOTES, b"%d %.6f\\n" % (number, time.time()))
"""


class Scene:
    """A store, a folder with the app, and processes that use both."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.notes = folder / "notes"
        self.notes.touch()
        (folder / "growth_app.py").write_text(APP, encoding="utf-8")

    def python(self, *arguments: str, tree: Path = HERE, stdout: int | None = None) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{self.folder}",
            "GROWTH_STORE": self.url,
            "GROWTH_NOTES": str(self.notes),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a worker that compiles headrace as it goes drains less
        return subprocess.Popen(
            [sys.executable, *arguments], env=environment, cwd=self.folder, stdout=stdout, stderr=subprocess.DEVNULL
        )

    @contextmanager
    def worker(self, *options: str, tree: Path = HERE) -> Iterator[subprocess.Popen[bytes]]:
        """A worker for the length of a block."""
        process = self.python("-m", "headrace", "worker", "growth_app:app", *options, tree=tree)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def noted(self) -> list[tuple[int, float]]:
        """The numbers of jobs, and when they started, as they wrote it down."""
        lines = self.notes.read_text(encoding="utf-8").split("\n")[:-1]  # the last may be half written
        return [(int(number), float(at)) for number, at in map(str.split, lines)]


@contextmanager
def scene(store: str) -> Iterator[Scene]:
    """A fresh one, on SQLite or Redis."""
    with tempfile.TemporaryDirectory() as folder:
        if store == "SQLite":
            yield Scene(f"sqlite:///{folder}/jobs.db", Path(folder))
            return
        server = Server()
        try:
            yield Scene(f"{server.url}?ns=growth", Path(folder))
        finally:
            server.close()
