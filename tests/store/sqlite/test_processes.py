"""Many processes on one file; some of them die."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.records import Kind, NewJob, SessionInfo, State
from headrace.store.sqlite.store import SqliteStore
from headrace.store.sqlite.wakeup import BUSY, FREE, WaiterMap
from processes import environment, eventually
from volume import volume

from .conftest import OpenStore
from .helpers import Session, count, forked, healthy, jobs, look


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_several_open_a_new_file_at_once(path: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from headrace.store.sqlite.store import SqliteStore\nfrom headrace.records import NewJob\n"
        "open(sys.argv[2] + '-ready-' + sys.argv[3], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.0005)\n"
        "store = SqliteStore('sqlite:///' + sys.argv[1])\n"
        "store.run(store.put([NewJob(id=sys.argv[3], task='t', body=b'{}')]))\n"
    )
    go = tmp_path / "go"
    openers = [run_python(code, str(path), str(go), str(number)) for number in range(5)]
    eventually(lambda: len(list(tmp_path.glob("go-ready-*"))) == 5, "all to be ready")
    go.touch()
    for opener in openers:
        _, errors = opener.communicate(timeout=30)
        assert opener.returncode == 0, errors
    assert look(path, "SELECT count(*) FROM job") == [(5,)]
    assert healthy(path)


def test_writers_that_are_killed_lose_nothing(path: Path, open_store: OpenStore) -> None:
    """kill -9 at any moment of put, take and settle: what was acknowledged is there, and the file is sound."""
    random_source = random.Random("writers")
    store = open_store(keep_count=1 << 40)
    acknowledged: set[str] = set()
    rounds = volume(20)
    for round_ in range(rounds):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _write_until_killed(path, round_, writer)
            finally:
                os._exit(1)
        os.close(writer)
        time.sleep(random_source.uniform(0.005, 0.04))  # the moment of death, not a wait for something
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with open(reader, encoding="utf-8") as said:
            # The last line may have been cut off.
            acknowledged |= {line.rstrip("\n") for line in said if line.endswith("\n")}
    assert healthy(path)
    kept = {row[0]: row[1] for row in look(path, "SELECT id, state FROM job")}
    done = {line.removeprefix("done ") for line in acknowledged if line.startswith("done ")}
    put = acknowledged - {f"done {job}" for job in done}
    print(f"\n{rounds} writers killed: {len(put)} jobs acknowledged, {len(done)} settled, 0 lost")
    assert put - set(kept) == set()
    assert {kept[job] for job in done} <= {4}
    store.run(store.sweep())
    session = Session(store, "survivor")
    while leases := session.take(100):
        session.settle(*leases)
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.DONE: len(kept)}


def _write_until_killed(path: Path, round_: int, writer: int) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    guard = store.guard(f"writer {round_}")
    session = Session(store, f"writer {round_}")
    number = 0
    while guard:
        new = [NewJob(id=f"{round_}-{number + n}", task="t", body=b"x" * 200) for n in range(5)]
        number += 5
        store.run(store.put(new))
        os.write(writer, "".join(f"{job.id}\n" for job in new).encode())
        leases = session.take(3)
        session.settle(*leases)
        os.write(writer, "".join(f"done {lease.id}\n" for lease in leases).encode())


def test_threads_share_a_store(store: SqliteStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.run(store.put(jobs(1))), range(volume(200))))
    assert count(store) == volume(200)


def test_a_fork_does_not_touch_its_parents_connections(path: Path) -> None:
    """Both go on with the store they have; the child ends as any program does."""
    code = (
        "import os, sys, threading\n"
        "from headrace.store.sqlite.store import SqliteStore\nfrom headrace.records import NewJob\n"
        "def put(name): store.run(store.put([NewJob(id=name, task='t', body=b'{}')]))\n"
        "store = SqliteStore('sqlite:///' + sys.argv[1])\n"
        "put('before')\n"
        "watcher = store.job_waiter('x')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    put('child')\n    sys.exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "put('after')\n"
        "assert store.run(store.counts())[0].by_state['ready'] == 3\n"
    )
    process = run_python(code, str(path))
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert look(path, "SELECT id FROM job ORDER BY seq") == [("before",), ("child",), ("after",)]
    assert healthy(path)


# -- waiters --


def waiter_map(store: SqliteStore) -> WaiterMap:
    found = store._wakeups.map()
    assert found is not None
    return found


def test_a_waiter_is_woken_at_once(path: Path, store: SqliteStore) -> None:
    """By another process, through a datagram: no polling."""
    waiter = store.waiter("s", ["default"])
    waits = []
    for _ in range(10):
        waiter.arm()
        pid = os.fork()
        if pid == 0:
            try:
                other = SqliteStore(f"sqlite:///{path}")
                other.run(other.counts())  # opened, and warm
                other.run(other.put([NewJob(id=f"{time.monotonic()}", task="t", body=b"{}")]))
            finally:
                os._exit(0)
        assert waiter.wait(10)
        woken = time.monotonic()
        os.waitpid(pid, 0)
        ((stamp,),) = look(path, "DELETE FROM job RETURNING id")
        waits.append(woken - float(stamp))
    waiter.close()
    print(f"\nfrom put to wake-up in another process: {sorted(waits)[5] * 1000:.2f} ms (median of 10)")
    assert sorted(waits)[5] < 0.1


def test_the_slots_of_dead_waiters_are_freed(path: Path, store: SqliteStore) -> None:
    def listen_and_die() -> str:
        other = SqliteStore(f"sqlite:///{path}")
        for _ in range(3):
            other.waiter("s", ["default"]).arm()
        return "armed"

    assert forked(listen_and_die) == "armed"
    states = waiter_map(store)._map[64:68]
    assert list(states) == [2, 2, 2, FREE]
    store.run(store.put(jobs(1)))  # sends wake-ups, and finds that all are dead
    assert list(waiter_map(store)._map[64:68]) == [FREE] * 4
    mine = store.waiter("mine", ["default"])
    assert list(waiter_map(store)._map[64:68]) == [BUSY, FREE, FREE, FREE], "their places are used again"
    mine.close()


def test_each_thread_has_a_waiter_of_its_own(store: SqliteStore) -> None:
    with ThreadPoolExecutor(16) as pool:
        waiters = list(pool.map(lambda _: store.job_waiter("job"), range(64)))
    assert len({waiter.slot for waiter in waiters}) == 64  # type: ignore[attr-defined]
    for waiter in waiters:
        waiter.close()


@pytest.mark.parametrize("how", ["no sockets", "no folder"])
def test_waiters_where_no_sockets_can_be_had(
    how: str, path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiters look at the file's change counter instead: a little slower, and everything works."""
    if how == "no sockets":

        def refuse(*_: object) -> None:
            raise OSError("this file system has no sockets")

        monkeypatch.setattr(WaiterMap, "add", refuse)
    else:
        Path(f"{path}-run").touch()
    app = Headrace(f"sqlite:///{path}")

    @app.task
    def echo(word: str) -> str:
        return word

    app.use_store(open_store())
    with app.worker():
        waits = []
        for _ in range(5):
            before = time.monotonic()
            assert echo.enqueue("x").result(timeout=20) == "x"
            waits.append(time.monotonic() - before)
    print(f"\nenqueue to result without bells, median: {sorted(waits)[2] * 1000:.0f} ms")
    assert sorted(waits)[2] < 0.5


