"""The advice on sizes reads what it advises on."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sizes as advised
from sizes import ROOT, over, sizes_of_lua_functions


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("local function f(x)\n  if x then return 1 end\nend\n", {"x.lua f": 3}),
        ("f(function()\n  repeat x() until y\nend)", {"x.lua line 1": 3}),
        ("m = function()\n  if x then\n    function f()\n    end\n  end\nend", {"x.lua line 1": 4, "x.lua f": 2}),
        (
            "-- end of function\nlocal s = 'end'\nfunction a.b()\n  for i = 1, 2 do\n    c()\n  end\nend",
            {"x.lua a.b": 5},
        ),
    ],
)
def test_the_advice_reads_lua(text: str, sizes: dict[str, int]) -> None:
    assert dict(sizes_of_lua_functions("x.lua", text)) == sizes


def test_only_what_is_longer_than_advised_is_named() -> None:
    assert list(over("lines", [("b", 4), ("a", 3), ("c", 5)], 3)) == [
        "b: 4 lines, 3 are advised",
        "c: 5 lines, 3 are advised",
    ]


def test_the_advice_fails_nothing() -> None:
    printed = subprocess.run([sys.executable, ROOT / "tests" / "sizes.py"], check=True, capture_output=True, text=True)
    assert printed.stdout.splitlines() == list(advised.advice())
