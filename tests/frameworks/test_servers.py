"""The examples of frameworks behind real servers: several processes, forked after the import or started afresh."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from processes import environment, eventually, worker_process
from store.postgres import servers as postgres_servers
from store.redis import servers as redis_servers

httpx = pytest.importorskip("httpx", reason="httpx is not installed")
for library in ("fastapi", "flask", "gunicorn", "sqlalchemy", "uvicorn"):
    pytest.importorskip(library, reason=f"{library} is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples/frameworks"
TESTS = Path(__file__).parent


class Web:
    """A server, and a client of it."""

    def __init__(self, process: subprocess.Popen[bytes], address: Path, log: Path) -> None:
        self.process = process
        self.address = address
        self.log = log
        self.client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(address)),
            base_url="http://shop.test",
            headers={"Connection": "close"},  # each request may reach another process
            timeout=30,
        )

    def is_there(self) -> bool:
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8", errors="replace")
        with socket.socket(socket.AF_UNIX) as attempt:
            if attempt.connect_ex(str(self.address)):
                return False
        return bool(self.client.get("/who").status_code == 200)

    def post_to_each(self, path: str) -> dict[int, list[dict[str, Any]]]:
        """Post until two processes have answered; the answers by process."""
        answers = defaultdict(list)

        def post(_: int) -> None:
            answer = self.client.post(path)
            answer.raise_for_status()
            answers[int(answer.headers["X-Pid"])].append(answer.json())

        def post_some() -> bool:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(post, range(16)))
            return len(answers) == 2

        eventually(post_some, "answers of two processes", 60)
        return answers

    def events(self, job: str) -> Generator[dict[str, Any], None, None]:
        """Follow a report."""
        with self.client.stream("GET", f"/reports/{job}/events") as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


def env(store: str, **more: str) -> dict[str, str]:
    path = f"{environment()['PYTHONPATH']}:{EXAMPLES}:{TESTS}"
    return environment(PYTHONPATH=path, HEADRACE_STORE=store, **more)


@contextmanager
def serving(folder: Path, store: str, server: str, module: str, **more: str) -> Iterator[Web]:
    address, log = folder / "socket", folder / "server.log"
    bind = ["--bind", f"unix:{address}"] if server.startswith("gunicorn") else ["--uds", str(address)]
    (folder / "gunicorn.conf.py").write_text("control_socket_disable = True\n")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *server.split(), *bind, module],
            env=env(store, **more),
            cwd=folder,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    web = Web(process, address, log)
    try:
        eventually(web.is_there, "the server", 60)
        yield web
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        web.client.close()


def store_url(kind: str, folder: Path) -> str:
    if kind == "postgres" and not postgres_servers.INSTALLED:
        pytest.skip("there is no PostgreSQL")
    urls = {
        "sqlite": lambda: f"sqlite:///{folder}/jobs.db",
        "postgres": postgres_servers.fresh_url,
        "redis": redis_servers.fresh_url,
    }
    return urls[kind]()


@pytest.mark.parametrize(
    ("store", "server", "module"),
    [
        ("sqlite", "gunicorn --workers 2 --preload --threads 4", "served:flask"),
        ("postgres", "gunicorn --workers 2 --preload --threads 4", "served:flask"),
        ("redis", "gunicorn --workers 2 --preload -k uvicorn.workers.UvicornWorker", "served:fastapi"),
        ("sqlite", "uvicorn --workers 2", "served:starlette"),
    ],
)
def test_each_process_of_a_server_enqueues_through_connections_of_its_own(
    store: str, server: str, module: str, tmp_path: Path
) -> None:
    url = store_url(store, tmp_path)
    with serving(tmp_path, url, server, module) as web:
        answers = web.post_to_each("/reports?pages=1")
        found = [web.client.get("/who").json() for _ in range(10)]
    enqueued = [answer["job"] for of_process in answers.values() for answer in of_process]
    app = Headrace(url)
    assert sorted(job.id for job in app.jobs(state="ready")) == sorted(enqueued)
    app.close()
    if store == "postgres":
        owners = {(each["backend"], each["pid"]) for each in found}
        assert len(owners) == len({backend for backend, _ in owners})
        assert not {backend for backend, _ in owners} & {each["backend of the parent"] for each in found}


TABLE = """
DROP TABLE IF EXISTS orders;
CREATE TABLE orders (number serial PRIMARY KEY, article text);
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'sold out'; END $$;
CREATE CONSTRAINT TRIGGER sold_out AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.article = 'gold') EXECUTE FUNCTION refuse()
"""
"""Orders of gold are refused at the commit, when their job is in the transaction."""


def test_orders_of_each_process_are_confirmed_if_they_are_committed(tmp_path: Path) -> None:
    url = store_url("postgres", tmp_path)
    from sqlalchemy import text

    from app.callers import engine

    shop = engine(re.sub(r"[?&]schema=\w+$", "", url))
    database = shop.url.render_as_string(hide_password=False)
    with shop.connect() as connection, connection.begin():
        connection.execute(text(TABLE))
    with serving(tmp_path, url, "uvicorn --workers 2", "served:fastapi", SHOP_DATABASE=database) as web:
        answers = web.post_to_each("/orders?article=tea")
        assert web.client.post("/orders?article=gold").status_code == 500
    orders = sum(map(len, answers.values()))
    with shop.connect() as connection, connection.begin():
        assert connection.execute(text("SELECT count(*) FROM orders")).scalar() == orders
        connection.execute(text("DROP TABLE orders; DROP FUNCTION refuse"))
    app = Headrace(url)
    assert [job.task for job in app.jobs()] == ["fastapi_shop:confirm"] * orders
    app.close()


@pytest.mark.parametrize(
    ("server", "module", "app"),
    [
        ("uvicorn", "served:fastapi", "fastapi_shop:jobs"),
        ("uvicorn", "served:starlette", "starlette_shop:jobs"),
        ("gunicorn --threads 4", "served:flask", "flask_shop:jobs"),
    ],
)
def test_the_events_of_a_job_end_with_it_or_with_their_client(
    server: str, module: str, app: str, tmp_path: Path
) -> None:
    url = store_url("sqlite", tmp_path)
    with serving(tmp_path, url, server, module) as web:
        job = web.client.post("/reports?pages=3").json()["job"]
        with closing(web.events(job)) as events:
            assert next(events)["state"] == "ready"
            with worker_process(app, url, "--burst", log=tmp_path / "worker.log", env=env(url)) as worker:
                *_, last = events  # ends by itself
                assert worker.wait() == 0
        assert (last["state"], last["progress"]) == ("done", [3, 3])
        assert last["result"].startswith("a report of 3 pages")
        if not server.startswith("gunicorn"):  # a thread notices when it writes
            job = web.client.post("/reports?pages=3").json()["job"]
            with closing(web.events(job)) as events:
                next(events)
                assert web.client.get("/who").json()["subscriptions"] == 1
            eventually(lambda: web.client.get("/who").json()["subscriptions"] == 0, "the end of the subscription")
