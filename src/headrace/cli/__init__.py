"""The command line: `headrace COMMAND`. Each command lives in a module that is imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from headrace import __version__
from headrace.cli import exits
from headrace.errors import HeadraceError

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "worker": ("work", "Run the jobs of an app until told to stop."),
        "enqueue": ("enqueue", "Enqueue a job from the shell."),
        "demo": ("demo", "See headrace work, in a quarter of a minute."),
    },
    "Look": {
        "jobs": ("jobs", "List jobs, newest first."),
        "job": ("jobs", "Show all there is to know about a job."),
        "why": ("why", "Say why a job is not running, or what became of it."),
        "queues": ("queues", "Count the jobs of each queue; pause, resume and limit queues."),
        "lanes": ("lanes", "List lanes; set their limits and rates."),
        "peek": ("queues", "Show what stands in line in a queue."),
        "events": ("events", "Tell what happens to jobs, as it happens."),
        "top": ("top", "Watch queues, running jobs and failures live."),
        "workers": ("workers", "List the worker processes."),
        "failures": ("failures", "Count failed jobs by what went wrong."),
        "stats": ("stats", "Show how long jobs waited and ran, and what went wrong."),
        "metrics": ("metrics", "Print the figures of a store for Prometheus, or serve them."),
        "tags": ("tags", "List the most used tags."),
        "sql": ("sql", "Look at a SQLite or PostgreSQL store with SQL."),
        "when": ("when", "Explain a schedule and show its next runs."),
        "schedules": ("schedules", "List recurring jobs, pause, change and delete them."),
    },
    "Act": {
        "cancel": ("acts", "Cancel jobs."),
        "delete": ("acts", "Delete jobs and all trace of them."),
        "revive": ("acts", "Put failed or cancelled jobs back in line."),
        "requeue": ("acts", "Run jobs again that are done."),
        "edit": ("edit", "Change jobs that wait."),
        "take-back": ("acts", "Take running jobs away from their workers."),
        "block": ("blocks", "Keep the jobs of a task from running, on all workers; or list such tasks."),
        "unblock": ("blocks", "Let the jobs of a blocked task run again."),
        "purge": ("purge", "Delete finished jobs."),
        "drain": ("drain", "Move the jobs that wait to another store."),
        "log": ("outside", "Add a line to the history of a job."),
        "update": ("outside", "Change the data of a job."),
        "tag": ("tags", "Add or remove tags."),
        "track": ("tags", "Track jobs."),
        "untrack": ("tags", "Stop tracking jobs."),
    },
    "Check": {
        "check": ("check", "Check that the code to be deployed can run the jobs that wait."),
        "settings": ("settings", "Show and change what all workers of the store go by."),
        "audit": ("audit", "Show what operators have done, the newest first."),
        "doctor": ("doctor", "Examine the store and say what is wrong."),
        "copy": ("copy", "Copy a store into a file, a file into a store, or one store into another."),
        "migrate": ("migrate", "Create a store, or print the SQL that does."),
        "health": ("doctor", "For container health checks: is a worker of this host alive?"),
    },
    "Dialects": {
        "qless": ("qless", "Run on, and as, a Qless installation."),
        "bedrock": ("bedrock", "Run a Bedrock::Jobs-compatible server."),
    },
}
"""Sections of the help; in each, a command's name, its module here, and its line: `--help` imports none of them."""

_MODULES = {name: place for section in COMMANDS.values() for name, place in section.items()}


class _ReaderGone(Exception):
    """`headrace jobs | head`: the reader of the pipe has seen enough."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What a shell passes on may be any bytes; ids, names, words and URLs are text, in whatever command."""
        for text in args:
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise click.UsageError(f"{text!r} is not UTF-8 text.", ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"headrace.cli.{_MODULES[cmd_name][0]}")
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            close = get_close_matches(args[0], _MODULES, 1)
            if not close or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in exits.MEANINGS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what headrace itself raises becomes a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except HeadraceError as error:
            click.echo(f"headrace: {visible(str(error))}", err=True)
            ctx.exit(exits.exit_code_of(error))
        except BrokenPipeError:
            raise _ReaderGone from None  # Click would make an error of it


def visible(text: str) -> str:
    """Text that may come from a job, made safe for a terminal: control characters become visible.

    >>> visible("all" + chr(27) + "[2Jgone")
    'all\\\\x1b[2Jgone'
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", errors="backslashreplace").decode()
        for c in text
    )


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, message="headrace %(version)s")
def cli() -> None:
    """A job queue for Python: run workers, look at jobs, act on them.

    The store is the app's own where an app is given (as an argument or with --app, else in $HEADRACE_APP, else in
    pyproject.toml), else $HEADRACE_STORE, else sqlite:///headrace.db; --store goes before all of these. With --json
    every command speaks to programs.

    \b
    Example:
      headrace worker shop.tasks:app --queues mail,default
    """


def main(arguments: Sequence[str] | None = None, name: str = "headrace") -> NoReturn:
    """Run the command line, and end the process with its exit code.

    `arguments`: those of the process if not given. `name`: what help and usage errors call the program.
    """
    try:
        # Click alone would turn a closed pipe and Ctrl-C into its own exit codes and words.
        code = cli.main(None if arguments is None else list(arguments), prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nheadrace: interrupted.", err=True)
        code = exits.INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (_ReaderGone, BrokenPipeError):  # what is left in the buffer must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.OK
    sys.exit(code if isinstance(code, int) else exits.OK)
