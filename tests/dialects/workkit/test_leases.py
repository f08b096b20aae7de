"""Leases by score: claim, renew, settle, and what becomes of them when others meddle. On every redis-server here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.address import make_settings, url_of
from headrace.dialects.workkit.payload import canonical
from headrace.errors import MaybeApplied, SessionGone, StaleRequest, StoreCorrupt
from headrace.records import Charge, ExchangeReply, Kind, Lease, Outcome, Renewal, SessionInfo, State, Take, Verdict
from headrace.values.clock import ManualClock
from store.redis import servers
from store.redis.servers import Server

from .scene import Scene

LEASE = 60_000
EVERY_SECOND, EVERY_MINUTE, ONCE = "* * * * * * *", "* * * * * * 0", "2026 5 14 * 10 20 30"


@pytest.fixture
def server(program: str) -> Server:
    return servers.shared(program)


class Listener:
    """A session and its numbers."""

    def __init__(self, store: WorkKitStore, name: str = "w") -> None:
        self.store, self.id, self.number = store, f"session of {name}", 0
        store.run(store.open(SessionInfo(id=self.id, name=name, tasks=("a/run", "a/other"))))

    def exchange(self, *outcomes: Outcome, slots: int = 0, spare: int = 0, number: int | None = None) -> ExchangeReply:
        self.number = number or self.number + 1
        take = Take(("default",), slots, spare) if slots or spare else None
        return self.store.run(self.store.exchange(self.id, self.number, outcomes, take))

    def take(self, slots: int = 1) -> list[Lease]:
        return list(self.exchange(slots=slots).leases)

    def take_one(self) -> Lease:
        (lease,) = self.take()
        return lease

    def settle(self, lease: Lease, kind: Kind = Kind.DONE, **fields: Any) -> Verdict:
        return self.exchange(outcome(lease, kind, **fields)).verdicts[0]

    def renew(self, *leases: Lease) -> Renewal:
        held = [(lease.ref, lease.token, lease.id) for lease in leases]
        return self.store.run(self.store.renew(self.id, held))


def outcome(lease: Lease, kind: Kind = Kind.DONE, **fields: Any) -> Outcome:
    return Outcome(**{"ref": lease.ref, "token": lease.token, "id": lease.id, "kind": kind, **fields})


@pytest.fixture
def listener(make_store: Callable[..., WorkKitStore], clock: ManualClock) -> Listener:
    return Listener(make_store(clock))


@pytest.fixture
def another(make_store: Callable[..., WorkKitStore], clock: ManualClock) -> Listener:
    """As if in another process."""
    return Listener(make_store(clock), "another")


def write(scene: Scene, clock: ManualClock, cron: str = ONCE, *args: Any, due: int | None = None) -> str:
    text = canonical("#'a/run", cron, args).decode()
    return scene.write("", text=text, due=clock.now() if due is None else due)


# -- claims --


def test_a_claim_puts_the_score_off_and_takes_nothing_out(listener: Listener, scene: Scene, clock: ManualClock) -> None:
    identity = write(scene, clock, ONCE, 1, "x")
    lease = listener.take_one()
    assert (lease.id, lease.task, lease.body, lease.due) == (identity, "a/run", b'[1,"x"]', clock.now())
    assert scene.scores == {identity: lease.token}
    assert lease.token == clock.now() + LEASE + 1  # a whole second is a run time: a lease never ends at one
    assert set(scene.jobs) == {identity}


def test_a_score_equal_to_now_is_due_and_a_later_one_is_not_touched(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    write(scene, clock, ONCE, "due")
    later = write(scene, clock, ONCE, "later", due=clock.now() + 1)
    assert len(listener.take(5)) == 1
    assert scene.scores[later] == clock.now() + 1
    assert listener.exchange(slots=5).next_due == clock.now() + 1


def test_a_leased_entry_is_nobody_elses_until_the_lease_has_ended(
    listener: Listener, another: Listener, scene: Scene, clock: ManualClock
) -> None:
    write(scene, clock, EVERY_SECOND)
    first = listener.take_one()
    clock.advance(LEASE)
    assert another.take() == []
    clock.advance(1)
    second = another.take_one()
    assert second.id == first.id
    assert listener.settle(first) is Verdict.STALE
    assert list(scene.scores.values()) == [second.token]
    assert another.settle(second) is Verdict.OK


def test_spares_are_the_last_ones(listener: Listener, scene: Scene, clock: ManualClock) -> None:
    for number in range(4):
        write(scene, clock, ONCE, number, due=clock.now() - 10 + number)
    leases = listener.exchange(slots=2, spare=1).leases
    assert [(lease.body, lease.spare) for lease in leases] == [(b"[0]", False), (b"[1]", False), (b"[2]", True)]


def test_jobs_that_cannot_be_run_do_not_hide_later_ones_however_many_they_are(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    pipe = scene.client.pipeline(transaction=False)
    for number in range(2_500):
        identity = hashlib.sha1(str(number).encode()).hexdigest()
        pipe.hset(scene.jobs_key, identity, '{"job":"#\'not/here","cron":"* * * * * * *"}')
        pipe.zadd(scene.next_key, {f'{{"id":"{identity}"}}': clock.now() - 1000})
    pipe.execute()
    before = scene.next
    first = write(scene, clock, ONCE, "first", due=1000)
    others = [write(scene, clock, ONCE, number) for number in range(3)]
    assert [lease.id for lease in listener.take(5)] == [first, *sorted(others)]
    assert scene.next.items() >= before.items()


def test_large_payloads_are_looked_at_in_bounded_steps(listener: Listener, scene: Scene, clock: ManualClock) -> None:
    big = "x" * 1_000_000
    strangers = [scene.write("#'not/here", number, big, due=1000 + number) for number in range(12)]
    identity = write(scene, clock, ONCE)
    assert [lease.id for lease in listener.take(3)] == [identity]
    assert all(scene.scores[stranger] < 2000 for stranger in strangers)


def test_a_claim_that_proves_unusable_is_put_back_with_its_score_and_not_tried_again(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    bad = [write(scene, clock, f"every {number} moons", due=5000 + number) for number in range(3)]
    good = write(scene, clock, ONCE)
    assert [lease.id for lease in listener.take(2)] == [good]
    assert [scene.scores[identity] for identity in bad] == [5000, 5001, 5002]
    assert listener.take(5) == []


# -- settling --


def test_a_one_shot_is_removed_after_its_run(listener: Listener, scene: Scene, clock: ManualClock) -> None:
    for kind in (Kind.DONE, Kind.FAILED, Kind.BROKEN, Kind.MOVED):
        write(scene, clock, ONCE)
        assert listener.settle(listener.take_one(), kind) is Verdict.OK
        assert scene.empty


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED, Kind.BROKEN])
def test_a_recurring_job_gets_the_next_matching_second_to_the_millisecond(
    listener: Listener, scene: Scene, clock: ManualClock, kind: Kind
) -> None:
    identity = write(scene, clock, EVERY_MINUTE)
    lease = listener.take_one()
    clock.advance(90_500)
    listener.renew()
    start = clock.now()
    assert listener.settle(lease, kind) is Verdict.OK
    assert scene.scores[identity] == start + 59_500  # 10:22:00.500 passed: 10:23:00 is next
    assert identity in scene.jobs


def test_a_run_of_no_time_is_not_followed_by_the_same_second(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, EVERY_SECOND)
    listener.settle(listener.take_one())
    assert scene.scores[identity] == clock.now() + 1000
    # Even where this machine thinks that the time has not come yet.
    clock.advance(1000)
    lease = listener.take_one()
    clock.jump(-5)
    listener.settle(lease)
    assert scene.scores[identity] == clock.now() + 5 + 1000


@pytest.mark.parametrize("kind", [Kind.RELEASED, Kind.CRASHED])
def test_what_is_given_back_has_its_old_score(listener: Listener, scene: Scene, clock: ManualClock, kind: Kind) -> None:
    identity = write(scene, clock, EVERY_SECOND, due=123_456)
    assert listener.settle(listener.take_one(), kind) is Verdict.OK
    assert scene.scores == {identity: 123_456}


def test_again_is_a_whole_second_and_attempts_are_counted_by_the_process(
    listener: Listener, another: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, ONCE)
    for attempts in range(3):
        lease = listener.take_one()
        assert lease.attempts == attempts
        assert listener.settle(lease, Kind.AGAIN, charge=Charge.ATTEMPT, delay=1_200) is Verdict.OK
        assert scene.scores == {identity: clock.now() + 2_000}
        clock.advance(2_000)
    assert another.take_one().attempts == 0


def test_a_job_that_crashed_too_often_in_one_process_is_given_up(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    write(scene, clock, ONCE)
    for crashes in range(3):
        lease = listener.take_one()
        assert lease.crashes == crashes
        listener.settle(lease, Kind.CRASHED)
    assert scene.empty


def test_verdicts(listener: Listener, another: Listener, scene: Scene, clock: ManualClock) -> None:
    write(scene, clock, EVERY_SECOND)
    lease = listener.take_one()
    assert another.settle(lease) is Verdict.STALE
    assert list(listener.exchange(outcome(lease), outcome(lease)).verdicts) == [Verdict.OK, Verdict.ALREADY]
    assert listener.settle(lease) is Verdict.ALREADY
    lease.token = 5
    assert listener.settle(lease) is Verdict.STALE


def test_a_removed_job_is_settled_in_vain_and_stays_removed(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    for cron in (ONCE, EVERY_SECOND):
        identity = write(scene, clock, cron)
        lease = listener.take_one()
        lease.token = listener.renew(lease).tokens[identity]
        assert listener.store.run(listener.store.cancel([identity, "x"])) == [True, False]
        assert list(listener.renew(lease).cancelled) == [identity]
        assert listener.settle(lease) is Verdict.STALE
        assert scene.empty


# -- a published listener has the entry out --


def test_a_recurring_job_whose_entry_is_out_for_an_instant_is_settled_when_it_is_back(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, EVERY_SECOND)
    lease = listener.take_one()
    ((member, score),) = scene.client.zpopmin(scene.next_key)
    assert listener.settle(lease) is Verdict.LATER
    assert list(listener.renew(lease).lost) == []
    scene.client.zadd(scene.next_key, {member: score})
    assert listener.settle(lease) is Verdict.OK
    assert scene.scores == {identity: clock.now() + 1000}


def test_an_entry_that_does_not_come_back_within_a_second_is_made_anew(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, EVERY_SECOND)
    lease = listener.take_one()
    scene.client.delete(scene.next_key)
    assert listener.settle(lease) is Verdict.LATER
    clock.advance(999)
    assert listener.settle(lease) is Verdict.LATER
    clock.advance(1)
    assert listener.settle(lease) is Verdict.OK
    assert scene.scores == {identity: clock.now() + 1000}


def test_a_one_shot_whose_entry_is_out_is_removed_and_what_is_put_back_is_dropped(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    write(scene, clock, ONCE)
    lease = listener.take_one()
    ((member, score),) = scene.client.zpopmin(scene.next_key)
    assert listener.settle(lease) is Verdict.OK
    scene.client.zadd(scene.next_key, {member: score})
    clock.advance(LEASE + 10)
    listener.take()
    assert scene.empty


# -- renewing --


def test_renewing_puts_the_end_of_the_lease_off_and_changes_the_token(
    listener: Listener, another: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, ONCE)
    lease = listener.take_one()
    old = lease.token
    for _ in range(5):
        clock.advance(LEASE - 1)
        renewal = listener.renew(lease)
        lease.token = renewal.tokens[identity]
        assert scene.scores == {identity: lease.token}
        assert another.take() == []
    assert listener.exchange(Outcome(ref=lease.ref, token=old, id=lease.id, kind=Kind.DONE)).verdicts == [Verdict.STALE]
    assert listener.settle(lease) is Verdict.OK


def test_a_lease_that_others_took_is_lost(
    listener: Listener, another: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, ONCE)
    lease = listener.take_one()
    clock.advance(LEASE + 2)
    another.take_one()
    assert list(listener.renew(lease).lost) == [identity]


# -- repeats --


def test_the_same_number_again_gets_the_same_answer_and_a_lower_one_none(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    write(scene, clock, ONCE, 1)
    write(scene, clock, ONCE, 2)
    turn = listener.exchange(slots=1, number=5)
    assert listener.exchange(slots=1, number=5) == turn
    with pytest.raises(StaleRequest):
        listener.exchange(slots=1, number=4)


@pytest.mark.parametrize("cron", [ONCE, EVERY_MINUTE])
def test_a_settle_whose_answer_was_lost_is_found_done(
    listener: Listener, scene: Scene, clock: ManualClock, cron: str
) -> None:
    write(scene, clock, cron)
    lease = listener.take_one()
    operation = listener.store.exchange(listener.id, listener.number + 1, [outcome(lease)], None)
    course = operation.begin()  # type: ignore[attr-defined]
    listener.store.run(next(course))  # it arrives, and the answer does not
    course.close()
    assert list(listener.store.run(operation).verdicts) == [Verdict.OK]


def test_a_turn_that_broke_off_between_two_calls_goes_on_where_it_was(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    bad = write(scene, clock, "every full moon", due=1000)
    good, other = write(scene, clock, ONCE, 1, due=2000), write(scene, clock, ONCE, 2, due=3000)
    operation = listener.store.exchange(listener.id, 1, (), Take(("default",), 2))
    course = operation.begin()  # type: ignore[attr-defined]
    course.send(listener.store.run(next(course)))  # the second call, which would undo the bad claim, is never sent
    course.close()
    assert scene.scores[bad] > 1000
    leases = listener.store.run(operation).leases
    assert [lease.id for lease in leases] == [good, other]
    assert scene.scores[bad] == 1000


def test_a_closed_session_gives_back_what_it_holds_and_is_gone(
    listener: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, ONCE, due=5_000)
    listener.take_one()
    assert listener.store.run(listener.store.close_session(listener.id)) == [identity]
    assert scene.scores == {identity: 5_000}
    with pytest.raises(SessionGone):
        listener.take()
    assert listener.store.run(listener.store.close_session(listener.id)) == []


def test_a_session_of_another_process_can_be_renewed_and_closed_without_effect(
    listener: Listener, another: Listener, scene: Scene, clock: ManualClock
) -> None:
    identity = write(scene, clock, ONCE)
    lease = listener.take_one()
    supervisor = another.store
    assert supervisor.run(supervisor.renew(listener.id, started=[identity])).lost == ()
    assert supervisor.run(supervisor.close_session(listener.id, crashed=[identity])) == []
    assert scene.scores == {identity: lease.token}


# -- what is where --


def test_states_and_counts(listener: Listener, scene: Scene, clock: ManualClock) -> None:
    store = listener.store
    running = write(scene, clock, ONCE, "running", due=1000)
    listener.take_one()
    ready = write(scene, clock, ONCE, "ready")
    scheduled = write(scene, clock, EVERY_MINUTE, due=clock.now() + 30_000)
    out = write(scene, clock, ONCE, "out")
    scene.client.zrem(scene.next_key, f'{{"id":"{out}"}}')
    found = store.run(store.get([running, ready, scheduled, out, "nobody"]))
    assert [job and job.state for job in found] == [State.RUNNING, State.READY, State.SCHEDULED, State.RUNNING, None]
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.READY: 1, State.RUNNING: 2, State.SCHEDULED: 1}


# -- trouble --


@pytest.fixture
def wrong(scene: Scene, request: pytest.FixtureRequest) -> str:
    key = scene.jobs_key if request.param == "jobs" else scene.next_key
    scene.client.set(key, "not ours")
    return key


@pytest.mark.parametrize("wrong", ["jobs", "next"], indirect=True)
def test_a_key_of_another_type_is_named_and_nothing_is_written(
    make_store: Callable[..., WorkKitStore], scene: Scene, wrong: str
) -> None:
    from headrace.records import NewJob

    store = make_store()
    with pytest.raises(StoreCorrupt, match=f"{wrong} is a string, not a .* Use another namespace or name"):
        store.run(store.put([NewJob(id="x", task="a/run", body=b"[]")]))
    assert scene.keys == {wrong}


def test_an_insertion_whose_answer_is_lost_is_unsure_unless_the_job_is_far_off(server: Server, name: str) -> None:
    from headrace.records import NewJob

    store = WorkKitStore(url_of(server.url, make_settings(name)))
    store.run(store.counts())
    store.run(store.put([NewJob(id="x", task="a/run", body=b"[0]", delay=60_000)]))
    ask, to_lose = store.driver._ask, 0

    def lose(connection: Any, command: bytes, journey: Any, answers: int) -> Any:
        nonlocal to_lose
        reply = ask(connection, command, journey, answers)
        if to_lose:
            to_lose -= 1
            raise ConnectionError("the answer got lost")
        return reply

    store.driver._ask = lose  # type: ignore[method-assign]
    to_lose = 1
    assert store.run(store.put([NewJob(id="x", task="a/run", body=b"[1]", delay=60_000)]))[0].created
    to_lose = 1
    with pytest.raises(MaybeApplied):
        store.run(store.put([NewJob(id="x", task="a/run", body=b"[2]")]))
    store.close()
