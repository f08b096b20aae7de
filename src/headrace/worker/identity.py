"""Who a process is, in a way that no other process on any machine, at any time, is. And how much memory it takes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from headrace.records import SessionInfo
from headrace.values.ids import new_id

WORKER_VARIABLE = "HEADRACE_WORKER"
"""Name of the worker that a process belongs to, as its supervisor has introduced it to the store."""


def worker_name() -> str:
    """Name of the worker that runs jobs in this process: that of its session."""
    return os.environ.get(WORKER_VARIABLE) or f"{platform.node()}-{os.getpid()}"


@cache
def host_identity() -> str:
    """The machine, its boot and its process namespace: two processes with the same can judge each other's pids."""
    machine = _first_line("/etc/machine-id") or platform.node()
    boot = _first_line("/proc/sys/kernel/random/boot_id") or _boot_time()
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{machine}/{boot}/{namespace}"


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _boot_time() -> str:
    if sys.platform != "darwin":
        return ""
    answer = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.boottime"], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def _stat(pid: int) -> tuple[str, str]:
    """A process' state, and when it started, as the kernel says and counts; empty when it can't be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "", ""
    # The command's name, in parentheses, may contain anything: count from its end.
    fields = stat[stat.rindex(b")") + 2 :].decode().split()
    return fields[0], fields[19]


def resident_memory(pid: int | str = "self") -> int:
    """Bytes of memory that a process has in use; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def is_dead(session: SessionInfo) -> bool:
    """Whether a session's process is certainly no more. Only known for processes of this machine."""
    if session.host != host_identity() or not session.pid:
        return False
    try:
        os.kill(session.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    state, started = _stat(session.pid)
    if state in ("Z", "X"):
        return True  # dead, and its parent has not looked yet
    return bool(started and session.started and started != session.started)


def introduce(
    queues: tuple[str, ...], tasks: tuple[str, ...], timeout: int, number: int | None = None, version: str = ""
) -> SessionInfo:
    """A worker process as it introduces itself to the store; `number` tells a supervisor's processes apart."""
    pid, node = os.getpid(), platform.node()
    _, started = _stat(pid)
    return SessionInfo(
        id=new_id(),
        name=f"{node}-{pid}" if number is None else f"{node}-{pid}-{number}",
        host=host_identity(),
        node=node,
        pid=pid,
        started=started,
        queues=queues,
        tasks=tasks,
        version=version,
        timeout=timeout,
    )
