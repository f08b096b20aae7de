"""`make matrix`: the tests of PostgreSQL on every version that is there, and a table of how they went."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

from store.postgres.servers import programs

FOLDERS = ("tests/store/postgres", "tests/conformance", "tests/worker", "tests/app")
WANTED = ("15", "16", "18")
"""The oldest that is supported, and those that a wheel has."""
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed")


def run(version: str, options: list[str]) -> tuple[int, dict[str, int], float]:
    """The exit code, how many tests ended how, and how long it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-k", "postgres", *FOLDERS, *options]
    environment = {**os.environ, "HEADRACE_TEST_POSTGRES": version}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stdout)
    last = done.stdout.strip().rpartition("\n")[2]
    counts = {outcome: int(found[1]) for outcome in OUTCOMES if (found := re.search(rf"(\d+) {outcome}", last))}
    return done.returncode, counts, time.monotonic() - began


def main() -> int:
    rows, worst = [], 0
    for version in sorted({*WANTED, *programs()}, key=int):
        if version not in programs():
            rows.append(f"| {version} | not installed |" + " |" * len(OUTCOMES))
            continue
        code, counts, seconds = run(version, sys.argv[1:])
        worst = max(worst, code)
        rows.append(" | ".join([f"| {version}", f"{seconds:.0f} s", *(str(counts.get(o, 0)) for o in OUTCOMES)]) + " |")
    print("| PostgreSQL | time |", " | ".join(OUTCOMES), "|")
    print("| --- " * (2 + len(OUTCOMES)) + "|")
    print("\n".join(rows))
    return worst


if __name__ == "__main__":
    sys.exit(main())
