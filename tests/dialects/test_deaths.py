"""What a worker process held when it died runs again at once, also where no server knows what it held."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace import Headrace
from headrace.dialects.bedrock.store import BedrockStore
from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.wire import Answer
from headrace.errors import StoreUnavailable
from headrace.records import Filter, Kind, Lease, Outcome, Ref, SessionInfo, State, Take, Verdict
from headrace.store import Store, open_store
from headrace.store.contract import Custodian
from headrace.worker.custody import Custody
from processes import eventually, worker_process
from store.redis.servers import Server

from . import mortal
from .bedrock.harness import process as bedrock_process

AT_ONCE = 10.0
"""Seconds on a busy machine, most of them for starting a process. The shortest of the leases lasts fifteen."""

REDIS = {
    "workkit": "workkit+{url}?schedule=mortal",
    "hworker": "hworker+{url}?name=mortal&prefetch=10",
    "gearmonkey": "gearmonkey+{url}",
    "qless": "qless+{url}",
}
CUSTODIANS = ["workkit", "hworker", "bedrock"]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of a dialect, on a server of its own."""
    with ExitStack() as stack:
        if request.param == "bedrock":
            yield f"bedrock://127.0.0.1:{stack.enter_context(bedrock_process(tmp_path / 'jobs.db')).port}"
        else:
            yield REDIS[request.param].format(url=stack.enter_context(closing(Server())).url)


class Run(NamedTuple):
    """A line that a job left."""

    number: int
    pid: int
    at: float


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Run]]:
    """All runs so far."""
    path = tmp_path / "witness"
    path.touch()
    monkeypatch.setenv("HEADRACE_WITNESS", str(path))

    def look() -> list[Run]:
        lines = (line.split() for line in path.read_text().splitlines())
        return [Run(int(number), int(pid), float(at)) for number, pid, at in lines]

    return look


def enqueue(url: str, count: int, seconds: float) -> None:
    before = mortal.app.use_store(open_store(url))
    try:
        for number in range(count):
            mortal.work.enqueue(number, seconds)
    finally:
        mortal.app.close()
        mortal.app.use_store(before)


@pytest.mark.parametrize("place", [*REDIS, "bedrock"], indirect=True)
def test_jobs_of_a_killed_process_run_again_at_once(place: str, runs: Callable[[], list[Run]], tmp_path: Path) -> None:
    enqueue(place, 3, 60)
    with worker_process("dialects.mortal:app", place, "--slots", "3", log=tmp_path / "log") as worker:
        eventually(lambda: len(runs()) == 3, "all jobs to run")
        (victim,) = {run.pid for run in runs()}
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        again = eventually(lambda: runs()[3:] if len(runs()) == 6 else None, "all jobs to run again")
        assert sorted(run.number for run in again) == [0, 1, 2], worker.log
        assert all(run.pid != victim for run in again)
        seconds = max(run.at for run in again) - killed
        print(f"from the death of a process to the next start of its jobs: {seconds:.2f} s")
        assert seconds < AT_ONCE, worker.log
        worker.logged(r"jobs of a dead process returned to their queues: 3")


@pytest.mark.parametrize("place", ["workkit", "hworker"], indirect=True)
def test_a_job_that_kills_every_process_waits_for_the_end_of_its_lease(
    place: str, runs: Callable[[], list[Run]], tmp_path: Path
) -> None:
    enqueue(place, 1, 60)
    with worker_process("dialects.mortal:app", place, log=tmp_path / "log") as worker:
        for count in (1, 2, 3):
            eventually(lambda count=count: len(runs()) == count, f"run {count}")
            os.kill(runs()[-1].pid, signal.SIGKILL)
        worker.logged("has killed its process again")
        worker.child(other_than=runs()[-1].pid)
        assert len(runs()) == 3


# -- without processes: every moment can be chosen --


