"""FastAPI: jobs of requests, their status and progress, and jobs in the transaction of a request.

    uvicorn fastapi_shop:api --workers 2
    headrace worker fastapi_shop:jobs

$HEADRACE_STORE is where the jobs live. Orders go to $SHOP_DATABASE: the same PostgreSQL database.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from headrace import Headrace, Job, JobNotFound, current

jobs = Headrace()


@jobs.task
def report(pages: int) -> str:
    for page in range(pages):
        current().progress(page + 1, pages)
    return f"a report of {pages} pages"


@jobs.task
def confirm(order: int) -> None: ...


api = FastAPI(lifespan=lambda _: jobs.lifespan())


# -- a job, its status, its progress --


@api.post("/reports", status_code=202)
async def order_report(pages: int, request: Request, response: Response) -> dict[str, str]:
    job = await report.aenqueue(pages)
    response.headers["Location"] = str(request.url_for("show_job", job_id=job.id))
    return {"job": job.id}


async def find_report(job_id: str) -> Job[str]:
    """The job of a URL, if it is a report: other jobs of the store stay hidden."""
    try:
        job = await jobs.job(job_id).arefresh()
    except JobNotFound:
        job = None
    if job is None or job.task != report.name:
        raise HTTPException(404, "There is no such report.")
    return job


async def status(job: Job[str]) -> dict[str, Any]:
    result = await job.aresult() if job.state == "done" else None
    return {"state": job.state, "progress": job.progress, "result": result}


@api.get("/reports/{job_id}")
async def show_job(job: Annotated[Job[str], Depends(find_report)]) -> dict[str, Any]:
    return await status(job)


@api.get("/reports/{job_id}/events")
async def follow_job(job: Annotated[Job[str], Depends(find_report)]) -> StreamingResponse:
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


# -- a job in the transaction of a request --


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    article: Mapped[str]


engine = create_engine(os.environ.get("SHOP_DATABASE", "postgresql+psycopg:///shop"))


def get_sessions() -> sessionmaker[Session]:
    return sessionmaker(engine)


@api.post("/orders", status_code=201)
def buy(article: str, sessions: Annotated[sessionmaker[Session], Depends(get_sessions)]) -> dict[str, int]:
    with sessions.begin() as session:  # commits before the response is sent, unlike a dependency with `yield`
        order = Order(article=article)
        session.add(order)
        session.flush()
        confirm.using(connection=session).enqueue(order.number)
        return {"order": order.number}
