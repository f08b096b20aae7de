"""Short cuts in scripts do what the long way does."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1

import pytest
from msgspec.structs import replace

from conformance.helpers import Worker, outcome, put
from headrace.records import State, Verdict
from headrace.store.redis import scripts
from headrace.store.redis.operation import Script
from headrace.store.redis.scripts import digest, source
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from .servers import contents
from .traps import WRITES, lasting, spring, visible


def use(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on this is the script `exchange`."""
    monkeypatch.setattr(scripts, "source", lambda name: text if name == "exchange" else source(name))
    monkeypatch.setattr(
        scripts, "digest", lambda name: sha1(text).hexdigest().encode() if name == "exchange" else digest(name)
    )


def test_the_short_cuts_of_a_busy_exchange_do_what_the_long_way_does(
    make: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = long_way = scripts.source("exchange")
    for short_cut in (
        b"function taken(record, run, heads)\n",
        b"heads, tokens, times, story)\n  if",
    ):
        assert short_cut in real
        head, _, rest = long_way.partition(short_cut)
        opening = short_cut.removesuffix(b"  if")
        long_way = head + opening + b"  do return nil end\n" + short_cut.removeprefix(opening) + rest
    seen = []
    for text in (real, long_way):
        use(text, monkeypatch)
        clock = ManualClock()
        store = make(clock)
        worker = Worker(store, clock)
        put(store, *"abcfgh", options=b"O")
        put(store, *"de", priority=2, unique_key=None)
        put(store, "u", unique_key="k")
        put(store, "other", queue="other")
        clock.advance(5)
        leases = worker.take(3, 9, "default", "other")
        clock.advance(5)
        times = {"began": 1, "ended": 4}
        fields = [
            times, {}, {"result": b"R"}, {"began": 2}, {"ended": 3}, {"charge": 1, **times}, {"result": b"", **times},
            {"result": b"R", "charge": 1, **times}, {"result": b"R" * 3_000, **times}, {"began": 2, "ended": 3},
        ]  # fmt: skip
        outcomes = [outcome(lease, **more) for lease, more in zip(leases, fields, strict=True)]
        reply = worker.exchange([*outcomes, outcomes[0]], worker.asks(3))
        jobs = store.run(store.get([lease.id for lease in leases]))
        seen.append((leases, reply, jobs, visible(store)))
    assert seen[0] == seen[1]
    assert [job.state for job in seen[0][2]] == [State.DONE] * 10


PLAIN = b"function exchange_plain(session, request, ask, kept)\n"


def without_plain(text: bytes) -> bytes:
    assert text.count(PLAIN) == 1
    return text.replace(PLAIN, PLAIN + b"  do return nil end\n")


def few_in_a_row(store: RedisStore, worker: Worker) -> None:
    worker.take(1)  # nothing: from here on it is hungry
    put(store, "a", "b", options=b"O")
    put(store, "c", queue="other")
    put(store, "later", delay=1_000)


SPECIAL: dict[str, Callable[[RedisStore], object]] = {
    "nothing": lambda store: None,
    "one is gone": lambda store: store.run(store.delete(["a"])),
    "all are gone": lambda store: store.run(store.cancel(["a", "b"])),
    "one with a priority": lambda store: put(store, "first", priority=1),
    "one with a large body": lambda store: put(store, "large", body=b"L" * 5_000),
    "more than slots": lambda store: put(store, *"ghijklmn"),
    "one that is due": lambda store: put(store, "at once", run_at=0),
    "one that runs again": lambda store: store.run(store.cancel(["a"])) and store.run(store.revive(["a"])),
    "a waiter": lambda store: store.driver.command("ZADD", store.keys.prefix + "watched", "99999999999999", "a"),
    "a sleeper": lambda store: store.driver.command("ZADD", store.keys.prefix + "hungry:default", "5", "sleeper"),
    "a schedule": lambda store: store.driver.command("ZADD", store.keys.prefix + "ticks", "99999999999999", "late"),
    "settings": lambda store: store.run(store.set_settings({"jobs-history-count": 1})),
    "little memory": lambda store: store.driver.command("HSET", store.keys.known[1], "history_memory", "1"),
}


@pytest.mark.parametrize("special", SPECIAL)
def test_an_exchange_of_plain_jobs_does_what_the_long_way_does(
    make: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch, special: str
) -> None:
    real = scripts.source("exchange")
    seen = []
    for text in (real, without_plain(real)):
        use(text, monkeypatch)
        clock = ManualClock()
        store = make(clock)
        worker = Worker(store, clock)
        few_in_a_row(store, worker)
        SPECIAL[special](store)
        clock.advance(5)
        reply = worker.exchange(take=worker.asks(6))
        again = worker.exchange(take=worker.asks(6), number=worker.number)
        put(store, *"xyz")
        clock.advance(5)
        done = [outcome(lease, began=1, ended=4, result=b"R") for lease in reply.leases]
        settled = worker.exchange(done, worker.asks(1, 1, "default", "other"))
        started = [lease.ref for lease in settled.leases if lease.spare]
        last = worker.exchange(done[:1], worker.asks(0), started=started)
        # (That a session holds nothing, and when there was a sweep, is said by the short way only, and not again.)
        replies = [replace(each, holds_nothing=False, swept=None) for each in (reply, again, settled, last)]
        seen.append((*replies, visible(store)))
    assert seen[0] == seen[1]
    assert replies[0] == replies[1]
    assert settled.verdicts == [Verdict.OK] * len(reply.leases)


def test_plain_jobs_are_exchanged_without_the_rest_of_the_script(
    make: Callable[..., RedisStore], clock: ManualClock
) -> None:
    store = make(clock)
    worker = Worker(store, clock)
    few_in_a_row(store, worker)
    text = scripts.source("exchange")
    script = store.exchange(worker.id, worker.number + 1, (), worker.asks(6))
    assert isinstance(script, Script)
    before = lasting(store)
    for k in range(1, 100):
        command = spring(store, script, k)
        assert command is not None, "it should have written something"
        assert contents(store) == before, f"call {k} ({command.decode()}) came after a write"
        if command in WRITES:
            break
    # Nothing of what comes after the short cut is needed.
    head, _, _ = text.partition(b"plan = {")
    connection = store.driver.opener.open()
    command_bytes = store.driver._command(script, whole=True).replace(
        b"$%d\r\n%s\r\n" % (len(text), text), b"$%d\r\n%s\r\n" % (len(head), head)
    )
    connection.send_packed_command([command_bytes])
    assert connection.read_response()[3] == [b"a", b"b"]
    connection.disconnect()
