"""GearMonkey: a protocol for job queues in Redis. headrace is a client and a worker of it, and a store on it.

    gearmonkey+redis://host:6379/0

`Client` and `Worker` are the protocol's own: functions named by text, inputs and outputs that are text.
`GearMonkeyStore` puts `@app.task` functions and the ordinary worker among the same peers.
docs/dialects/gearmonkey.md has it all.
"""

from headrace.errors import ConfigurationError

try:
    import redis as _redis  # noqa: F401
except ModuleNotFoundError as missing:
    raise ConfigurationError(
        "GearMonkey needs the redis package. Install it with: pip install 'headrace[redis]'"
    ) from missing

from headrace.dialects.gearmonkey.client import Client, Event, JobError, JobInfo, JobTimeout
from headrace.dialects.gearmonkey.protocol import OPT_BLOCKING, OPT_ROLLCALL, Option, Priority, Status
from headrace.dialects.gearmonkey.store import GearMonkeyStore
from headrace.dialects.gearmonkey.worker import Worker

__all__ = [
    "OPT_BLOCKING",
    "OPT_ROLLCALL",
    "Client",
    "Event",
    "GearMonkeyStore",
    "JobError",
    "JobInfo",
    "JobTimeout",
    "Option",
    "Priority",
    "Status",
    "Worker",
]
