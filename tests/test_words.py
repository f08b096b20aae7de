"""One word for one thing: names that were given up do not come back. docs/glossary.md has the words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.cli import COMMANDS
from headrace.store.settings import DEFINITIONS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headrace"

MODULES = {
    "arrival": "values/roundtrip",
    "clock": "values/clock",
    "codec": "values/codec",
    "declared": "worker/reconcile",
    "glob": "values/glob",
    "handle": "job",
    "ids": "values/ids",
    "names": "values/names",
    "recurring": "schedules",
    "rules": "schedule/rules",
    "settings": "store/settings",
    "spoken": "values/text",
    "stats": "store/stats",
    "ticks": "schedule/next_runs",
    "turns": "options",
    "when": "values/durations",
    "store/pieces": "store/batches",
    "store/pokes": "store/wakeup",
    "store/rules": "store/limits",
    "store/told": "store/history",
    "store/redis/waiter": "store/redis/wakeup",
    "store/sqlite/audience": "store/sql/events",
    "store/sqlite/bell": "store/sqlite/wakeup",
    "store/sqlite/circumstances": "store/sql/why",
    "store/sqlite/client": "store/sql/put",
    "store/sqlite/handing": "store/sql/take",
    "store/sqlite/line": "store/sql/admission",
    "store/sqlite/reads": "store/sql/find",
    "store/sqlite/ticking": "store/sql/schedules",
    "store/sqlite/upkeep": "store/sql/sweep",
    "store/sqlite/worker": "store/sql/settle",
}
"""Modules of 0.1, and where what they held lives now."""

NAMES = {
    "Bell": "a waiter of the store",
    "Bells": "WaiterMap",
    "Ear": "Waiter",
    "Gong": "a waiter of the store",
    "Happening": "Event",
    "HistoryLine": "HistoryEntry",
    "Nap": "a waiter of the store",
    "Otherwise": "Redo",
    "Poll": "a waiter of the store",
    "Standing": "Placement",
    "glance": "try_read_only",
    "time_out": "take_back",
}
"""Classes, functions and attributes, and what they are called now."""

NAMES_OF_WORKERS = {
    "_heed": "_apply_reply",
    "_judge": "_apply_verdicts",
    "_told": "_news_pending",
    "errand": "lend_thread",
    "makes_way": "recycling",
}
"""Names that have another meaning elsewhere."""

NAMES_OF_DIALECTS = {
    "Command": "a script that is sent as it is (`command`)",
    "Request": "a script with `keys`",
    "Work": "`Requests` (bedrock), `Stepwise` (a generator of scripts), `Working` (a function of a worker's)",
}
"""One kind of operation per store. In bedrock/server a request is what a client sends."""


def test_no_module_is_where_it_was() -> None:
    back = {old: new for old, new in MODULES.items() if (SOURCE / f"{old}.py").exists()}
    assert back == {}
    gone = {new for new in MODULES.values() if not (SOURCE / f"{new}.py").exists()}
    assert gone == set(), "these have moved on: say where"


def test_no_name_comes_back() -> None:
    files = [path for folder in ("src", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert dict(used(NAMES, files)) == {}
    assert dict(used(NAMES_OF_WORKERS, (SOURCE / "worker").rglob("*.py"))) == {}
    server = SOURCE / "dialects" / "bedrock" / "server"
    dialects = [path for path in (SOURCE / "dialects").rglob("*.py") if server not in path.parents]
    assert dict(used(NAMES_OF_DIALECTS, dialects)) == {}


def used(given_up: dict[str, str], files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Where the code of these files has a name that was given up, and what it is called now."""
    words = re.compile(rf"\b(?:{'|'.join(given_up)})\b")
    for path in files:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if words.search(text) else ():
            name = getattr(node, "name", None) or getattr(node, "attr", None) or getattr(node, "id", None)
            if name in given_up:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', '')} {name}", given_up[name]


def test_a_name_that_comes_back_is_found() -> None:
    file = ROOT / "tests" / "test_words.py"
    assert [found for _, found in used({"test_no_name_comes_back": "x"}, [file])] == ["x"]


def test_docs_use_no_old_names() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found = {
        (page.name, word)
        for page in pages
        for code in re.findall(r"`([^`\n]+)`", page.read_text())
        for word in re.findall(r"\w+", code)
        if word in NAMES
    }
    assert found == set()


def test_people_meet_no_old_words() -> None:
    commands = {name for group in COMMANDS.values() for name in group}
    assert "take-back" in commands
    assert "time-out" not in commands
    assert {"heartbeat", "failed-history-count"} & DEFINITIONS.keys() == set()
