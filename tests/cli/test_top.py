"""`headrace top`: keys and screen as functions, and the real thing in a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace import Headrace
from headrace.cli import screen as top_screen
from headrace.cli.keys import Action, press
from headrace.cli.screen import FAILURES, JOBS, QUEUES, VIEWS, WORKERS, Look, State, render, seen, shown
from headrace.cli.top import do
from headrace.ops import follow, look, overview
from headrace.ops.overview import QueueLine, Rates
from headrace.records import State as JobState
from headrace.store.contract import CORE_FACETS
from headrace.store.facets import EventRecord
from processes import WorkerProcess, environment
from store.redis import servers

LOOK = Look(
    (
        tuple((f"q{i}", (f"q{i}", "1", "0", "0", "2", "3", "1.0", "0.5")) for i in range(30)),
        tuple((f"j{i}", (f"j{i}", "shop.mail:send", f"q{i}", "host-17", "3 s", "25 %")) for i in range(30)),
        tuple((f"f{i}", (f"f{i}", "shop.mail:send" * 5, "q0", "ValueError", "3 s ago")) for i in range(30)),
        (("s", ("host-17", "alive", "3", "q0, q1")),),
    ),
    (30, 30, 30, 1),
)


def pressed(keys: list[str], state: State | None = None) -> tuple[State, Action | None]:
    state, action = state or State(look=LOOK), None
    for key in keys:
        state, action = press(state, key)
    return state, action


# -- keys --


@pytest.mark.parametrize(
    ("keys", "view", "selected", "action"),
    [
        ([], QUEUES, 0, None),
        (["q"], QUEUES, 0, Action("quit")),
        (["\x1b[B", "down", "j"], QUEUES, 3, None),
        (["\x1b[B", "\x1b[A", "\x1b[A"], QUEUES, 0, None),
        (["j"] * 100, QUEUES, 29, None),
        (["\t"], JOBS, 0, None),
        (["\t"] * 4, QUEUES, 0, None),
        (["j", "f"], FAILURES, 0, None),
        (["f", "f"], QUEUES, 0, None),
        (["j", "p"], QUEUES, 1, Action("pause", "q1")),
        (["\t", "j", "c"], JOBS, 1, Action("cancel", "j1")),
        (["f", "j", "j", "r"], FAILURES, 2, Action("revive", "f2")),
        (["x"], QUEUES, 0, None),
    ],
)
def test_keys(keys: list[str], view: int, selected: int, action: Action | None) -> None:
    state, asked = pressed(keys)
    assert (state.view, state.selected, asked) == (view, selected, action)


@pytest.mark.parametrize(("key", "words"), [("c", "jobs"), ("r", "failures")])
def test_a_key_for_another_list_says_so(key: str, words: str) -> None:
    state, action = pressed([key])
    assert action is None
    assert f"select one of the {words} first" in state.message
    assert pressed(["j"], state)[0].message == ""


def test_nothing_can_be_done_to_nothing() -> None:
    for keys in (["p"], ["\t", "c"], ["f", "r"], ["j"], ["\x1b[A"]):
        state, action = pressed(keys, State())
        assert (action, state.selected) == (None, 0)


def test_help_comes_and_goes() -> None:
    state, _ = pressed(["?"])
    assert state.help
    state, action = pressed(["c"], state)
    assert (state.help, action) == (False, None)
    assert pressed(["?", "q"])[1] == Action("quit")


def test_the_selection_stays_within_what_there_is() -> None:
    state, _ = pressed(["j"] * 20)
    fewer = Look((LOOK.lines[0][:5], (), (), ()))
    assert seen(state, fewer).selected == 4
    assert seen(state, Look()).selected == 0


# -- screen --


def screen(state: State, width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), legacy_windows=False)
    with console.capture() as captured:
        console.print(render(state, width, height))
    return captured.get().splitlines()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (80, 18)])
@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_it_fits(view: int, size: tuple[int, int]) -> None:
    lines = screen(State(look=LOOK, view=view, where="sqlite:///jobs.db"), *size)
    assert len(lines) <= size[1]
    assert max(map(len, lines)) <= size[0]
    for name in ("queues (30)", "jobs (30)", "failures (30)", "workers (1)"):
        assert any(name in line for line in lines), name
    assert any(line.startswith(f"▸ {VIEWS[view].name}") for line in lines)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("height", [4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15])
@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_a_small_terminal_shows_what_is_selected_and_the_keys(view: int, width: int, height: int) -> None:
    chosen = min(17, len(LOOK.lines[view]) - 1)
    lines = screen(State(look=LOOK, view=view, selected=chosen, message="it is done"), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any(line.startswith(f"▸ {VIEWS[view].name}") for line in lines)
    assert any(line.startswith(LOOK.lines[view][chosen][1][0]) for line in lines)
    assert lines[-1].strip() == "it is done"
    names = [name for name in ("queues (", "jobs (", "failures (", "workers (") if any(name in line for line in lines)]
    assert len(names) == (1 if height < 8 else len(VIEWS))
    help_ = screen(State(look=LOOK, help=True), width, height)
    assert len(help_) <= height
    assert help_[-1].startswith("q quit")


def test_lists_get_what_the_selected_one_has_no_use_for() -> None:
    shown = dict(top_screen.shares(State(look=LOOK, view=WORKERS), 22))
    assert shown == {QUEUES: 9, JOBS: 2, FAILURES: 2, WORKERS: 1}
    assert dict(top_screen.shares(State(look=LOOK, view=JOBS), 22)) == {QUEUES: 2, JOBS: 9, FAILURES: 2, WORKERS: 1}


def test_a_narrow_terminal_keeps_the_queue_and_drops_numbers() -> None:
    (first, *_) = [line for line in screen(State(look=LOOK), 40, 24) if "QUEUE" in line]
    assert first.split()[:3] == ["QUEUE", "READY", "RUNNING"]
    (narrow, *_) = [line for line in screen(State(look=LOOK), 12, 24) if "QUEUE" in line]
    assert narrow.split()[0] == "QUEUE"


def test_jobs_that_were_put_together_can_be_told_apart() -> None:
    ids = [f"01a1df82c60d70a18bcd62c4e0a9{number:04x}" for number in range(3)]
    lines = tuple((i, (i, "shop.mail:send_newsletter", "mail", "host-17-1", "3 s", "25 %")) for i in ids)
    state = State(look=Look(((), lines, (), ())), view=JOBS)
    wide = "\n".join(screen(state, 80))
    assert all(job_id in wide for job_id in ids)
    narrow = "\n".join(screen(state, 40))
    assert all(f"a9{job_id[-4:]}" in narrow for job_id in ids)


def test_what_is_selected_is_visible() -> None:
    text = "\n".join(screen(State(look=LOOK, view=FAILURES, selected=29)))
    assert "f29" in text
    assert "f0 " not in text


def test_nothing_is_shown_as_nothing() -> None:
    text = "\n".join(screen(State(where="x")))
    assert "no jobs" in text
    assert "queues (0)" in text


def test_what_jobs_say_cannot_draw() -> None:
    line = ("j", ("j", "evil\x1b[2Jtask", "q", "w", "1 s", ""))
    text = "\n".join(screen(State(look=Look(((), (line,), (), ())), view=JOBS), 120))
    assert "evil\\x1b[2Jtask" in text


def test_help_and_messages_are_shown() -> None:
    assert "pause or resume" in "\n".join(screen(State(look=LOOK, help=True)))
    assert screen(State(look=LOOK, message="q1: paused"))[-1].strip() == "q1: paused"


def test_rates_come_from_events(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(overview.time, "monotonic", lambda: now)
    rates = Rates()
    now = 105.0
    rates.hear([EventRecord(0, "created", "j", "t", "q")] * 10 + [EventRecord(0, "done", "j", "t", "q")] * 5)
    assert rates.now() == {"q": (2.0, 1.0)}
    now = 114.0
    rates.hear([EventRecord(0, "started", "j", "t", "q"), EventRecord(0, "created", "j", "t", "r")])
    assert rates.now() == {"q": (1.0, 0.5), "r": (0.1, 0.0)}
    now = 120.0
    assert rates.now() == {"r": (0.1, 0.0)}


# -- once, and without a terminal --


def test_once_for_programs(app: Headrace, ask: Callable[..., Any]) -> None:
    app.tasks["cli.shop:send"].enqueue("ada")
    failed = app.tasks["cli.shop:fail"].enqueue()
    app.worker(queues=("default",)).run_until_empty()
    found = ask("top", "--once")
    assert [(queue["queue"], queue["ready"], queue["failed"]) for queue in found["queues"]] == [
        ("default", 0, 1),
        ("mail", 1, 0),
    ]
    assert [job["job"] for job in found["failures"]] == [failed.id]
    assert found["jobs"] == []


def test_numbers_are_numbers_with_their_units(
    app: Headrace, ask: Callable[..., Any], worker: WorkerProcess, tmp_path: Path
) -> None:
    app.tasks["cli.shop:hold"].enqueue(str(tmp_path / "began"), str(tmp_path / "until"))
    while not (tmp_path / "began").exists():
        pass
    while not (found := ask("top", "--once"))["jobs"][0]["progress_percent"]:
        pass  # its report is under way
    (tmp_path / "until").touch()
    (job,) = found["jobs"]
    assert job["progress_percent"] == 25.0
    assert job["running_seconds"] > 0
    (queue,) = found["queues"]
    assert (queue["running"], queue["paused"]) == (1, False)
    assert queue["in_per_second"] > 0


@pytest.mark.parametrize("look", [overview.overview, lambda app: asyncio.run(overview.aoverview(app))])
def test_a_single_look_has_the_rates_of_the_last_minute(
    app: Headrace, look: Callable[[Headrace], overview.Overview]
) -> None:
    for _ in range(6):
        app.tasks["cli.shop:send"].enqueue("ada")
    app.worker(queues=("mail",)).run_until_empty()
    (queue,) = look(app).queues
    assert queue.in_per_second == queue.out_per_second == pytest.approx(0.1, rel=0.1)


def test_all_failures_are_counted_and_the_latest_listed(app: Headrace) -> None:
    before = overview.overview(app)
    app.enqueue_many([app.tasks["cli.shop:fail"].call() for _ in range(overview.LIMIT + 50)])
    app.worker(queues=("default",)).run_until_empty()
    look = overview.overview(app, None, before)  # no event has said that anything failed
    assert (look.failed, len(look.failures)) == (overview.LIMIT + 50, overview.LIMIT)
    text = "\n".join(screen(State(look=shown(look))))
    assert f"failures ({overview.LIMIT + 50})" in text


def test_once_for_people(app: Headrace, run: Callable[..., Any]) -> None:
    app.tasks["cli.shop:send"].enqueue("ada")
    output = run("top", "--once").output
    assert re.search(r"mail +1 +0 +0 +0 +0", output)


def test_without_a_terminal_it_prints_when_something_happens(app: Headrace, url: str) -> None:
    app.store.run(app.store.counts())
    command = [sys.executable, "-m", "headrace", "top", "--store", url, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["queues"] == []
        app.tasks["cli.shop:add"].enqueue(1, 2)
        second = json.loads(process.stdout.readline())
        assert second["queues"][0]["ready"] == 1
        assert second["queues"][0]["in_per_second"] > 0
        process.kill()


@pytest.mark.parametrize("option", ["--json", "--plain"])
def test_it_outlives_a_restart_of_its_server(option: str) -> None:
    with closing(servers.Server()) as server, closing(Headrace(server.url)) as app:
        app.task(name="t")(print)
        app.store.run(app.store.counts())
        command = [sys.executable, "-m", "headrace", "top", "--store", server.url, option]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            server.kill()
            assert process.stderr.readline().startswith("headrace: ")
            server.start()
            app.tasks["t"].using(queue="afterwards").enqueue()
            while "afterwards" not in process.stdout.readline():
                assert process.poll() is None
            process.kill()


# -- in a terminal --


class Terminal:
    """`headrace top` in a pseudo-terminal."""

    def __init__(self, url: str) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            command = [sys.executable, "-m", "headrace", "top", "--store", url]
            os.execve(sys.executable, command, environment(TERM="xterm", LINES="", COLUMNS=""))
        self.resize(80, 24)
        self.text = ""

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, keys: str) -> None:
        self.text = ""
        os.write(self.descriptor, keys.encode())

    def shows(self, pattern: str) -> None:
        """Wait until it has drawn something that fits."""
        end = time.monotonic() + 20
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, self.text[-4_000:]
            if select.select([self.descriptor], [], [], 0.1)[0]:
                self.text += self.read()

    def read(self) -> str:
        try:
            return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(self.descriptor, 65_536).decode(errors="replace"))
        except OSError:
            return ""

    def wait(self) -> int:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if select.select([self.descriptor], [], [], 0.05)[0]:
                self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it did not end")


@contextmanager
def terminal(url: str) -> Iterator[Terminal]:
    made = Terminal(url)
    try:
        yield made
    finally:
        if made.pid:
            os.kill(made.pid, signal.SIGKILL)
            os.waitpid(made.pid, 0)
        os.close(made.descriptor)


pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_the_real_thing(app: Headrace, url: str, worker: WorkerProcess, tmp_path: Path) -> None:
    failed = app.tasks["cli.shop:fail"].enqueue()
    with terminal(url) as shown:
        shown.shows(r"failures \(1\)")
        shown.shows("ValueError")
        app.tasks["cli.shop:hold"].enqueue(str(tmp_path / "began"), str(tmp_path / "until"))
        shown.shows(r"cli.shop:hold.*25 %")
        shown.resize(120, 30)
        shown.type("?")
        shown.shows("pause or resume the queue")
        shown.type(" ")
        shown.type("f")
        shown.shows(r"▸ failures")
        shown.type("r")
        shown.shows(f"{failed.id}: revived")
        shown.type("f\t")
        shown.shows(r"▸ jobs")
        shown.type("c")
        shown.shows(": told to stop")
        (tmp_path / "until").touch()
        shown.shows(r"jobs \(0\)")
        shown.type("q")
        assert shown.wait() == 0
    app.job(failed.id).refresh()
    assert app.job(failed.id).state is JobState.FAILED, "it was revived, and has failed again"
    assert [line.what for line in app.job(failed.id).history].count("revived") == 1


def test_ctrl_c_ends_it_and_gives_the_terminal_back(app: Headrace, url: str) -> None:
    app.store.run(app.store.counts())
    with terminal(url) as shown:
        before = termios.tcgetattr(shown.descriptor)
        shown.shows("no jobs")
        assert termios.tcgetattr(shown.descriptor)[3] != before[3], "keys are read one by one"
        shown.type("\x03")
        assert shown.wait() == 130


def test_workers_are_shown() -> None:
    assert VIEWS[WORKERS].name == "workers"
    assert "host-17" in "\n".join(screen(State(look=LOOK, view=WORKERS)))


def test_on_redis() -> None:
    with closing(Headrace(servers.fresh_url())) as app:

        @app.task(name="add")
        def add(a: int) -> int:
            return 1 // a

        jobs = [add.enqueue(a) for a in (0, 1, 2)]
        app.worker().run_until_empty()
        add.enqueue(3)
        look = overview.overview(app, Rates())
        assert look.queues == (QueueLine("default", False, 1, 0, 0, 0, 1, 0.0, 0.0),)
        assert [line.job for line in look.failures] == [jobs[0].id]
        assert do(app, Action("revive", jobs[0].id)) == f"{jobs[0].id}: revived"
        assert do(app, Action("revive", jobs[0].id)) == f"{jobs[0].id}: refused: it is ready"
        assert do(app, Action("cancel", jobs[0].id)) == f"{jobs[0].id}: cancelled"
        assert do(app, Action("cancel", jobs[1].id)) == f"{jobs[1].id}: done already"


def test_a_queue_is_paused_and_resumed(app: Headrace) -> None:
    app.tasks["cli.shop:send"].enqueue("ada")
    assert do(app, Action("pause", "mail")) == "mail: paused"
    assert [cells[0] for _, cells in shown(overview.overview(app)).lines[QUEUES]] == ["mail (paused)"]
    assert do(app, Action("pause", "mail")) == "mail: resumed"
    assert [queue.paused_by for queue in look.queues(app)] == [None]


def test_a_store_that_cannot_pause_queues_says_so(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(app.store), "facets", CORE_FACETS)
    assert "has no queue controls" in do(app, Action("pause", "mail"))


def test_following_from_an_event_loop(app: Headrace) -> None:
    async def follow_it() -> list[int]:
        async with follow.Follower(app) as follower:
            before = await follower.alook()
            await app.tasks["cli.shop:send"].aenqueue("ada")
            await follower.await_()
            after = await follower.alook()
        return [sum(queue.ready for queue in look.queues) for look in (before, after)]

    assert asyncio.run(follow_it()) == [0, 1]
