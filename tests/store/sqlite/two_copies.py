"""A program that enqueues while it opens the same file with Python's sqlite3: `python two_copies.py PATH look|open`.

With `look` it also selects something. Prints the ids of the jobs that were enqueued, and how often it looked.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import suppress

from headrace.records import NewJob
from headrace.store.sqlite.store import SqliteStore
from headrace.values.ids import new_id

path, look = sys.argv[1], sys.argv[2] == "look"
store = SqliteStore(f"sqlite:///{path}")
enqueued: list[str] = []
looks = 0


def enqueue() -> None:
    for number in range(1_500):
        jobs = [NewJob(id=new_id(), task="task", body=b"{}") for _ in range(1 if number % 2 else 3)]
        store.run(store.put(jobs))
        enqueued.extend(job.id for job in jobs)


threads = [threading.Thread(target=enqueue) for _ in range(2)]
for thread in threads:
    thread.start()
while looks < 100 or any(thread.is_alive() for thread in threads):
    connection = sqlite3.connect(path)
    if look:
        with suppress(sqlite3.DatabaseError):  # the other copy may see a page that is just being changed
            connection.execute("SELECT id, state FROM jobs LIMIT 10").fetchall()
    connection.close()
    looks += 1
for thread in threads:
    thread.join()
print("\n".join(enqueued))
print(f"looked {looks} times")
