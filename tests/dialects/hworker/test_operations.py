"""What each operation does to the four keys, order included: the table of the specification, row by row."""

from __future__ import annotations

import threading

import pytest

from headrace.dialects import hworker
from headrace.dialects.hworker import Failure, Retry, Success, api
from headrace.dialects.hworker.requests import FAILURE, GIVE_BACK, IS_BROKEN, RETRY, SUCCESS, exchange, settle
from headrace.errors import ArgumentsError, ConfigurationError
from processes import eventually
from store.redis.servers import Server

from .conftest import Bench
from .scene import Queue

OLD = b'"2015-07-24T12:34:56.123Z"'


def work_until_empty(bench: Bench, made, queue: Queue) -> None:
    thread = bench.start(made.worker)
    eventually(lambda: queue.is_empty, "the queue to be empty")
    made.stop()
    thread.join(10)
    made._stopping.clear()


def test_first_in_first_out(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    for number in range(5):
        made.queue(number)
    work_until_empty(bench, made, queue)
    assert made.seen == [0, 1, 2, 3, 4]
    assert queue.keys == set()


def test_a_program_that_only_queues_needs_no_handler(one_server: Server, one_queue: Queue) -> None:
    with hworker.create(one_queue.name, connection=one_server.url) as mail:
        assert mail.queue({"to": "ada"})
        assert mail.queue(7)
        assert mail.jobs() == [7, {"to": "ada"}]
        with pytest.raises(ConfigurationError, match=r"has no handler: create\('.+', handler, \.\.\.\) works"):
            mail.worker()
        assert len(one_queue.jobs) == 2
        monitor = threading.Thread(target=mail.monitor)
        monitor.start()
    monitor.join(10)
    assert not monitor.is_alive()  # the end of the block has stopped it
    with hworker.create(one_queue.name, connection=one_server.url, job_type=int) as numbers:
        with pytest.raises(ArgumentsError):
            numbers.queue("x")
        assert numbers.jobs() == [7]


def test_the_bytes_that_were_popped_are_what_is_in_progress(server: Server, queue: Queue, bench: Bench) -> None:
    odd = b' [ "not a uuid" ,\t{"n": 1, "t": "\\u00fc"} ]  tail'
    queue.push(odd)
    inside = []
    made = bench.create(server, queue.name, lambda *_: inside.append(queue.progress))
    work_until_empty(bench, made, queue)
    assert made.seen == [{"n": 1, "t": "ü"}]
    assert list(inside[0]) == [odd]
    assert queue.keys == set()


def test_a_retried_job_goes_to_the_back_unchanged(server: Server, queue: Queue, bench: Bench) -> None:
    entries = [b'["a", 1 ]', b'["b",2]', b'["c",3]']
    queue.push(*entries)
    times = iter([Retry("later")])
    made = bench.create(server, queue.name, lambda _, job: next(times, Success()) if job == 1 else Success())
    work_until_empty(bench, made, queue)
    assert made.seen == [1, 2, 3, 1]
    assert made.lines == ["Retry: later"]


def test_a_retry_leaves_the_raw_job_at_the_left_end(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a", 1 ]', b'["b",2]', b'["c",3]')
    (record,) = made._take(1)
    assert made._settle(record, RETRY)
    assert queue.jobs == [b'["a", 1 ]', b'["c",3]', b'["b",2]']


def test_a_job_given_back_is_the_next_one_taken(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["b",2]', b'["c",3]')
    queue.leave_in_progress(b'["a", 1 ]', OLD)
    made._sweep(_monitor(made))
    assert queue.jobs == [b'["c",3]', b'["b",2]', b'["a", 1 ]']
    assert queue.progress == {}


def _monitor(made):
    from headrace.dialects.hworker.sweep import Monitor

    return Monitor(made.options.timeout, made._log)


@pytest.mark.parametrize("what", [SUCCESS, RETRY, FAILURE, IS_BROKEN, GIVE_BACK])
def test_who_finds_nothing_to_delete_writes_nothing(server: Server, queue: Queue, bench: Bench, what: bytes) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a",1]')
    (record,) = made._take(1)
    queue.client.delete(queue.progress_key)
    assert not made._settle(record, what)
    assert made._driver.run(settle([record], GIVE_BACK)).ours == [False]
    assert queue.keys == set()


@pytest.mark.parametrize("what", [SUCCESS, RETRY, FAILURE, IS_BROKEN, GIVE_BACK])
def test_who_finds_another_hand_out_leaves_it_alone(server: Server, queue: Queue, bench: Bench, what: bytes) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a",1]')
    (record,) = made._take(1)
    queue.leave_in_progress(b'["a",1]', OLD)
    assert not made._settle(record, what)
    assert queue.progress == {b'["a",1]': OLD}
    assert queue.keys == {queue.progress_key}


@pytest.mark.parametrize("result", [Retry("r"), Failure("f")])
def test_a_late_retry_or_failure_is_dropped_when_a_monitor_was_faster(
    server: Server, queue: Queue, bench: Bench, result: Retry | Failure
) -> None:
    """Delete the progress field during a run, then return Retry or Failure: nothing is pushed."""
    made = bench.create(server, queue.name, lambda *_: (queue.client.delete(queue.progress_key), result)[1])
    made.queue(1)
    thread = bench.start(made.worker)
    eventually(lambda: len(made.lines) == 2, "the worker to say so")
    made.stop()
    thread.join(10)
    assert made.lines[0] == f"{type(result).__name__}: {result.message}"
    assert "nothing was written" in made.lines[1]
    assert queue.keys == set()


def test_a_success_that_deleted_nothing_is_logged_and_otherwise_ignored(
    server: Server, queue: Queue, bench: Bench
) -> None:
    made = bench.create(server, queue.name, lambda *_: (queue.client.delete(queue.progress_key), Success())[1])
    made.queue(1)
    bench.start(made.worker)
    eventually(lambda: made.lines, "the worker to say so")
    assert made.lines[0].startswith("Job done, but deleted 0")
    assert queue.keys == set()


# -- failures --


def test_the_failed_list_keeps_the_newest(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name, lambda *_: Failure("no"), failed_size=3)
    for number in range(5):
        made.queue(number)
    work_until_empty(bench, made, queue)
    assert made.failed() == [4, 3, 2]
    assert len(queue.failed) == 3
    assert made.lines == ["Failure: no"] * 5


@pytest.mark.parametrize("size", [0, -1])
def test_a_failed_size_of_nothing_keeps_nothing(server: Server, queue: Queue, bench: Bench, size: int) -> None:
    made = bench.create(server, queue.name, lambda *_: Failure("no"), failed_size=size)
    made.queue(1)
    work_until_empty(bench, made, queue)
    assert made.failed() == []
    assert queue.keys == set()


def test_a_site_that_took_the_description_literally(server: Server, queue: Queue, bench: Bench) -> None:
    key = f"hworker-failed-queue-{queue.name}"
    made = bench.create(server, queue.name, lambda *_: Failure("no"), failed_key=key)
    made.queue("x")
    work_until_empty(bench, made, queue)
    assert made.failed() == ["x"]
    assert queue.keys == {key}
    made.destroy()
    assert queue.keys == set()


# -- broken --

ENTRIES = [b'["a",1,2]', b'["a"]', b"[1,2]", b"{}", b"5", b"null", b'["a",', b"\xff\xfe", b'["a","text"]']


def test_broken_entries_are_filed_with_their_time_and_the_worker_goes_on(
    server: Server, queue: Queue, bench: Bench
) -> None:
    made = bench.create(server, queue.name, job_type=int)
    queue.push(*ENTRIES, b'["z",7]')
    work_until_empty(bench, made, queue)
    assert made.seen == [7]
    assert set(queue.broken) == set(ENTRIES)
    assert {raw for raw, _ in made.broken()} == set(ENTRIES)
    assert all(at is not None for _, at in made.broken())
    assert len(made.lines) == len(ENTRIES)
    assert queue.keys == {queue.broken_key}


# -- the phantom --


def test_an_idle_worker_leaves_nothing_behind(
    server: Server, queue: Queue, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "LOOK_AGAIN", 0.01)
    made = bench.create(server, queue.name)
    thread = bench.start(made.worker)
    bench.start(made.monitor)
    calls = int(queue.client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])

    def polls() -> int:
        return int(queue.client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]) - calls

    eventually(lambda: polls() > 20, "many polls")
    assert queue.keys == set()
    assert thread.is_alive()


def test_a_popped_phantom_is_dropped(server: Server, queue: Queue, bench: Bench) -> None:
    queue.push(b"false", b'["a",1]', b"false", b"false", b'["b",2]', b"false")
    made = bench.create(server, queue.name, prefetch=2)
    work_until_empty(bench, made, queue)
    assert made.seen == [1, 2]
    assert queue.keys == set()


def test_a_phantom_in_progress_is_shown_to_nobody_and_swept_away(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.leave_in_progress(b"false", OLD)
    assert made.in_progress() == []
    made._sweep(_monitor(made))
    assert queue.keys == set()


def test_a_fresh_phantom_is_left_to_those_who_write_it(server: Server, queue: Queue, bench: Bench) -> None:
    from .peer import stamp

    made = bench.create(server, queue.name)
    queue.leave_in_progress(b"false", stamp())
    made._sweep(_monitor(made))
    assert list(queue.progress) == [b"false"]


# -- looking --


def test_jobs_are_listed_newest_first_without_what_does_not_decode(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a",1]', b"nonsense", b'["b",[2]]', b"false")
    assert made.jobs() == [[2], 1]
    queue.client.lpush(queue.failed_key, b'["a",1]', b"nonsense", b'["b",2]')
    assert made.failed() == [2, 1]


def test_long_lists_are_read_in_pieces(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.client.lpush(queue.jobs_key, *(b'["a",%d]' % number for number in range(2_500)))
    assert made.jobs() == list(range(2_499, -1, -1))


def test_in_progress_tells_the_raw_job_and_since_when(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.leave_in_progress(b'["a",1]', OLD)
    queue.leave_in_progress(b'["b",1]', b"whenever")
    found = dict(made.in_progress())
    assert str(found[b'["a",1]']) == "2015-07-24 12:34:56.123000+00:00"
    assert found[b'["b",1]'] is None


def test_destroy_deletes_the_four_keys(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a",1]')
    queue.leave_in_progress(b'["b",2]', OLD)
    queue.client.hset(queue.broken_key, b"x", OLD)
    queue.client.lpush(queue.failed_key, b'["c",3]')
    made.destroy()
    assert queue.keys == set()


def test_an_exchange_settles_and_takes_in_one_step(server: Server, queue: Queue, bench: Bench) -> None:
    made = bench.create(server, queue.name)
    queue.push(b'["a",1]')
    (record,) = made._take(1)
    done = made._driver.run(exchange([(record, RETRY)], 5, [queue.name], 1000))
    assert done.ours == [True]
    assert [taken.raw for taken in done.taken] == [b'["a",1]']
