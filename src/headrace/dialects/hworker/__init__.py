"""hworker: a persistent at-least-once queue in a Redis list and a hash, shared with programs in any language.

Its own interface is here; as a store for `@app.task`, the worker and the command line it is `hworker+redis://host/0?name=mail`.

    from headrace.dialects import hworker

    def send(state, job: dict):
        state["sent"] += 1
        return hworker.Success()

    mail = hworker.create("mail", send, state={"sent": 0})
    mail.queue({"to": "ada@example.org"})
    threading.Thread(target=mail.monitor, daemon=True).start()
    mail.worker()
"""

from __future__ import annotations

from headrace.errors import ConfigurationError

try:
    from headrace.dialects.hworker.api import Hworker, create
    from headrace.dialects.hworker.store import HworkerStore
except ModuleNotFoundError as missing:
    if missing.name != "redis":
        raise
    raise ConfigurationError(
        "Stores on Redis need the redis package. Install it with: pip install 'headrace[redis]'"
    ) from missing
from headrace.dialects.hworker.hands import Failure, Result, Retry, Success

__all__ = ["Failure", "Hworker", "HworkerStore", "Result", "Retry", "Success", "create"]
