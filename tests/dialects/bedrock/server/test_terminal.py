"""`headrace bedrock serve`, and the look from the terminal at what it serves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialects.bedrock.harness import PATIENCE, SOURCE, Wire
from dialects.bedrock.states import create
from store.redis.tls import CERTIFICATE

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}


def serve(path: Path, *options: str) -> tuple[subprocess.Popen[bytes], int]:
    """The command as a process, and its port."""
    command = [sys.executable, "-m", "headrace", "bedrock", "serve", "--listen", "127.0.0.1:0", "--db", str(path)]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(b":")[2])


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    process, port = serve(tmp_path / "jobs.db", "--node-name", "shop1", "--durability", "host", "--query-rows", "3")
    yield port
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"stopping" in output


def headrace(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *arguments], capture_output=True, check=False, env=ENVIRONMENT, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_serving_and_looking(port: int) -> None:
    url = f"bedrock://127.0.0.1:{port}"
    with Wire(port) as wire:
        job = create(wire, "mail/Welcome", data={"to": "ada@example.org"})
        assert wire.ask("Ping").headers["nodeName"] == "shop1"
        many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 4) SELECT x FROM n;"
        assert wire.ask("Query", query=many).status == "402 Bad query"
    (shown,) = json.loads(headrace("jobs", "--store", url, "--json"))["jobs"]
    assert (shown["id"], shown["task"], shown["queue"], shown["state"]) == (str(job), "Welcome", "mail", "ready")
    assert "ada@example.org" in headrace("job", str(job), "--store", url)
    assert "mail" in headrace("queues", "--store", url)
    doctor = headrace("doctor", "--store", url)
    assert "1 job named 'mail/Welcome' without a retryAfter" in doctor
    assert "no live worker" not in doctor  # Bedrock does not know its workers


def test_no_query(tmp_path: Path) -> None:
    process, port = serve(tmp_path / "jobs.db", "--no-query", "--allow-write-query")
    try:
        with Wire(port) as wire:
            assert wire.ask("Query", query="SELECT 1;").status == "430 Unrecognized command"
    finally:
        process.kill()
        process.communicate()


def test_a_secret_from_a_file_and_tls(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery\n")
    certificate, key = map(str, CERTIFICATE)
    safe = ["--secret-file", str(secret), "--tls-cert", certificate, "--tls-key", key]
    process, port = serve(tmp_path / "jobs.db", *safe)
    url = f"bedrock://:correct%20horse%20battery@127.0.0.1:{port}?tls=yes&ca={certificate}"
    try:
        assert json.loads(headrace("jobs", "--store", url, "--json"))["jobs"] == []
    finally:
        process.kill()
        process.communicate()
