"""How the script is put together, and what it may be used for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.dialects.qless import scripts
from headrace.dialects.qless.scripts import library, script

from .recorder import Recorder

FOLDER = Path(scripts.__file__).parent / "lua"
LUA = {str(path.relative_to(FOLDER)): path.read_text("utf-8") for path in FOLDER.rglob("*.lua")}


def test_every_module_is_used_short_and_commented() -> None:
    modules = {"base", "dispatch", "commands/manage", "store/dispatch"}
    modules |= {*scripts.CLASSES.values(), *scripts.STORE.values()}
    assert LUA.keys() == {f"{name}.lua" for name in modules | {f"commands/{name}" for name in scripts.COMMANDS}}
    for name, text in LUA.items():
        assert text.startswith("-- "), name
        assert len(text.splitlines()) < 400, name


def test_comments_are_on_lines_of_their_own_and_stripped() -> None:
    for name, text in LUA.items():
        for line in text.splitlines():
            assert "--" not in line or line.lstrip().startswith("--"), (name, line)
    for text in (script(), library()):
        assert not re.search(r"^\s*--", text, re.MULTILINE)


def test_every_command_has_its_contract_in_a_comment() -> None:
    text = "\n".join(text for name, text in LUA.items() if name.startswith("commands/"))
    names = re.findall(r"^commands\['([\w.]+)'\] = function", text, re.MULTILINE) + list(scripts.COMMANDS)
    assert len(names) == 37
    for name in names:
        assert re.search(rf"^ *-- {re.escape(name)}\b", text, re.MULTILINE), name


def test_the_library_can_be_used_inside_other_scripts(qless: Recorder) -> None:
    """Put a job into two queues' worth of places in one step: a script of one's own, with our classes."""
    own = """
    local now = tonumber(ARGV[1])
    for i = 2, #ARGV do
      Qless.Put.put(now, 'composer', 'q', ARGV[i], 'K', '{}', 0)
    end
    return {Qless.Queue.length('q'), Qless.Queue.counts(now, 'q').waiting}
    """
    assert qless.redis.eval(library() + own, 0, "5", "a", "b", "c") == [3, 3]
    assert len(qless.json("pop", 6, "q", "w", 9)) == 3


def test_the_composed_script_of_the_page_works(qless: Recorder) -> None:
    page = (Path(__file__).parents[3] / "docs" / "dialects" / "qless.md").read_text("utf-8")
    (own,) = re.findall(r"<<'LUA' > move-all\.lua\n(.*?)\n    LUA$", page, re.DOTALL | re.MULTILINE)
    for jid in "abc":
        qless("put", 1, "w", "from", jid, "K", '{"n": []}', 0)
    qless.redis.eval(library() + own, 0, "5", "from", "to")
    assert qless.zset("ql:q:to-work").keys() == {"a", "b", "c"}
    assert qless("length", 6, "from") == 0
    assert qless.redis.hget("ql:j:a", "data") == '{"n": []}'


def test_no_globals_are_made(qless: Recorder) -> None:
    with pytest.raises(Exception, match="nope"):
        qless.redis.eval(library() + "return nope", 0)
    for name in ("Qless", "classes", "call", "required"):
        with pytest.raises(Exception, match=name):
            qless.redis.eval(f"return {name}", 0)
