"""Decoders are made before threads use them: msgspec crashes a process in which two threads meet a new struct."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment

SOURCE = Path(__file__).parents[2] / "src" / "headrace"

AT_ONCE = """
import sys, threading
sys.setswitchinterval(1e-6)
{prepare}
barrier = threading.Barrier(8)
survivors = []

def go():
    barrier.wait()
    {act}
    survivors.append(True)

threads = [threading.Thread(target=go) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(survivors) == 8
"""
FAILED_JOBS = (
    "from headrace.records import Kind, Outcome; from headrace.worker.outcomes import _checked; "
    "outcome = Outcome(ref=1, token=2, id='a', kind=Kind.FAILED)",
    "assert _checked(outcome) == outcome",
)
ISOLATED_JOBS = (
    "import msgspec; from headrace.worker.zygote import Words, decode_words; "
    "said = msgspec.msgpack.encode(Words(pid=3))",
    "assert decode_words(said).pid == 3",
)
OWN_STRUCTS = (
    "from msgspec import Struct; from headrace.values.codec import decoder_of; Mail = type('Mail', (Struct,), "
    "{'__annotations__': {f'field_{number}': 'int' for number in range(50)}})",
    "assert decoder_of(list[Mail]).decode(b'[]') == []",
)


@pytest.mark.parametrize(
    ("prepare", "act"), [FAILED_JOBS, ISOLATED_JOBS, OWN_STRUCTS], ids=["failed", "isolated", "own structs"]
)
def test_threads_that_decode_at_once_survive(prepare: str, act: str) -> None:
    for _ in range(3):  # one crash in two attempts where a decoder is made by the threads
        program = AT_ONCE.format(prepare=prepare, act=act)
        subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)


def test_no_decoder_is_made_on_the_way() -> None:
    """Neither `decode(..., type=...)` nor `convert`, which make one where they are called."""
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in SOURCE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and makes_a_decoder(call)
    ]
    assert found == []


def makes_a_decoder(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    typed = any(keyword.arg == "type" for keyword in call.keywords)
    return name.endswith("msgspec.convert") or (name.split(".")[-1] == "decode" and typed)
