"""Starlette: jobs of requests, their status, and their progress by server-sent events.

uvicorn starlette_shop:web --workers 2
headrace worker starlette_shop:jobs
"""

import json
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from headrace import Headrace, Job, JobNotFound, current

jobs = Headrace()


@jobs.task
def report(pages: int) -> str:
    for page in range(pages):
        current().progress(page + 1, pages)
    return f"a report of {pages} pages"


async def order_report(request: Request) -> JSONResponse:
    job = await report.aenqueue(int(request.query_params["pages"]))
    location = str(request.url_for("show", job_id=job.id))
    return JSONResponse({"job": job.id}, status_code=202, headers={"Location": location})


async def find_report(request: Request) -> Job[str]:
    """The job of a URL, if it is a report: other jobs of the store stay hidden."""
    try:
        job = await jobs.job(request.path_params["job_id"]).arefresh()
    except JobNotFound:
        job = None
    if job is None or job.task != report.name:
        raise HTTPException(404, "There is no such report.")
    return job


async def status(job: Job[str]) -> dict[str, object]:
    result = await job.aresult() if job.state == "done" else None
    return {"state": job.state, "progress": job.progress, "result": result}


async def show_report(request: Request) -> JSONResponse:
    return JSONResponse(await status(await find_report(request)))


async def follow_report(request: Request) -> StreamingResponse:
    job = await find_report(request)

    async def stream() -> AsyncIterator[str]:
        with suppress(JobNotFound):  # it may be deleted meanwhile
            async with jobs.aevents(job=job.id) as events:  # listen first, then look: nothing is lost in between
                await job.arefresh()
                yield f"data: {json.dumps(await status(job))}\n\n"
                while not job.state.final:
                    await anext(events)
                    await job.arefresh()
                    yield f"data: {json.dumps(await status(job))}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


web = Starlette(
    routes=[
        Route("/reports", order_report, methods=["POST"]),
        Route("/reports/{job_id}", show_report, name="show"),
        Route("/reports/{job_id}/events", follow_report),
    ],
    lifespan=lambda _: jobs.lifespan(),
)
