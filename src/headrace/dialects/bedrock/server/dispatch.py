"""From a request to what is done about it, and how it is answered."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headrace import __version__
from headrace.dialects.bedrock.server.batch import Batch, Broken
from headrace.dialects.bedrock.server.edit import cancel_job, delete_job, requeue_jobs, update_job
from headrace.dialects.bedrock.server.find import Query, is_query, query_job
from headrace.dialects.bedrock.server.put import create_job, create_jobs
from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.settle import fail_job, finish_job, retry_job
from headrace.dialects.bedrock.server.take import HandOut, Wanted, get_jobs
from headrace.dialects.bedrock.server.transaction import Answer, Transaction
from headrace.dialects.bedrock.server.values import read_list
from headrace.dialects.bedrock.server.wait import Waiter
from headrace.dialects.bedrock.wire import Refused, compose, prove

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.connection import Connection
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")

DEFAULT_TIMEOUT = 110_000
"""Milliseconds that a command may take until it is committed."""
MICROSECOND = 1_000_000
COMMANDS: dict[str, Callable[[Transaction, Request], Answer | None]] = {
    "createjob": create_job,
    "createjobs": create_jobs,
    "updatejob": update_job,
    "queryjob": query_job,
    "finishjob": finish_job,
    "retryjob": retry_job,
    "failjob": fail_job,
    "deletejob": delete_job,
    "canceljob": cancel_job,
    "requeuejobs": requeue_jobs,
}
"""The commands on jobs by their verb, in lower case: each checks everything, then changes what there is to change.
GetJob and GetJobs are not among them, as they may wait."""
WRITING = frozenset(COMMANDS) - {"queryjob"} | {"getjob", "getjobs"}
"""Commands that are worth executing when nobody listens."""
FOR_ANYONE = frozenset({"ping", "get", "authenticate"})
"""Commands that clients may send before they have shown that they know the server's secret."""
STOPPING = "503 Stopping"


def execute(server: Server, batch: Batch, connection: Connection | None, request: Request) -> None:
    """Execute a request, and answer it if it has a connection."""
    last = False
    ids: list[int] = []
    try:
        manner = request.get("connection").lower() if "connection" in request.headers else ""
        last = manner == "close"
        if connection is not None and not connection.trusted and request.verb not in FOR_ANYONE:
            raise Refused("401 Unauthorized", ("error", "this server asks for a secret"))
        if connection is not None and _is_for_later(server, batch, connection, request, manner):
            return
        _check_time(server, request)
        command = COMMANDS.get(request.verb)
        if command is not None:
            body = batch.run(lambda tx: command(tx, request)) or ""
        elif request.verb in ("getjob", "getjobs"):
            found = _get(server, batch, connection, request, manner)
            if found is None:
                return
            body, ids = found
        elif is_query(request):
            _query(server, batch, connection, request, last)
            return
        else:
            status, body = _control(server, connection, request)
            if connection is not None:
                batch.reply(connection, status, (), body.encode(), last=last)
            return
    except Refused as refused:
        if connection is not None:
            batch.refuse(connection, refused, last=last)
        return
    except Broken:
        if connection is not None:  # its answer is replaced with all the others
            batch.succeed(connection, last=last)
        raise
    except Exception:
        log.exception("the request %r failed", request.line[:100])
        if connection is not None:
            batch.refuse(connection, Refused("500 Unhandled Exception"), last=last)
        return
    if connection is not None:
        batch.succeed(connection, body, ids, last=last)
    elif ids:
        server.put_back(ids)


def _is_for_later(server: Server, batch: Batch, connection: Connection, request: Request, manner: str) -> bool:
    """Answer at once what is to be executed later, or without anybody listening."""
    delay = 0.0
    if "commandexecutetime" in request.headers:
        moment = request.integer("commandexecutetime")
        delay = (moment - server.clock.now() * 1000) / MICROSECOND
    if manner != "forget" and delay <= 0:
        return False
    writes = server.options.allow_write_query if is_query(request) else request.verb in WRITING
    if writes and not server.detach(request, min(max(delay, 0.0), 1e9)):
        raise Refused("503 Too many postponed commands")
    batch.answer(connection, compose("202 Successfully queued", [("Connection", "close")]), last=True)
    return True


