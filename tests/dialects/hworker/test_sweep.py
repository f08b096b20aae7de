"""The monitor: what is too old goes to the front, once, whoever looks and however the time was written."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.dialects.hworker.driver import HworkerDriver, Keys
from headrace.dialects.hworker.sweep import Monitor, Sweep
from headrace.store.redis.addresses import parse
from headrace.store.redis.operation import Steps
from processes import environment, eventually
from store.redis.servers import Server

from . import peer as peer_module
from .peer import Peer, stamp
from .scene import Queue


class SetClock:
    """A server whose time stands still."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> int:
        return round(self.moment.timestamp() * 1000)

    steady = now


NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


class Watch:
    """A monitor and the clock that it goes by."""

    def __init__(self, server: Server, queue: Queue, timeout: float = 60.0) -> None:
        self.complaints: list[str] = []
        self.clock = SetClock(NOON)
        self.monitor = Monitor(timeout, self.complaints.append)
        self.driver = HworkerDriver(parse(server.url)[0], Keys(), self.clock)
        self.queue = queue

    def sweep(self) -> Sweep:
        return self.driver.run(Steps(lambda: self.monitor.sweep(self.queue.name)))

    def wait(self, seconds: float) -> None:
        self.clock.moment += timedelta(seconds=seconds)


@pytest.fixture
def watch(server: Server, queue: Queue) -> Watch:
    return Watch(server, queue)


@pytest.mark.parametrize("digits", [0, 1, 3, 6, 9, 12])
def test_stale_times_are_recovered_however_many_digits_they_have(queue: Queue, watch: Watch, digits: int) -> None:
    queue.leave_in_progress(b'["a",1]', stamp(NOON - timedelta(seconds=61), digits))
    assert watch.sweep().given_back == [b'["a",1]']
    assert (queue.jobs, queue.progress) == ([b'["a",1]'], {})


@pytest.mark.parametrize(
    ("value", "given_back"),
    [
        ('"2020-01-01T11:59:00Z"', False),
        ('"2020-01-01T11:59:00.000000000001Z"', False),
        ('"2020-01-01T11:58:59.999999999999Z"', True),
        ('"2020-01-01T11:58:59.999Z"', True),
        ('"2020-01-01T12:30:00Z"', False),
        ('"2020-01-01 11:58Z"', True),
        ('"2020-01-01T13:58:59+02:00"', True),
        ('"2020-01-01T13:59:00+02:00"', False),
    ],
)
def test_older_than_the_time_out_means_strictly_older(queue: Queue, watch: Watch, value: str, given_back: bool) -> None:
    queue.leave_in_progress(b'["a",1]', value)
    assert bool(watch.sweep().given_back) is given_back


def test_a_time_that_cannot_be_read_counts_from_when_it_was_first_seen(queue: Queue, watch: Watch) -> None:
    queue.leave_in_progress(b'["a",1]', b"\xffyesterday")
    watch.sweep()
    watch.wait(60)
    assert watch.sweep().given_back == []
    watch.wait(0.001)
    assert watch.sweep().given_back == [b'["a",1]']
    assert len(watch.complaints) == 1


def test_a_time_that_cannot_be_read_and_changes_begins_anew(queue: Queue, watch: Watch) -> None:
    queue.leave_in_progress(b'["a",1]', b"one")
    watch.sweep()
    watch.wait(50)
    queue.leave_in_progress(b'["a",1]', b"two")
    watch.sweep()
    watch.wait(50)
    assert watch.sweep().given_back == []
    assert len(watch.monitor._unreadable) == 1


def test_what_was_refreshed_meanwhile_is_left_alone(queue: Queue, watch: Watch) -> None:
    """Between looking and giving back a worker may say that it is alive."""
    queue.leave_in_progress(b'["a",1]', stamp(NOON - timedelta(hours=1)))
    work = watch.monitor.sweep(queue.name)
    looked = watch.driver.run(work.send(None))
    give_back = work.send(looked)
    queue.leave_in_progress(b'["a",1]', stamp(NOON))
    with pytest.raises(StopIteration) as end:
        work.send(watch.driver.run(give_back))
    assert end.value.value == Sweep([], [b'["a",1]'])
    assert queue.jobs == []
    assert list(queue.progress) == [b'["a",1]']


def test_many_are_given_back_in_batches(queue: Queue, watch: Watch) -> None:
    for number in range(350):
        queue.leave_in_progress(b'["a",%d]' % number, stamp(NOON - timedelta(hours=1)))
    queue.leave_in_progress(b"false", stamp(NOON - timedelta(hours=1)))
    assert len(watch.sweep().given_back) == 350
    assert len(set(queue.jobs)) == 350
    assert queue.progress == {}


def test_two_monitors_at_once_give_each_job_back_once(server: Server, queue: Queue) -> None:
    for number in range(300):
        queue.leave_in_progress(b'["a",%d]' % number, stamp(NOON - timedelta(hours=1)))
    watches = [Watch(server, queue) for _ in range(4)]
    swept: list[Sweep] = []
    barrier = threading.Barrier(len(watches))

    def sweep(watch: Watch) -> None:
        barrier.wait()
        swept.append(watch.sweep())

    threads = [threading.Thread(target=sweep, args=(watch,)) for watch in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(one.given_back) for one in swept) == 300
    assert len(queue.jobs) == len(set(queue.jobs)) == 300


def test_our_monitor_and_a_peers_at_once(one_server: Server, one_queue: Queue, tmp_path: Path) -> None:
    """Real processes: jobs of the dead come back once, and a peer's workers run them."""
    client = one_queue.client
    for number in range(100):
        one_queue.leave_in_progress(b'["id%d",%d]' % (number, number), stamp(datetime.now(UTC) - timedelta(hours=1)))
    log = tmp_path / "log"
    log.touch()
    roles = ["work", "monitor", "work"]
    command = [sys.executable, peer_module.__file__, one_server.socket, one_queue.name]
    processes = [subprocess.Popen([*command, role, str(log)], env=environment()) for role in roles]
    watch = Watch(one_server, one_queue)
    watch.clock.moment = datetime.now(UTC)
    try:
        eventually(lambda: watch.sweep() and not client.exists(one_queue.jobs_key, one_queue.progress_key), "the end")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert sorted(map(int, log.read_text().split())) == list(range(100))


def test_a_peers_monitor_reads_the_times_that_we_write(server: Server, queue: Queue) -> None:
    watch = Watch(server, queue)
    queue.push(b'["a",1]')
    from headrace.dialects.hworker.requests import exchange, renew

    (record,) = watch.driver.run(exchange([], 1, [queue.name], 10)).taken
    strict = Peer(queue.client, queue.name, timeout=60)
    assert strict.sweep() == 1
    (record,) = watch.driver.run(exchange([], 1, [queue.name], 10)).taken
    watch.clock.moment = datetime.now(UTC)
    watch.driver.run(renew([record], refresh=True))
    assert strict.sweep() == 0
