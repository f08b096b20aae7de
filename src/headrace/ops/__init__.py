"""What operators look at and act on, as typed functions and records: for the command line, `top`, and other programs.

    look       jobs, queues, workers, failures, tags, rows of SQL
    attempts   the runs of a job: worker, duration, error, data before and after
    act        cancel, delete, revive, take back, tag, track, purge; pause, resume and limit queues
    edit       change jobs that wait
    schedules  recurring jobs: look at them, pause, resume, edit, delete
    why        why a job is not running
    stats      how long jobs waited and ran on a day
    settings   what all workers of a store share
    check      whether an app's code can run what waits
    doctor     what is wrong, and whether a worker of this host is alive
    overview   all of a store at one moment, with rates; `follow` looks again when something happens
    selection  which jobs are meant: by filter, or by part of an id

One rule for all of them: the first argument is the app; `name(app, ...)` runs in this thread, and
`await aname(app, ...)` on an event loop. Both are made of `name_course(app, ...)`, which describes what to ask the
store for; other courses can contain it (see `headrace.store.courses`).

>>> import asyncio
>>> from headrace import Headrace
>>> from headrace.ops import documents, look
>>> app = Headrace("sqlite:///:memory:")
>>> @app.task(name="mail:send", queue="mail")
... def send(to: str) -> None: ...
>>> job = send.enqueue("ada")
>>> look.queues(app)[0].ready
1
>>> asyncio.run(look.aqueues(app))[0].ready
1

Records carry units in their names, and `documents.document` makes JSON of them, with times in ISO 8601.

>>> documents.document(look.queues(app)[0])["queue"]
'mail'
"""