# -- sessions --


def test_a_dead_process_is_seen_at_once(path: Path, store: SqliteStore) -> None:
    """Its guard tells: nobody waits for the session to run out."""
    store.run(store.put(jobs(2)))

    def take_and_die() -> str:
        other = SqliteStore(f"sqlite:///{path}")
        guard = other.guard("dead")
        held = Session(other, "dead", timeout=3_600_000).take(1, spare=1)
        return f"{len(held)} {len(guard.descriptors)}"

    assert forked(take_and_die) == "2 1"
    (session,) = store.run(store.sessions())
    assert not session.alive
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned) == (1, 2)
    crashes = look(path, "SELECT crashes FROM job ORDER BY seq")
    assert crashes == [(1,), (0,)], "the spare one goes back free"
    assert not list(Path(f"{path}-run").glob("session-*")), "its guard was removed"


def test_a_live_process_is_left_alone(path: Path, store: SqliteStore) -> None:
    guard = store.guard("alive")
    Session(store, "alive")
    other = SqliteStore(f"sqlite:///{path}")
    assert other.run(other.sweep()).sessions_closed == 0
    other.close()
    guard.close()
    assert store.run(store.sweep()).sessions_closed == 1


def test_a_session_name_leads_nowhere(path: Path, store: SqliteStore) -> None:
    guard = store.guard("../../evil")
    assert [entry.name for entry in Path(f"{path}-run").iterdir() if entry.name.startswith("session-")] == [
        f"session-{b'../../evil'.hex()}"
    ]
    guard.close()


# -- for people --


def test_the_view_for_people(path: Path, store: SqliteStore) -> None:
    """`jobs` is documented: its columns don't change."""
    store.run(store.put([NewJob(id="1", task="t", body=b'{"n": 1}'), NewJob(id="2", task="t", body=b"x" * 5000)]))
    store.run(store.open(SessionInfo(id="s", name="host-1")))
    session = Session(store, "s")
    lease, other = session.take(2)
    session.settle(lease, result=b"7")
    session.settle(other, kind=Kind.FAILED, group="billing", error=b'{"type":"E"}')
    assert [name for _, name, *_ in look(path, "PRAGMA table_info(jobs)")] == [
        "id",
        "task",
        "queue",
        "state",
        "priority",
        "created",
        "due",
        "started",
        "finished",
        "attempts",
        "crashes",
        "worker",
        "failure_group",
        "arguments",
        "result",
        "error",
        "data",
    ]
    rows = look(path, "SELECT id, state, arguments, result, failure_group FROM jobs ORDER BY id")
    assert rows == [("1", "done", '{"n": 1}', "7", None), ("2", "failed", "x" * 5000, None, "billing")]
    (created,) = look(path, "SELECT created FROM jobs LIMIT 1")[0]
    assert created.startswith(time.strftime("%Y-%m-", time.gmtime()))
    with pytest.raises(Exception, match="cannot modify jobs because it is a view"):
        look(path, "DELETE FROM jobs")