class Scene:
    """A worker process and its supervisor, as two stores in one program."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url = url
        self._stack = stack
        self.worker, self.supervisor = self.store(), self.store()
        self.custody = Custody.shared()
        stack.callback(self.custody.close)
        info = SessionInfo(id="s", name="s", timeout=15_000, queues=("default",), tasks=("work",))
        self.supervisor.run(self.supervisor.open(info))
        assert isinstance(self.worker, Custodian)
        self.worker.write_down("s", Custody(self.custody.descriptors))

    def store(self) -> Store:
        app = Headrace(self.url)
        self._stack.callback(app.close)

        @app.task(name="work")
        def work(number: int) -> None: ...

        self.enqueue = work.enqueue
        return app.store

    def take(self, slots: int, spare: int = 0, *, session: str = "s", store: Store | None = None) -> list[Lease]:
        store = store or self.worker
        return store.run(store.exchange(session, 1, take=Take(("default",), slots, spare))).leases

    def settle(self, lease: Lease, kind: Kind = Kind.DONE) -> Verdict:
        outcome = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind)
        return self.worker.run(self.worker.exchange("s", 2, [outcome])).verdicts[0]

    def bury(self, held: Mapping[Ref, Sequence[Any]], crashed: Sequence[Ref] = ()) -> list[str]:
        """What the supervisor does when the process is dead."""
        assert isinstance(self.supervisor, Custodian)
        self.supervisor.inherit("s", held)
        return self.supervisor.run(self.supervisor.close_session("s", crashed=crashed))

    def ready(self) -> list[str]:
        """Ids of the jobs that wait."""
        found = self.supervisor.run(self.supervisor.find(Filter(states=frozenset({State.READY})))).jobs
        return sorted(job.id for job in found)


@pytest.fixture
def scene(place: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(place, stack)


@pytest.mark.parametrize("place", CUSTODIANS, indirect=True)
def test_spare_leases_go_back_too(scene: Scene) -> None:
    for number in range(4):
        scene.enqueue(number)
    leases = scene.take(1, 3)
    assert [lease.spare for lease in leases] == [False, True, True, True]
    given_back = scene.bury(scene.custody.held(), [leases[0].ref])
    assert sorted(given_back) == sorted(lease.id for lease in leases) == scene.ready()


@pytest.mark.parametrize("place", ["workkit", "hworker"], indirect=True)
def test_what_was_settled_in_the_last_moment_does_not_come_back(scene: Scene) -> None:
    scene.enqueue(1)
    scene.enqueue(2)
    done, other = scene.take(2)
    held = scene.custody.held()
    assert scene.settle(done) is Verdict.OK  # and the process is killed before it could write that down
    assert scene.bury(held) == [other.id] == scene.ready()


@pytest.mark.parametrize("place", CUSTODIANS, indirect=True)
def test_a_settled_lease_is_no_longer_written_down(scene: Scene) -> None:
    scene.enqueue(1)
    (lease,) = scene.take(1)
    assert list(scene.custody.held()) == [lease.ref]
    assert scene.settle(lease) is Verdict.OK
    assert scene.custody.held() == {}
    assert scene.bury(scene.custody.held()) == []


@pytest.mark.parametrize("place", ["workkit", "hworker"], indirect=True)
def test_a_lease_that_another_has_by_now_is_left_alone(scene: Scene) -> None:
    scene.enqueue(1)
    (lease,) = scene.take(1)
    held = scene.custody.held()
    assert scene.settle(lease, Kind.RELEASED) is Verdict.OK
    other = scene.store()
    assert scene.take(1, session="other", store=other)
    assert scene.bury(held) == scene.ready() == []


@pytest.mark.parametrize("place", ["workkit", "hworker"], indirect=True)
def test_a_renewed_lease_goes_back_by_its_new_token(scene: Scene) -> None:
    scene.enqueue(1)
    (lease,) = scene.take(1)
    first = scene.custody.held()
    renewal = scene.worker.run(scene.worker.renew("s", [(lease.ref, lease.token, lease.id)]))
    assert renewal.tokens
    assert scene.custody.held() != first
    assert scene.bury(scene.custody.held()) == [lease.id] == scene.ready()


@pytest.mark.parametrize("place", ["workkit"], indirect=True)
@pytest.mark.parametrize("arrived", [True, False])
def test_a_renewal_under_way_hides_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch, arrived: bool) -> None:
    scene.enqueue(1)
    (lease,) = scene.take(1)
    assert isinstance(scene.worker, WorkKitStore)
    renew = scene.worker.wire.renew
    killed = StoreUnavailable("the process is dead")

    def die(leases: Any) -> Any:
        if arrived:
            assert scene.worker.run(renew(leases))[1] == [Answer.OK]
        raise killed

    monkeypatch.setattr(scene.worker.wire, "renew", die)
    with pytest.raises(StoreUnavailable):
        scene.worker.run(scene.worker.renew("s", [(lease.ref, lease.token, lease.id)]))
    assert scene.bury(scene.custody.held()) == [lease.id] == scene.ready()


@pytest.mark.parametrize("place", ["hworker"], indirect=True)
def test_a_job_that_rests_goes_to_the_back_at_once(scene: Scene) -> None:
    scene.enqueue(1)
    (lease,) = scene.take(1)
    again = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.AGAIN, delay=60_000)
    scene.worker.run(scene.worker.exchange("s", 2, [again]))
    assert scene.ready() == []
    scene.bury(scene.custody.held())
    assert scene.ready() == [lease.id]


@pytest.mark.parametrize("place", ["bedrock"], indirect=True)
def test_an_end_that_bedrock_may_have_heard_of_is_not_written_down(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.enqueue(1)
    (lease,) = scene.take(1)
    assert isinstance(scene.worker, BedrockStore)
    run, written = scene.worker.client.run, []

    def tell(call: Any) -> Any:
        written.append(scene.custody.held())
        return run(call)

    monkeypatch.setattr(scene.worker.client, "run", tell)
    assert scene.settle(lease, Kind.FAILED) is Verdict.OK
    assert written == [{}]


@pytest.mark.parametrize("place", ["bedrock"], indirect=True)
def test_jobs_that_came_while_waiting_go_back(scene: Scene) -> None:
    assert scene.take(1) == []
    with closing(scene.worker.waiter("s", ("default",))) as ear:
        ear.wait(0)  # asks
        job = scene.enqueue(1)
        assert eventually(lambda: ear.wait(1), "the job")
        assert scene.bury(scene.custody.held()) == [job.id] == scene.ready()
