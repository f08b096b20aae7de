"""The examples as servers import them (`served:flask`), with what tests want to know of each process."""

from __future__ import annotations

import gc
import importlib
import os
from typing import Any

from headrace import Headrace
from headrace.events import AsyncEvents


def __getattr__(name: str) -> Any:
    if name not in {"fastapi", "flask", "starlette"}:
        raise AttributeError(name)
    shop = importlib.import_module(f"{name}_shop")
    parent, before = os.getpid(), backend(shop.jobs)  # it is connected before a server forks

    def who() -> dict[str, Any]:
        """This process, its connection, that of the process that it was forked from, and how many follow events."""
        return {
            "pid": os.getpid(),
            "backend": backend(shop.jobs),
            "backend of the parent": None if os.getpid() == parent else before,
            "subscriptions": sum(isinstance(each, AsyncEvents) and each._ear is not None for each in gc.get_objects()),
        }

    made = globals()[name] = of_flask(shop, who) if name == "flask" else of_starlette(shop, who)
    return made


def backend(jobs: Headrace) -> int | None:
    """The server process that PostgreSQL has for a connection of this store."""
    jobs.failures()
    if not jobs.url.startswith("postgresql:"):
        return None
    return int(jobs.sql("SELECT pg_backend_pid() AS pid")[0]["pid"])


def of_flask(shop: Any, who: Any) -> Any:
    shop.web.add_url_rule("/who", view_func=who, endpoint="who")

    @shop.web.after_request
    def name_process(response: Any) -> Any:
        response.headers["X-Pid"] = str(os.getpid())
        return response

    return shop.web


def of_starlette(shop: Any, who: Any) -> Any:
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    web = getattr(shop, "api", None) or shop.web

    def show(_: object) -> JSONResponse:
        return JSONResponse(who())

    web.router.routes.append(Route("/who", show))

    async def with_pid(scope: Any, receive: Any, send: Any) -> None:
        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-pid", str(os.getpid()).encode())]
            await send(message)

        await web(scope, receive, named)

    return with_pid
