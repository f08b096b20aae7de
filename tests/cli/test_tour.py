"""The demo and the examples: each is run as its reader would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import environment

EXAMPLES = Path(__file__).parents[2] / "examples"

SAYS = {
    "async_tasks.py": "sum of squares: 328350\n",
    "demo_app.py": "headrace.cli.demo_app:deliver\n",
    "isolated.py": "segfault: failed in the group 'crashed', crashes: 2\nthe worker is well: ['page-0.txt']\n",
    "recurring.py": "runs in a day: {'counter': 3, 'stock': 3}\nthe counter counts: 3\n",
    "quickstart.py": "characters sent: 5\n",
    "retries.py": "failed in the group 'no such order': order -1 does not exist\n",
    "test_your_tasks.py": "2 passed",
}


@pytest.mark.parametrize("example", sorted(file.name for file in EXAMPLES.glob("*.py")))
def test_an_example(example: str, tmp_path: Path) -> None:
    assert example in SAYS, "an example needs a line here that it prints"
    runner = ["-m", "pytest", "-p", "no:cacheprovider"] if example.startswith("test_") else []
    result = subprocess.run(
        [sys.executable, *runner, str(EXAMPLES / example)],
        env=environment(HEADRACE_STORE=f"sqlite:///{tmp_path}/jobs.db"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert SAYS[example] in result.stdout


def test_the_demo_loses_nothing(headrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    result = headrace("demo", TMPDIR=str(tmp_path), timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "'Hello, Ada!', from another process" in result.stdout
    assert "attempt 2: ConnectionError: https://example.org does not answer" in result.stdout
    assert "] 100 %" in result.stdout
    assert "kill -9" in result.stdout
    numbers = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines() if line[:1].islower())
    assert (numbers["enqueued"], numbers["done"], numbers["lost"]) == ("40", "40", "0")
    assert list(tmp_path.glob("headrace-demo-*")) == []
