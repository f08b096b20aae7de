"""Log lines that say which job they belong to."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from headrace.worker.context import find_current


class JobFilter(logging.Filter):
    """Puts the current job's id and task on every record, the application's own included."""

    def filter(self, record: logging.LogRecord) -> bool:
        run = find_current(None)
        record.job_id = run.id if run is not None else ""
        record.task = run.task if run is not None else ""
        return True


class LineFormatter(logging.Formatter):
    """For people: one line per record, control characters made visible."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        job = f" [{record.__dict__['job_id']} {record.__dict__['task']}]" if record.__dict__.get("job_id") else ""
        line = f"{time} {record.levelname[0]} {record.process}{job} {_visible(record.getMessage())}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """For machines: one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        for name in ("job_id", "task"):
            if record.__dict__.get(name):
                fields[name] = record.__dict__[name]
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _visible(text: str) -> str:
    """A job's name or message must not move the terminal's cursor or fake a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_chosen = ""


def chosen_logging() -> str:
    """What `set_up_logging` was told, for a process that this one starts; empty if it was not called."""
    return _chosen


def set_up_logging_as(chosen: str) -> None:
    """Log as the process did that started this one."""
    if chosen:
        level, _, form = chosen.partition(" ")
        set_up_logging(level, as_json=form == "json")


def set_up_logging(level: str, *, as_json: bool) -> None:
    """Send everything to standard error, with the job it belongs to."""
    global _chosen  # noqa: PLW0603
    _chosen = f"{level} {'json' if as_json else 'text'}"
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
