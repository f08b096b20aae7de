"""A program that forks while its threads use the store: `python forking.py PATH FORKS`.

Each child enqueues one job. Prints as JSON how many children did, and how many hung.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import warnings

from headrace.records import NewJob
from headrace.store.sqlite.store import SqliteStore
from headrace.values.ids import new_id

warnings.simplefilter("ignore", DeprecationWarning)  # that is the point
store = SqliteStore(f"sqlite:///{sys.argv[1]}")
stop = threading.Event()
enqueued: list[str] = []


def enqueue() -> str:
    job = NewJob(id=new_id(), task="task", body=b"{}")
    store.run(store.put([job]))
    return job.id


def enqueue_on() -> None:
    while not stop.is_set():
        enqueued.append(enqueue())


def read_on() -> None:
    while not stop.is_set():
        store.run(store.counts())


def child(writer: int) -> None:
    try:
        os.write(writer, enqueue().encode())
    finally:
        os._exit(0)


threads = [threading.Thread(target=work) for work in (enqueue_on, enqueue_on, read_on)]
for thread in threads:
    thread.start()
hung = 0
for _ in range(int(sys.argv[2])):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(writer)
    os.close(writer)
    if select.select([reader], [], [], 8.0)[0] and (told := os.read(reader, 100)):
        enqueued.append(told.decode())
    else:
        hung += 1
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
stop.set()
for thread in threads:
    thread.join()
found = [job for at in range(0, len(enqueued), 500) for job in store.run(store.get(enqueued[at : at + 500]))]
print(json.dumps({"enqueued": len(enqueued), "missing": found.count(None), "hung": hung}))
