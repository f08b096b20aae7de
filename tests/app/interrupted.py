"""A program whose signal handler enqueues, while its main thread does: `python interrupted.py URL ROUNDS`.

Prints as JSON how many were enqueued on either side, which of them are missing, what was refused with which words, and
how long the slowest call of the handler took.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from headrace import Headrace
from headrace.errors import StoreBusy

app = Headrace(sys.argv[1])
plain: list[str] = []
handled: list[str] = []
refused: list[str] = []
slowest = 0.0
done = False


@app.task(name="shop:count")
def count(number: int) -> None: ...


def handler(*_: object) -> None:
    global slowest  # noqa: PLW0603
    begun = time.monotonic()
    try:
        handled.append(count.enqueue(len(handled)).id)
    except StoreBusy as error:
        refused.append(str(error))
    slowest = max(slowest, time.monotonic() - begun)
    if not done:
        signal.setitimer(signal.ITIMER_REAL, 0.0003)


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0003)
for number in range(int(sys.argv[2])):
    plain.append(count.enqueue(1_000_000 + number).id)
    plain.extend(job.id for job in app.enqueue_many([count.call(2_000_000 + number * 10 + at) for at in range(10)]))
done = True
signal.setitimer(signal.ITIMER_REAL, 0)

enqueued = plain + handled
found = [job for at in range(0, len(enqueued), 500) for job in app.store.run(app.store.get(enqueued[at : at + 500]))]
print(
    json.dumps(
        {
            "plain": len(plain),
            "handled": len(handled),
            "missing": [one for one, job in zip(enqueued, found, strict=True) if job is None],
            "twice": len(enqueued) - len(set(enqueued)),
            "refused": sorted(set(refused)),
            "refusals": len(refused),
            "slowest": slowest,
        }
    )
)
