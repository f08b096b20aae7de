"""What a take costs: as much with a hundred thousand waiting entries as with ten."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.dialects.workkit import WorkKitStore, create
from headrace.dialects.workkit.payload import canonical
from headrace.records import Kind, Outcome, SessionInfo, Take
from headrace.values.clock import ManualClock
from processes import eventually
from store.redis.servers import Server
from volume import volume

from .conftest import NOW

MANY = 100_000


class Counted:
    """What a server has done, said and heard since the last look, this look left out."""

    def __init__(self, server: Server) -> None:
        self._client = server.client()
        self._before = self._look()

    def _look(self) -> dict[str, Any]:
        stats, commands = self._client.info("stats"), self._client.info("commandstats")
        counts = {
            name: entry["calls"] for name, entry in commands.items() if name not in ("cmdstat_info", "cmdstat_hello")
        }
        return {**counts, "in": stats["total_net_input_bytes"], "out": stats["total_net_output_bytes"]}

    def take(self) -> dict[str, int]:
        after = self._look()
        found = {name: after[name] - self._before.get(name, 0) for name in after}
        self._before = after
        return {name: count for name, count in found.items() if count}


def fill(client: Any, name: str, first: int, last: int, due: int) -> None:
    for start in range(first, last, 5_000):
        pipe = client.pipeline(transaction=False)
        jobs, entries = {}, {}
        for number in range(start, min(start + 5_000, last)):
            text = canonical("#'a/run", "* * * * * 0 0", [number])
            identity = hashlib.sha1(text).hexdigest()
            jobs[identity], entries[f'{{"id":"{identity}"}}'] = text, due + number
        pipe.hset(f"{name}:jobs", mapping=jobs)
        pipe.zadd(f"{name}:next", entries)
        pipe.execute()


def test_take_settle_and_look_cost_the_same_whatever_waits(private: Callable[..., Server], clock: ManualClock) -> None:
    server = private()
    client = server.client()
    store = WorkKitStore(f"workkit+{server.url}?schedule=big", clock=clock)
    store.run(store.open(SessionInfo(id="s", name="s", tasks=("a/run",))))
    numbers = iter(range(1, 1000))

    def one_round() -> dict[str, int]:
        text = canonical("#'a/run", "2026 5 14 * 10 20 30", ["x"])
        identity = hashlib.sha1(text).hexdigest()
        client.hset("big:jobs", identity, text)
        client.zadd("big:next", {f'{{"id":"{identity}"}}': NOW})
        counted = Counted(server)
        (lease,) = store.run(store.exchange("s", next(numbers), (), Take(("default",), 5))).leases
        outcome = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE)
        store.run(store.exchange("s", next(numbers), [outcome], None))
        store.run(store.waiter("s", ["default"])._look())  # type: ignore[attr-defined]
        cost = counted.take()
        cost.pop("out")  # of which INFO is most
        return cost

    fill(client, "big", 0, 10, NOW + 60_000)
    one_round()  # loads the scripts
    few = one_round()
    fill(client, "big", 10, volume(MANY), NOW + 60_000)
    many = one_round()
    assert client.zcard("big:next") == volume(MANY)
    assert many == few
    assert sum(count for name, count in few.items() if name == "cmdstat_evalsha") == 3
    assert sum(count for name, count in few.items() if name.startswith("cmdstat")) <= 30
    store.close()


def test_an_idle_listener_sends_at_most_two_commands_a_second(private: Callable[..., Server]) -> None:
    server = private()
    with create("quiet", redis=server.url) as s:
        s.task(fill)
        thread = threading.Thread(target=s.listen)
        thread.start()
        eventually(lambda: server.client().pubsub_numsub("quiet:wake")[0][1], "an ear")
        client = server.client()
        eventually(lambda: sent_within(client, 0.4) == 0, "the end of what it sends when it begins")
        before = sent_by_clients(client)
        began = time.monotonic()
        time.sleep(2.0)  # what is measured is what happens meanwhile, which takes longer on a busy machine
        sent = sent_by_clients(client) - before
        seconds = time.monotonic() - began
        s.stop()
        thread.join(20)
    assert 0 < sent <= 2 * seconds


def sent_within(client: Any, seconds: float) -> int:
    before = sent_by_clients(client)
    time.sleep(seconds)
    return sent_by_clients(client) - before


def sent_by_clients(client: Any) -> int:
    """Commands but INFO, and but those that scripts send: of these a listener of ours sends none by itself."""
    inside = ("info", "hget", "hlen", "hexists", "zcard", "zscore", "zrangebyscore", "zcount", "time")
    calls = client.info("commandstats")
    return sum(entry["calls"] for name, entry in calls.items() if name.removeprefix("cmdstat_") not in inside)
