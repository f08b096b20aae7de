"""Loads the SQL statements of a database, which stand in files by topic.

A statement follows a heading, `-- name: NAME`, and ends before the next one. A file without headings is one statement
with the name of the file. `{NAME}`, in capitals, stands for a number that Python knows by that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files

_HEADING = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_CONSTANT = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")


def load(package: str, folder: str, constants: Mapping[str, object]) -> dict[str, str]:
    """Read the statements of a folder, by name, without comments: the driver hashes the text at each use."""
    found: dict[str, str] = {}
    for entry in (files(package) / folder).iterdir():
        if entry.name.endswith(".sql"):
            for name, text in _split(entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")):
                if name in found:
                    raise ValueError(f"Two statements of {package} are named {name}.")
                found[name] = _CONSTANT.sub(lambda match: str(constants[match[1]]), _COMMENT.sub("", text).strip())
    return found


def _split(stem: str, text: str) -> Iterator[tuple[str, str]]:
    """The statements of a file. What comes before the first heading is about the file."""
    _, *parts = _HEADING.split(text)
    return zip(parts[::2], parts[1::2], strict=True) if parts else iter([(stem, text)])
