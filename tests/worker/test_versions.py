"""The version of an app's code: as it says, or that of the package that it was installed with."""

from __future__ import annotations

import importlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import cli
from headrace.errors import ConfigurationError
from headrace.loading import path_of
from headrace.worker.versions import _of_file, version_of
from processes import eventually, worker_process

APP = "from headrace import Headrace\napp = Headrace('sqlite:///jobs.db')\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that packages are installed in."""
    before = set(sys.modules)
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    _of_file.cache_clear()
    yield site
    for name in set(sys.modules) - before:
        del sys.modules[name]


def installed(site: Path, package: str, version: str, record: str = "", origin: object = None) -> None:
    folder = site / f"{package}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (folder / "RECORD").write_text(record)
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))


def written(file: Path, text: str = APP) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    (file.parent / "__init__.py").touch()
    file.write_text(text)


def told(app: Headrace) -> str:
    return version_of(app, path_of(app))


def app_of(module: str) -> Headrace:
    return importlib.import_module(module).app  # type: ignore[no-any-return]


def test_the_app_says_its_version_itself(tmp_path: Path) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db", version="2026.11+5a1c")
    app.task(name="nap")(lambda: None)
    assert told(app) == "2026.11+5a1c"
    with app.worker():
        (worker,) = app.workers()
    assert worker.version == "2026.11+5a1c"
    app.close()


def test_a_package_of_another_name_has_the_version_of_its_module(site: Path) -> None:
    installed(site, "tasks_of_others", "9.9", "shopping/tasks.py,,\n")
    installed(site, "acme_shop", "1.4.2", "shop37/__init__.py,,\nshop37/tasks.py,sha256=x,12\n")
    written(site / "shop37" / "tasks.py")
    assert told(app_of("shop37.tasks")) == "1.4.2"


def test_a_package_that_is_installed_in_place_has_a_version(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "my project"
    written(source / "src" / "shop38" / "tasks.py")
    monkeypatch.syspath_prepend(str(source / "src"))
    url = source.as_uri()
    installed(site, "acme_elsewhere", "8.8", "x.pth,,\n", {"url": f"{url}-else", "dir_info": {"editable": True}})
    installed(site, "acme_copy", "7.7", "x.pth,,\n", {"url": url, "dir_info": {}})
    installed(site, "acme_shop", "1.5.dev0", "x.pth,,\n", {"url": url, "dir_info": {"editable": True}})
    assert told(app_of("shop38.tasks")) == "1.5.dev0"


def test_a_file_that_nothing_has_installed_has_no_version(site: Path) -> None:
    installed(site, "shop39", "1.0", "other/tasks.py,,\n")
    written(site / "shop39" / "tasks.py")
    assert told(app_of("shop39.tasks")) == ""


def test_damaged_packages_keep_no_worker_from_working(site: Path) -> None:
    installed(site, "damaged", "1.0", "x.pth,,\n")
    (site / "damaged-1.0.dist-info" / "direct_url.json").write_text("{")
    written(site / "shop40" / "tasks.py")
    assert told(app_of("shop40.tasks")) == ""


@pytest.mark.parametrize("version", ["", 2, "a\nb", "v" * 101])
def test_what_is_no_version_is_refused(version: object) -> None:
    with pytest.raises(ConfigurationError, match="is not a version"):
        Headrace("sqlite:///:memory:", version=version)  # type: ignore[arg-type]


def test_a_process_that_imports_newer_code_than_its_supervisor_tells_the_newer_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/jobs.db"
    text = "from headrace import Headrace\napp = Headrace(version='1.0')\n@app.task(name='nap')\ndef nap(): ...\n"
    (tmp_path / "shop42.py").write_text(text)
    app = Headrace(url)
    with worker_process("shop42:app", url, log=tmp_path / "worker.log") as worker:
        app.task(name="nap")(lambda: None).enqueue().result(timeout=60)
        assert [worker.version for worker in app.workers()] == ["1.0"]
        (tmp_path / "shop42.py").write_text(text.replace("1.0", "2.0.1"))
        worker.signal(signal.SIGHUP)
        eventually(lambda: [worker.version for worker in app.workers()] == ["2.0.1"], "the new process says so")
        app.tasks["nap"].enqueue().result(timeout=60)
    app.close()


def test_a_worker_process_tells_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/jobs.db"
    text = f"from headrace import Headrace\napp = Headrace({url!r}, version='1.4.2')\n"
    (tmp_path / "shop41.py").write_text(f"{text}@app.task(name='nap')\ndef nap(): ...\n")
    app = Headrace(url)
    with worker_process("shop41:app", url, log=tmp_path / "worker.log"):
        app.task(name="nap")(lambda: None).enqueue().result(timeout=60)
        assert [worker.version for worker in app.workers()] == ["1.4.2"]
        shown = CliRunner().invoke(cli, ["workers", "--store", url])
        one = CliRunner().invoke(cli, ["workers", "--store", url, app.workers()[0].name])
    assert [line.split()[1] for line in shown.output.splitlines()] == ["VERSION", "1.4.2"]
    assert re.search(r"^version\s+1\.4\.2\s*$", one.output, re.MULTILINE)
    app.close()
