"""An environment for each peer, so that none decides what another is installed with."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ADAPTERS = Path(__file__).parent / "adapters"


class Environments:
    """Virtual environments in a folder; one is made anew when what it should have changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, adapter: str) -> Path:
        """The interpreter that runs an adapter."""
        requirements = _constant(ADAPTERS / f"{adapter}.py", "REQUIREMENTS")
        return self.install(adapter, requirements) if requirements else Path(sys.executable)

    def install(self, name: str, requirements: list[str]) -> Path:
        place = self.folder / name
        python, ready = place / "bin" / "python", place / "requirements.txt"
        wanted = "\n".join([*requirements, ""])
        if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
            return python
        shutil.rmtree(place, ignore_errors=True)
        print(f"  installing {' '.join(requirements)}", file=sys.stderr, flush=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        for command in ([sys.executable, "-m", "venv", place], install):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"not installed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        ready.write_text(wanted, encoding="utf-8")
        return python


def _constant(path: Path, name: str) -> list[str]:
    """Read from the source: the adapter itself can be imported only where its peer is installed."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return list(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    raise LookupError(f"{path} has no {name}")
