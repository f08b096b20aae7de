"""`headrace demo` as an app of your own to play with, in two terminals:

    headrace worker examples/demo_app.py:app
    python examples/demo_app.py

then kill the worker, start it again, and look on with `headrace jobs`, `headrace queues` and `headrace why ID`.
"""

from typing import Any

from headrace import Job
from headrace.cli.demo_app import app, convert, deliver, fetch, greet

__all__ = ["app"]

if __name__ == "__main__":
    jobs: list[Job[Any]] = [greet.enqueue("Ada"), fetch.enqueue("https://example.org"), convert.enqueue(100)]
    parcels = app.enqueue_many([deliver.call(parcel) for parcel in range(100)])
    for job in [*jobs, parcels[0], parcels[-1]]:
        print(job.id, job.task)
