"""One module per peer, imported by that peer's own interpreter: by the host, and by the workers that it starts.

Each has the tasks `noop`, `stamp` and `slow` (see `bench.peers.witness`), and:

    REQUIREMENTS   what pip installs into the peer's environment; none: the benchmark's own interpreter
    PACKAGES       those whose versions are reported
    SETTINGS       what was chosen beyond the defaults, in words
    SERVICE        "redis" (if left out) or "postgres"
    PACE           about how many jobs per second it drains; the sizes of the rounds follow from it
    prepare()                        connect, and make what must be there before the first job
    enqueue(task, argument)          one job
    enqueue_many(task, arguments)    by the peer's own bulk interface; left out where there is none
    workers(purpose)                 command lines: "drain" and "crash" for two cores, "latency" for one idle worker;
                                     for headrace and raw Redis also "single", a drain by one process

Hooks may be coroutines. `$BENCH_URL` is where jobs go: an empty database that nobody else uses.
"""

NAMES = (
    "celery", "rq", "dramatiq", "huey", "arq", "taskiq", "saq", "bullmq", "pgqueuer", "procrastinate", "graphile",
)  # fmt: skip