def _check_time(server: Server, request: Request) -> None:
    """Nothing is done for a client that has given up meanwhile."""
    waited = server.now() - request.arrived
    if waited > 0.001 and waited * 1000 > _timeout(request):
        raise Refused("555 Timeout")


def _timeout(request: Request) -> int:
    timeout = request.integer("timeout")
    return timeout if timeout > 0 else DEFAULT_TIMEOUT


def _get(server: Server, batch: Batch, connection: Connection | None, request: Request, manner: str) -> HandOut | None:
    """Take jobs; None if the request waits for some."""
    wanted = Wanted(request)
    found = batch.run(lambda tx: get_jobs(tx, wanted))
    if found is not None:
        return found
    if manner != "wait" or connection is None:
        raise Refused("404 No job found")
    timeout = None if request.find("timeout") is None else request.integer("timeout")
    if timeout is not None and timeout <= 0:
        raise Refused("404 No job found")
    deadline = None if timeout is None else request.arrived + timeout / 1000
    server.waits.hold(batch, Waiter(connection, wanted, deadline))
    return None


def _control(server: Server, connection: Connection | None, request: Request) -> tuple[str, str]:
    """The status line and the body for commands about the server itself."""
    match request.verb, request.line.split()[1:2]:
        case "ping", _:
            return "200 OK", ""
        case "authenticate", _:
            _authenticate(server.options.secret, connection, request)
            return "200 OK", ""
        case "status", _:
            return "200 OK", _status(server)
        case "get", ["/status/handlingCommands"]:  # load balancers ask this and the next
            return "HTTP/1.1 200 LEADING", ""
        case "get", ["/status/isFollower"]:
            return "HTTP/1.1 500 Not Following. State=LEADING", ""
        case ("crashbedrockjob" | "clearcrashedbedrockjobs") as verb, _:
            if connection is None or not connection.local:
                raise Refused("401 Unauthorized")
            if verb == "crashbedrockjob":
                server.blacklist.update(read_list(request.get("names")))
            else:
                server.blacklist.clear()
            return "200 OK", ""
    raise Refused("430 Unrecognized command")


def _authenticate(secret: str | None, connection: Connection | None, request: Request) -> None:
    """An extension of the protocol: a client proves that it knows the secret, by a challenge that is used once."""
    if secret is None or connection is None:
        raise Refused("430 Unrecognized command")
    challenge, connection.challenge = connection.challenge, secrets.token_hex(16)
    if not challenge or not hmac.compare_digest(request.get("proof").encode(), prove(secret, challenge).encode()):
        raise Refused("401 Unauthorized", ("challenge", connection.challenge))
    connection.trusted = True


def _status(server: Server) -> str:
    crashed = sorted(server.blacklist)
    status = {
        "commandCount": server.commands,
        "CommitCount": server.commit_count,
        "host": server.options.node_name,
        "isDetached": False,
        "isLeader": True,
        "peerList": [],
        "plugins": [
            {"name": "DB"},
            {"crashedBedrockJobList": crashed, "crashedBedrockJobs": len(crashed), "name": "Jobs"},
        ],
        "priority": 100,
        "queuedCommandList": [],
        "state": "LEADING",
        "version": f"headrace {__version__}",
        "waitingCount": len(server.waits),
    }
    return msgspec.json.encode(status).decode()


def _query(server: Server, batch: Batch, connection: Connection | None, request: Request, last: bool) -> None:
    if not server.options.allow_query:
        raise Refused("430 Unrecognized command", ("error", "queries are turned off"))
    query = Query(request, min(_timeout(request) / 1000, server.options.query_seconds))
    if server.stopping:
        raise Refused(STOPPING)
    query.last = last
    if connection is not None:
        connection.query = query
    # What was asked for before it must be there for it to see.
    batch.after_commit.append(lambda: server.queries.start(connection, query))
