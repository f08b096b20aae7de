"""Names of jobs on the wire and of tasks in Python. They are looked up, never evaluated.

A Clojure program writes `#'your-app.cache/clear`; the Python function of that name is `your_app.cache:clear`.
"""

from __future__ import annotations

VAR = "#'"
"""How Clojure's reader marks a reference to a function."""


def wire_name(task: str) -> str:
    """What is written for a task, so that a Clojure listener can resolve it.

    >>> wire_name("your_app.cache:clear")
    "#'your-app.cache/clear"
    >>> wire_name("some.ns/func-name"), wire_name("#'a/b"), wire_name("clear")
    ("#'some.ns/func-name", "#'a/b", 'clear')
    """
    if task.startswith(VAR):
        return task
    module, colon, function = task.partition(":")
    if colon and module and "/" not in task:
        return f"{VAR}{module}/{function}".replace("_", "-")
    return f"{VAR}{task}" if "/" in task else task


def python_name(job: str) -> str:
    """The Python function that a job names, as `module:function`; the name itself where it names none.

    >>> python_name("#'your-app.cache/clear")
    'your_app.cache:clear'
    >>> python_name("(fn [x] (println x))")
    '(fn [x] (println x))'
    """
    module, slash, function = job.removeprefix(VAR).partition("/")
    return f"{module}:{function}".replace("-", "_") if job.startswith(VAR) and slash else job


def likeness(name: str) -> str:
    """The same for all spellings under which a name may be found. The scripts compare these (see `scan.lua`).

    >>> likeness("#'your-app.cache/clear") == likeness("your_app.cache:clear") == "your_app.cache:clear"
    True
    """
    return name.removeprefix(VAR).replace("-", "_").replace("/", ":")
