"""Flask: jobs of requests, their status and progress, and jobs inside the application's context.

gunicorn flask_shop:web --workers 2 --threads 8 --preload
headrace worker flask_shop:jobs
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from flask import Flask, Response, abort, current_app, request, url_for

from headrace import Context, Headrace, Job, JobNotFound, current

jobs = Headrace()
web = Flask(__name__)
web.config["PAPER"] = "A4"


@jobs.middleware
def in_app_context(context: Context) -> Iterator[None]:
    with web.app_context():
        yield


@jobs.task
def report(pages: int) -> str:
    for page in range(pages):
        current().progress(page + 1, pages)
    return f"a report of {pages} pages, {current_app.config['PAPER']}"


@web.post("/reports")
def order_report() -> tuple[dict[str, str], int, dict[str, str]]:
    job = report.enqueue(int(request.args["pages"]))
    return {"job": job.id}, 202, {"Location": url_for("show_report", job_id=job.id)}


def find_report(job_id: str) -> Job[str]:
    """The job of a URL, if it is a report: other jobs of the store stay hidden."""
    try:
        job = jobs.job(job_id).refresh()
    except JobNotFound:
        abort(404)
    if job.task != report.name:
        abort(404)
    return job


def status(job: Job[str]) -> dict[str, Any]:
    result = job.result() if job.state == "done" else None
    return {"state": job.state, "progress": job.progress, "result": result}


@web.get("/reports/<job_id>")
def show_report(job_id: str) -> dict[str, Any]:
    return status(find_report(job_id))


@web.get("/reports/<job_id>/events")
def follow_report(job_id: str) -> Response:
    job = find_report(job_id)

    def stream() -> Iterator[str]:
        # A silent stream ends after 15 seconds. The browser asks again, and a client that has gone away does not.
        with suppress(JobNotFound), jobs.events(job=job.id, timeout=15) as events:
            yield f"retry: 1000\ndata: {json.dumps(status(job.refresh()))}\n\n"
            for _ in () if job.state.final else events:
                yield f"data: {json.dumps(status(job.refresh()))}\n\n"
                if job.state.final:
                    return

    return Response(stream(), mimetype="text/event-stream", headers={"Cache-Control": "no-store"})
