"""Idle workers on Redis: what they cost the server while nothing happens."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.growth import row
from bench.tools import Report
from headrace.records import ExchangeReply, SessionInfo, Take
from headrace.store.redis.connections import pack
from headrace.store.redis.operation import Script
from headrace.store.redis.store import RedisStore
from headrace.worker.upkeep import SWEEP_EVERY
from store.redis.servers import Server

PERIOD = 30
"""Seconds that are played through: twice the usual time-out of a session."""
ASKS = 3
"""How often one of many sessions does so in that time: see `ASK_SECONDS` of the waiter. Then its supervisor renews
it only to tell how much memory it takes (`TELL_WITHIN`), and it need not ask for sweeps (`Upkeep.was_swept`)."""

ROUNDS = 3
LINES = 200
"""So many of them wait side by side. (A server ends what blocks ten times a second: one after the other would take some
minutes, and what the server does in them by itself would count as theirs.)"""


def cpu_seconds(server: Server) -> float:
    assert server.process is not None
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def commands(server: Server) -> int:
    return int(server.command("INFO", "stats")["total_commands_processed"])


class Idle:
    """Many sessions with nothing to do."""

    def __init__(self, sessions: int) -> None:
        self.server = Server()
        self.store = RedisStore(self.server.url)
        self.lines = [self.store.driver.opener.open() for _ in range(LINES)]
        self.ids = [f"s{number}" for number in range(sessions)]
        for session in self.ids:
            info = SessionInfo(id=session, name=session, queues=("default",), tasks=("task",), timeout=15_000)
            self.store.run(self.store.open(info))
        self.store.run(self.look(self.ids[0], 1))  # the server knows the script from then on

    def close(self) -> None:
        for line in self.lines:
            line.disconnect()
        self.store.close()
        self.server.close()

    def sweeps(self) -> tuple[float, int]:
        """CPU seconds, and commands of `PERIOD` sweeps that each do their work."""
        cpu, before = cpu_seconds(self.server), commands(self.server)
        for _ in range(PERIOD):
            self.store.run(self.store.sweep())
        return cpu_seconds(self.server) - cpu, commands(self.server) - before

    def look(self, session: str, number: int) -> Script[ExchangeReply]:
        found = self.store.exchange(session, number, (), Take(("default",), 8, 0, False))
        assert isinstance(found, Script)
        return found

    def ask(self, sessions: Sequence[str], number: int) -> None:
        """Wait for a hint in vain, then look for work: both are sent together, as a waiter does."""
        driver = self.store.driver
        for line, session in zip(self.lines, sessions, strict=False):
            wait = pack(b"BLPOP", self.store.keys.bell(session).encode(), b"0.01")
            line.send_packed_command([wait, driver.packed(self.look(session, number))], check_health=False)
        for line, _ in zip(self.lines, sessions, strict=False):
            line.read_response()
            line.read_response()

    def period(self) -> float:
        """CPU seconds of all that happens in `PERIOD` seconds."""
        before = cpu_seconds(self.server)
        self.sweeps()
        self.store.run(self.store.sweep(every=SWEEP_EVERY))  # from now on an ask says how long ago that was
        for first in range(0, len(self.ids), LINES):
            for number in range(2, ASKS + 2):
                self.ask(self.ids[first : first + LINES], number)
        for session in self.ids:
            self.store.run(self.store.renew(session))
        return cpu_seconds(self.server) - before


@row("sweeps of idle workers on Redis, 50 and 800 sessions")
def sweeps(report: Report) -> None:
    found = {}
    for number in (50, 800):
        idle = Idle(number)
        found[number] = idle.sweeps()[1]
        idle.close()
    report.add("sweeps on Redis: commands, 800 sessions beside 50", found[800] / found[50], "times", 2, at_most=True)


@row("2,000 idle sessions on Redis")
def idle(report: Report) -> None:
    shares = []
    for _ in range(ROUNDS):
        sessions = Idle(2_000)
        shares.append(sessions.period() / PERIOD)
        sessions.close()
    share = statistics.median(shares)
    report.add("idle on Redis: 2,000 sessions that sweep, ask and renew", share, "%", 0.02, at_most=True)
