"""The files in deploy/ and the commands of docs/deployment.md: they parse, their flags exist, their times fit."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from headrace.cli import cli, exits
from headrace.metrics.table import METRICS

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "headrace.service"
IMAGE = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
KNOWN = cli.list_commands(click.Context(cli))
TO_END = 5
"""Seconds after its grace when a supervisor kills what has not ended."""


def parsed(arguments: list[str]) -> dict[str, Any]:
    """The options of a command of headrace's, parsed as it would; a usage error if there is no such flag."""
    name, command, rest = cli.resolve_command(click.Context(cli), arguments)
    assert name is not None
    assert command is not None
    return command.make_context(name, rest).params


def unit() -> dict[str, dict[str, str]]:
    reader = configparser.ConfigParser(interpolation=None, strict=True)
    reader.optionxform = str  # type: ignore[assignment, method-assign]
    reader.read_string(UNIT.read_text(encoding="utf-8"))
    return {section: dict(reader[section]) for section in reader.sections()}


def seconds(text: str) -> int:
    assert re.fullmatch(r"\d+s", text), text
    return int(text[:-1])


def instruction(name: str) -> Any:
    """What a Dockerfile says in the form of a list."""
    (found,) = re.findall(rf"^{name} (\[.*\])$", IMAGE, re.MULTILINE)
    return json.loads(found)


def manifest(name: str) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8"))


def container(name: str) -> dict[str, Any]:
    (found,) = manifest(name)["spec"]["template"]["spec"]["containers"]
    return found


def commands_of_the_page() -> Iterator[str]:
    """Whole commands: in blocks of their own, or in backquotes with something after the name of the command."""
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    for found in re.findall(r"`(headrace \w[^`]*)`|^    (headrace .*)$", text, re.MULTILINE):
        yield " ".join("".join(found).split())


def test_the_service_gives_jobs_the_time_that_the_worker_does() -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/headrace")
    options = parsed(arguments)
    assert seconds(service["TimeoutStopSec"]) > options["grace"] / 1000 + TO_END
    assert service["RestartPreventExitStatus"] == str(exits.CONFIGURATION)
    assert (service["Type"], service["KillMode"]) == ("notify", "mixed")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_with_the_service(tmp_path: Path) -> None:
    """But that a machine without the shop lacks its program."""
    there = tmp_path / UNIT.name
    there.write_text(UNIT.read_text(encoding="utf-8").replace("/srv/shop/.venv/bin/headrace", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(there)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Failed to" in done.stderr and there.name not in done.stderr:
        pytest.skip(f"systemd-analyze does not run here: {done.stderr.strip()}")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_runs_a_worker_as_process_1_and_not_as_root() -> None:
    assert instruction("ENTRYPOINT") == ["headrace"]
    assert parsed(instruction("CMD"))["app_path"] == "shop.tasks:app"
    assert parsed(instruction("HEALTHCHECK .* CMD")[1:])["queues"] is None
    (user,) = re.findall(r"^USER (\d+):\d+$", IMAGE, re.MULTILINE)
    assert int(user) > 0


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_one_object_of_kubernetes(path: Path) -> None:
    (found,) = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    assert {"apiVersion", "kind", "metadata", "spec"} == found.keys()


def test_a_pod_gives_jobs_the_time_that_the_worker_does() -> None:
    options = parsed(container("worker.yaml")["args"])
    pod = manifest("worker.yaml")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > options["grace"] / 1000 + TO_END
    limit = int(container("worker.yaml")["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    assert options["processes"] * options["max_memory"] < limit


@pytest.mark.parametrize(("name", "flag"), [("worker.yaml", "metrics"), ("metrics.yaml", "listen")])
def test_probes_ask_at_the_port_where_metrics_are_served(name: str, flag: str) -> None:
    there = container(name)
    port = parsed(there["args"])[flag].rpartition(":")[2]
    (declared,) = there["ports"]
    scraped = manifest(name)["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    assert {port, str(declared["containerPort"]), scraped} == {port}
    probes = [there[each]["httpGet"] for each in there if each.endswith("Probe")]
    assert {probe["port"] for probe in probes} == {declared["name"]}
    assert {probe["path"] for probe in probes} == {"/healthz", "/readyz"}


def test_autoscalers_know_the_workers_and_a_metric_that_exists() -> None:
    workers = manifest("worker.yaml")["metadata"]["name"]
    (trigger,) = manifest("keda.yaml")["spec"]["triggers"]
    (metric,) = manifest("hpa.yaml")["spec"]["metrics"]
    assert manifest("keda.yaml")["spec"]["scaleTargetRef"]["name"] == workers
    assert manifest("hpa.yaml")["spec"]["scaleTargetRef"]["name"] == workers
    (asked,) = re.findall(r"headrace_\w+", trigger["metadata"]["query"])
    assert metric["external"]["metric"]["name"] == asked
    assert asked in METRICS
    assert asked in PAGE


@pytest.mark.parametrize("command", sorted(set(commands_of_the_page())))
def test_a_command_of_the_page_parses(command: str) -> None:
    _, *arguments = shlex.split(command.replace("...", ""))
    assert arguments[0] in KNOWN
    if len(arguments) > 1:
        parsed(arguments)
