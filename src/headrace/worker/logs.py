"""The log of a worker: lines that name the job they belong to, for people or as JSON.

An app that has set up logging itself keeps its handlers. Only where there is none does a worker add one.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime

from msgspec import Struct
from msgspec.json import Decoder, encode

from headrace.logging import JobFilter
from headrace.values.text import iso

_HEADRACE = logging.getLogger("headrace")

jobs_log = logging.getLogger("headrace.jobs")
"""What became of a run, from the process that ran it: done (at `LogChoice.job_level`), again, failed."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has. The rest was given as `extra=`."""


class LogChoice(Struct, frozen=True):
    """How a worker logs: what its command line said, for the processes that it starts."""

    level: str = "INFO"
    as_json: bool = False
    jobs: bool = False
    """A line per finished job at the level `info` instead of `debug`."""

    @property
    def job_level(self) -> int:
        return logging.INFO if self.jobs else logging.DEBUG


class LineFormatter(logging.Formatter):
    """For people: one line per record and a traceback below it, control characters made visible."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        message, job_id = record.getMessage(), record.__dict__.get("job_id")
        job = f" [{job_id} {record.__dict__['task']}]" if job_id and job_id not in message else ""
        line = f"{time} {record.levelname[0]} {record.process}{_visible(job)} {_visible(message)}"
        if record.exc_info:
            line += "".join(f"\n{_visible(part)}" for part in self.formatException(record.exc_info).splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """For programs: one JSON object per line, with everything that was given as `extra=`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": iso(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD and value != ""}
        return json.dumps({**extra, **fields}, default=str)


def _visible(text: str) -> str:
    """A job's name or message must not move the terminal's cursor or fake a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


job_level = logging.DEBUG
"""The level of a line per finished job, as chosen."""
decode_choice = Decoder(LogChoice | None).decode
"""Reads an `encoded_choice`."""

_chosen: LogChoice | None = None
_own: logging.Handler | None = None


def encoded_choice() -> str:
    """What `prepare_logging` was given, if it was called, for a process that this one starts."""
    return encode(_chosen).decode()


def prepare_logging(choice: LogChoice) -> None:
    """Send headrace's own lines to standard error. The root logger is left to the app, which is imported next."""
    global job_level, _chosen, _own  # noqa: PLW0603
    job_level = choice.job_level
    _chosen = choice
    _own = logging.StreamHandler(sys.stderr)
    _own.addFilter(JobFilter())
    _own.setFormatter(JsonFormatter() if choice.as_json else LineFormatter())
    _HEADRACE.handlers[:] = [_own]
    _HEADRACE.setLevel(choice.level.upper())


def finish_logging() -> None:
    """The app is imported: if it has handlers of its own they get everything, else the app's lines go where ours go."""
    if _chosen is None or _own is None:
        return
    _HEADRACE.removeHandler(_own)
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_own)
        root.setLevel(_chosen.level.upper())
    for handler in root.handlers:
        if not any(isinstance(found, JobFilter) for found in handler.filters):
            handler.addFilter(JobFilter())
