"""The documentation says what is true: its examples run, and every refusal has a sentence of the document."""

from __future__ import annotations

import re
import sys
import threading
import types
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.dialects.workkit import Schedule, WorkKitStore
from headrace.store.contract import Facet
from processes import eventually
from store.redis.servers import Server

from .scene import Scene

PAGE = (Path(__file__).parents[3] / "docs" / "dialects" / "workkit.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## What a schedule can't carry")[2]
ROWS = {
    row[0].strip(): " ".join(row) for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TABLE, re.MULTILINE)
}


@pytest.mark.parametrize("facet", sorted(set(Facet) - WorkKitStore.facets))
def test_every_missing_facet_is_named_there(facet: Facet) -> None:
    assert facet.value in " ".join(ROWS.values()).lower()


def test_the_examples_run(
    server: Server, scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, function in (("cache", "clear"), ("user", "activate")):
        module = types.ModuleType(f"your_app.{name}")
        exec(f"def {function}(email: str = '') -> None: ...", vars(module))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    package = types.ModuleType("your_app")
    vars(package).update(cache=sys.modules["your_app.cache"], user=sys.modules["your_app.user"])
    monkeypatch.setitem(sys.modules, "your_app", package)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        code = block.replace("redis://127.0.0.1:6379/0", server.url).replace("redis://127.0.0.1:6379/", server.url)
        code = code.replace("app-tasks", scene.name)
        if "s.listen()" not in code:
            exec(code, names)
            continue
        assert len(scene.jobs) == 8
        exec(code.partition("s.listen()")[0], names)
        s = names["s"]
        assert isinstance(s, Schedule)
        thread = threading.Thread(target=s.listen)
        thread.start()
        s.add_now("some.ns/func-name", 1, 2)
        eventually(lambda: len(scene.jobs) == 7, "the end of what was due")
        s.close()
        thread.join(20)
    assert "1 2" in capsys.readouterr().out
    for value in names.values():
        if isinstance(value, Headrace | Schedule):
            value.close()
