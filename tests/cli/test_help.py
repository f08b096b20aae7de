"""The command line explains itself, and quickly."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import CliRunner

from headrace.cli import COMMANDS, cli, exits
from processes import environment

NAMES = [name for section in COMMANDS.values() for name in section]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_teaches_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert re.search(r"Examples?\b", result.output)
    assert f"headrace {name}" in result.output


def walk(command: click.Command) -> Iterator[click.Command]:
    """A command, and all below it."""
    yield command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from walk(below)


EXAMPLES = sorted({line for each in walk(cli) for line in re.findall(r"(?m)^ +headrace (.+)", each.help or "")})


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_parsed(example: str) -> None:
    command: click.Command | None = cli
    words = ["headrace", *shlex.split(re.split(r" [|>] ", example)[0])]
    while isinstance(command, click.Group) and words[1:] and words[1][0] != "-":
        command, words = command.get_command(click.Context(command), words[1]), words[1:]
    assert command is not None
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("name", NAMES)
def test_the_list_of_commands_says_what_they_say_themselves(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    lines = {name: line for section in COMMANDS.values() for name, (_, line) in section.items()}
    assert (command.help or "").splitlines()[0] == lines[name]


@pytest.mark.parametrize("written", [["caf\udce9"], ["--store", "sqlite:///caf\udce9.db"], ["--json", "--x=\udce9"]])
@pytest.mark.parametrize("name", NAMES)
def test_arguments_that_are_no_text(name: str, written: list[str]) -> None:
    """What a shell passes on from a file name that is not UTF-8, say."""
    result = CliRunner().invoke(cli, [name, *written])
    assert result.exit_code == exits.USAGE
    assert result.stderr.endswith(f"{written[-1]!r} is not UTF-8 text.\n")


def test_an_argument_that_is_no_text_as_a_shell_passes_it() -> None:
    command = [sys.executable, "-m", "headrace", "job", b"caf\xe9"]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == exits.USAGE
    assert result.stderr.splitlines()[-1] == r"Error: 'caf\udce9' is not UTF-8 text."


def test_the_exit_codes_are_documented() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    for code, meaning in exits.MEANINGS.items():
        assert re.search(rf"^  {code} +{re.escape(meaning)}$", output, re.MULTILINE)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]])
def test_help_imports_no_command_and_nothing_heavy(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "headrace", *arguments]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    imported = {
        line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if line.startswith("import time")
    }
    assert "headrace.cli" in imported
    assert not imported & {
        "apsw",
        "msgspec",
        "rich",
        "asyncio",
        "multiprocessing",
        "headrace.app",
    }
    assert {name for name in imported if name.startswith("headrace.cli")} == {"headrace.cli", "headrace.cli.exits"}


def test_an_unknown_command_is_answered_with_the_closest() -> None:
    result = CliRunner().invoke(cli, ["wroker"])
    assert result.exit_code == exits.USAGE
    assert "No such command 'wroker'. Did you mean 'worker'?" in result.output


def test_an_unknown_command_like_no_other() -> None:
    result = CliRunner().invoke(cli, ["xyzzy"])
    assert result.exit_code == exits.USAGE
    assert "No such command 'xyzzy'." in result.output


def test_the_version(headrace: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    from headrace import __version__

    result = headrace("--version")
    assert (result.returncode, result.stdout) == (0, f"headrace {__version__}\n")


def test_without_a_command_it_helps(headrace: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    result = headrace()
    assert result.returncode == exits.USAGE
    assert "Usage: headrace" in result.stdout + result.stderr
