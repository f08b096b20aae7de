"""A client that stands still in the middle of a large message, which it sends or reads, keeps no lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from headrace.errors import HeadraceError
from headrace.records import (
    Definition,
    Kind,
    Lane,
    Lease,
    NewJob,
    Outcome,
    Report,
    ScheduleRecord,
    State,
    Tick,
)
from headrace.store.facets import PARKED, Edit, Past
from headrace.store.limits import EDGES_IN_A_STEP
from headrace.store.postgres import database
from store.brim import Brim

from .scenes import Aside, Session, jobs

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]
pytestmark = pytest.mark.slow

SOCKET = 60_000
"""What a socket takes in one direction before the other side says something."""
LONGEST = 3.0
"""Seconds that others wait, at most: one until the server ends a transaction that does not go on; a busy machine."""
LARGE = b'"%s"' % (b"x" * 500_000)
LANE = Lane("a", limit=50)
ERROR = b'{"type": "ValueError", "message": "%s"}' % (b"y" * 500_000)


@dataclass
class Scene:
    """A store, the same one through the sockets of a client that will stand still, and what that client holds."""

    near: PostgresStore
    far: PostgresStore
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        self.session = Session(self.far, queues=("default",))

    def put(self, **options: Any) -> NewJob:
        (job,) = jobs(**options)
        self.near.run(self.near.put([job]))
        return job

    def take(self, **options: Any) -> Lease:
        self.put(**options)
        (lease,) = self.session.take()
        return lease

    def settle(self, lease: Lease, kind: Kind = Kind.DONE, **said: Any) -> Callable[[], Any]:
        outcome = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind, **said)
        return self.session.request([outcome])

    def found(self, job_id: str) -> Any:
        (found,) = self.near.run(self.near.get([job_id]))
        return found


Act = Callable[[], Any]
Check = Callable[[], Any]
"""What is true in the end."""
Arrange = Callable[[Scene], tuple[Act, Check]]


class Still(NamedTuple):
    """A client that stands still in the middle of an act."""

    scene: Scene
    check: Check
    acting: Aside


def put_into_a_lane(scene: Scene) -> tuple[Act, Check]:
    (job,) = jobs(body=LARGE, data=LARGE, lane=LANE)
    return lambda: scene.far.run(scene.far.put([job])), lambda: _carries(scene, job.id)


def put_with_a_tag(scene: Scene) -> tuple[Act, Check]:
    (job,) = jobs(body=LARGE, data=LARGE, tags=("red",))
    return lambda: scene.far.run(scene.far.put([job])), lambda: _carries(scene, job.id)


def put_many_into_lanes(scene: Scene) -> tuple[Act, Check]:
    many = [job for number in range(60) for job in jobs(body=b'"%s"' % (b"x" * 3_000), lane=Lane(f"lane {number}"))]
    found = lambda: [job.body for job in scene.near.run(scene.near.get([job.id for job in many]))]  # noqa: E731
    return lambda: scene.far.run(scene.far.put(many)), lambda: found() == [job.body for job in many]


def put_a_batch_in_parts(scene: Scene) -> tuple[Act, Check]:
    many = jobs(3, body=LARGE * 3, lane=LANE)
    found = lambda: [job.body for job in scene.near.run(scene.near.get([job.id for job in many]))]  # noqa: E731
    return lambda: scene.far.run(scene.far.put(many)), lambda: found() == [job.body for job in many]


def bring_in_what_has_arrived(scene: Scene) -> tuple[Act, Check]:
    (job,) = jobs(body=LARGE, data=LARGE, lane=LANE)
    with psycopg.connect(scene.near.url.partition("&schema=")[0]) as caller:
        scene.near.run(scene.near.put_within(caller, [job]))
    return lambda: scene.far.run(scene.far.pause("elsewhere")), lambda: _carries(scene, job.id)


def settle_with_a_result(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take(lane=LANE)
    return scene.settle(lease, result=LARGE, data=LARGE), lambda: scene.found(lease.id).result == LARGE


def settle_without_a_lane(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take()
    return scene.settle(lease, result=LARGE, data=LARGE), lambda: scene.found(lease.id).result == LARGE


def fail_with_an_error(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take(lane=LANE)
    act = scene.settle(lease, Kind.FAILED, error=LARGE, group="g", data=LARGE, account=LARGE)
    return act, lambda: scene.found(lease.id).error == LARGE


def move_with_a_body(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take(lane=LANE)
    return scene.settle(lease, Kind.MOVED, body=LARGE, data=LARGE, delay=1), lambda: _carries(scene, lease.id)


def report_data(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take()
    said = Report(ref=lease.ref, token=lease.token, id=lease.id, data=LARGE)
    act = lambda: scene.far.run(scene.far.report(scene.session.id, 100, [said]))  # noqa: E731
    return act, lambda: scene.found(lease.id).data == LARGE


def settle_on_top_of_data(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take(lane=LANE, data=LARGE)
    return scene.settle(lease, data=b"{}", base=LARGE), lambda: scene.found(lease.id).data == b"{}"


def report_on_top_of_data(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take(data=LARGE)
    said = Report(ref=lease.ref, token=lease.token, id=lease.id, data=b"{}", base=LARGE)
    act = lambda: scene.far.run(scene.far.report(scene.session.id, 100, [said]))  # noqa: E731
    return act, lambda: scene.found(lease.id).data == b"{}"


def renew_with_news_of_data(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take()
    scene.near.run(scene.near.update(lease.id, None, LARGE))
    held = [(lease.ref, lease.token, lease.id)]
    heard: list[Any] = []
    return lambda: heard.append(
        scene.far.run(scene.far.renew(scene.session.id, held))
    ), lambda: heard[0].data == {lease.id: LARGE}


def update_data(scene: Scene) -> tuple[Act, Check]:
    job = scene.put(data=LARGE)
    return lambda: scene.far.run(
        scene.far.update(job.id, LARGE, LARGE * 2)
    ), lambda: scene.found(job.id).data == LARGE * 2


def fail_what_comes_after(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take()
    child = scene.put(after=(lease.id,))
    return scene.settle(lease, Kind.FAILED, error=ERROR, group="g"), lambda: _has_its_error(scene, child)


def put_after_what_has_failed(scene: Scene) -> tuple[Act, Check]:
    lease = scene.take()
    scene.settle(lease, Kind.FAILED, error=ERROR, group="g")()
    (late,) = jobs(after=(lease.id,))
    return lambda: scene.far.run(scene.far.put([late])), lambda: _has_its_error(scene, late)


def fail_after_a_bound(scene: Scene) -> tuple[Act, Check]:
    """The dependents of what has failed are failed by a later transaction, if there are many."""
    lease = scene.take()
    children = jobs(EDGES_IN_A_STEP + 1, after=(lease.id,))
    scene.near.run(scene.near.put(children))
    scene.settle(lease, Kind.FAILED, error=ERROR, group="g")()
    return lambda: scene.far.run(scene.far.sweep()), lambda: _has_its_error(scene, children[-1])


def adopt_a_batch(scene: Scene) -> tuple[Act, Check]:
    """A sweep brings in a batch whose client has died."""
    many = jobs(2, body=LARGE, lane=LANE)
    steps = scene.near.put(many).begin()  # type: ignore[attr-defined]
    answer = None
    while (step := steps.send(answer)).work.func.__name__ != "admit":
        answer = scene.near.run(step)
    with psycopg.connect(scene.near.url.partition("&schema=")[0]) as stranger:
        stranger.execute(f"UPDATE {scene.near.database.quoted}.batch SET staged = 0".encode())
    return lambda: scene.far.run(scene.far.sweep()), lambda: scene.found(many[0].id).body == LARGE


def end_a_job_of_a_schedule(scene: Scene) -> tuple[Act, Check]:
    job = _tick(scene)
    (lease,) = scene.session.take()
    assert lease.id == job.id
    scene.near.run(scene.near.update(lease.id, LARGE, LARGE + b" "))
    return scene.settle(lease), lambda: _schedule(scene).data == LARGE + b" "


def tick_a_schedule(scene: Scene) -> tuple[Act, Check]:
    _tick(scene)
    record = _schedule(scene)
    (job,) = jobs(schedule="s", tick=2, body=LARGE)
    tick = Tick(name="s", version=record.version, jobs=(job,), last_tick=2, next=3)
    return lambda: scene.far.run(scene.far.tick([tick])), lambda: _schedule(scene).last_job == job.id


def edit_a_job(scene: Scene) -> tuple[Act, Check]:
    job = scene.put(lane=LANE)
    change = Edit(body=LARGE, data=LARGE)
    return lambda: scene.far.run(scene.far.edit([job.id], change)), lambda: _carries(scene, job.id)


def restore_a_job(scene: Scene) -> tuple[Act, Check]:
    job = scene.put(run_at=PARKED)
    past = Past(id=job.id, created=1, due=1, state=State.DONE, finished=2, result=LARGE)
    return lambda: scene.far.run(scene.far.restore([past])), lambda: scene.found(job.id).result == LARGE


ACTS = [
    put_into_a_lane, put_with_a_tag, put_many_into_lanes, put_a_batch_in_parts, bring_in_what_has_arrived,
    settle_with_a_result, settle_without_a_lane, fail_with_an_error, move_with_a_body, report_data,
    settle_on_top_of_data, report_on_top_of_data, renew_with_news_of_data, update_data, fail_what_comes_after,
    put_after_what_has_failed, fail_after_a_bound, adopt_a_batch, end_a_job_of_a_schedule, tick_a_schedule,
    edit_a_job, restore_a_job,
]  # fmt: skip


@contextmanager
def standing_still(make: Make, store: PostgresStore, arrange: Arrange, before: bytes = b"") -> Iterator[Still]:
    """A client that has stopped while it sends, or is sent, more than its socket takes; or that had no need to."""
    place, _, schema = store.url.rpartition("&schema=")
    known = conninfo_to_dict(place)
    if not str(known.get("host", "")).startswith("/"):
        pytest.skip("the proxy connects to servers through their sockets")
    with closing(Brim(f"{known['host']}/.s.PGSQL.{known.get('port', 5432)}", SOCKET, before)) as brim:
        options = f"sslmode=disable&gssencmode=disable&schema={schema}&prepare={'no' if before else 'yes'}"
        far = make(f"postgresql://postgres@127.0.0.1:{brim.port}/{known['dbname']}?{options}")
        scene = Scene(store, far)
        act, check = arrange(scene)
        brim.arm()
        acting = Aside(act)
        while not acting.done and not brim.full.wait(0.01):
            pass
        yield Still(scene, check, acting)
        brim.thaw()
        with suppress(HeadraceError):
            acting.answer()


@pytest.mark.parametrize("arrange", ACTS, ids=lambda act: act.__name__)
def test_a_client_that_stands_still_in_a_large_message_keeps_no_lock(
    make: Make, store: PostgresStore, arrange: Arrange
) -> None:
    with standing_still(make, store, arrange) as still:
        _go_on_beside(store)
    still.acting.answer()
    assert still.check()


@pytest.mark.parametrize("arrange", [put_with_a_tag, settle_without_a_lane], ids=lambda act: act.__name__)
def test_a_client_that_stands_still_before_its_commit_does_not_keep_others_from_going_to_sleep(
    make: Make, store: PostgresStore, arrange: Arrange
) -> None:
    with standing_still(make, store, arrange, before=b"COMMIT") as still:
        _go_on_beside(store)
    still.acting.answer()
    assert still.check()


def test_a_large_value_may_take_longer_to_send_than_its_transaction_to_run(
    make: Make, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LONGEST_WRITE", 500)
    servers: list[int] = []

    def arrange(scene: Scene) -> tuple[Act, Check]:
        servers.append(_pid(scene))
        return put_into_a_lane(scene)

    with standing_still(make, store, arrange) as still:
        time.sleep(1.0)  # a slow network
    still.acting.answer()
    assert still.check()
    assert servers == [_pid(still.scene)], "the connection was not cut"


def _pid(scene: Scene) -> int:
    return scene.far.database.borrow(lambda wire: wire.pgconn.backend_pid)


OF_ITS_SESSION = [
    settle_without_a_lane,
    report_data,
    report_on_top_of_data,
    renew_with_news_of_data,
    end_a_job_of_a_schedule,
]


@pytest.mark.parametrize("arrange", OF_ITS_SESSION, ids=lambda act: act.__name__)
def test_the_session_of_a_client_that_stands_still_in_a_large_message_can_be_closed(
    make: Make, store: PostgresStore, arrange: Arrange
) -> None:
    with standing_still(make, store, arrange) as still:
        store.run(store.close_session(still.scene.session.id))
        _go_on_beside(store)


def _go_on_beside(store: PostgresStore) -> None:
    session = Session(store, queues=("other",))
    store.run(store.put(jobs(queue="other")))
    (lease,) = session.take()
    waits = {what: _seconds(work) for what, work in _others(store, session, lease).items()}
    assert max(waits.values()) < LONGEST, waits


def _others(store: PostgresStore, session: Session, lease: Lease) -> dict[str, Act]:
    def arm() -> None:
        with closing(store.waiter(session.id, session.queues)) as waiter:
            waiter.arm()

    return {
        "put": lambda: store.run(store.put(jobs(queue="other"))),
        "put into a lane": lambda: store.run(store.put(jobs(lane=LANE, queue="other"))),
        "put with a tag": lambda: store.run(store.put(jobs(tags=("red",), queue="other"))),
        "renew": lambda: store.run(store.renew(session.id, [(lease.ref, lease.token, lease.id)], memory=1)),
        "settle and take": lambda: session.settle(lease, slots=1),
        "wait for work": arm,
        "sweep": lambda: store.run(store.sweep()),
        "close": lambda: store.run(store.close_session(session.id)),
    }


def _seconds(work: Act) -> float:
    begun = time.monotonic()
    with suppress(HeadraceError):  # it has taken its time then
        work()
    return time.monotonic() - begun


def _carries(scene: Scene, job_id: str) -> bool:
    found = scene.found(job_id)
    return bool(found.body == LARGE and found.data == LARGE)


def _has_its_error(scene: Scene, child: NewJob) -> bool:
    error = scene.found(child.id).error
    return b"ValueError: yyy" in error and len(error) < 2_000


def _tick(scene: Scene) -> NewJob:
    """A schedule with large arguments and data, and its first job."""
    definition = Definition(task="task", body=LARGE, queue="default", rule="1s", carry_data=True)
    record = ScheduleRecord(name="s", definition=definition, next=1, data=LARGE)
    assert scene.near.run(scene.near.put_schedule(record, None))
    (job,) = jobs(schedule="s", tick=1, data=LARGE)
    assert scene.near.run(
        scene.near.tick([Tick(name="s", version=_schedule(scene).version, jobs=(job,), last_tick=1, next=2)])
    ).done
    return job


def _schedule(scene: Scene) -> ScheduleRecord:
    return scene.near.run(scene.near.schedules(["s"])).records[0]
