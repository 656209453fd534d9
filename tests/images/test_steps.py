"""The steps of the Dockerfile, run into a folder: what an image holds, and that it suffices.

No container engine is needed. The tree is read-only and the process has no capabilities, so it
may write where its owner says, which is the temporary directory alone.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.build_context import ROOT, cloned, copied, sent

# What each image must be able to import: its commands, its health check and what they import late.
MODULES = {
    "gateway": (
        "services.gateway.__main__",
        "uvicorn",
        "uvloop",
        "httptools",
        "kernelzoo.store.migrate",
    ),
    "compile": (
        "workers.app",
        "workers.compiling",
        "workers.learning",
        "workers.modelling",
        "workers.alive",
        "celery.__main__",
    ),
    "aggregate": ("workers.app", "workers.aggregating", "workers.maintenance", "workers.heartbeat"),
    "fleet": ("workers.fleet.__main__", "workers.fleet.alive"),
}
# And what has no place in it.
ABSENT = {
    "gateway": ("tvm", "playwright", "numpy", "pip", "pytest"),
    "compile": ("playwright", "fastapi", "pip", "pytest"),
    "aggregate": ("tvm", "playwright", "fastapi", "pip", "pytest"),
    "fleet": ("tvm", "celery", "psycopg", "numpy", "pip", "pytest"),
}
PINS = re.compile(r"^(\S+)==(\S+?)(?: |$)(?:; ([^\\]*))?", re.MULTILINE)
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="kernelzoo-image-") as name:
        yield Path(name)


def _install(*arguments: str | Path, source: Path = ROOT) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [source / "docker" / "install.sh", *arguments]
    done = subprocess.run(
        command, cwd=source, env={**os.environ, "PATH": path}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def _protect(tree: Path, *, writable: bool) -> None:
    subprocess.run(["chmod", "-R", "u+w" if writable else "a-w", tree], check=True)


def _python(tree: Path, program: str, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program as the image's user would: no rights, no home, one place to write."""
    rights = UNPRIVILEGED if os.geteuid() == 0 else ()
    environment = {
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "KERNELZOO_DATABASE_URL": "postgresql:///none",
        "KERNELZOO_REDIS_URL": "redis://127.0.0.1:1/0",
        "KERNELZOO_OPERATOR_KEY": "o" * 32,
        "KERNELZOO_TOKEN_SECRET": "t" * 32,
    }
    return subprocess.run(
        [*rights, tree / "venv" / "bin" / "python", "-c", program],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "image",
    ["fleet", *(pytest.param(name, marks=pytest.mark.slow) for name in MODULES if name != "fleet")],
)
def test_an_image_holds_what_its_process_needs_and_nothing_else(
    image: str, folder: Path, tmp_path: Path
) -> None:
    tree = folder / "kernelzoo"
    _install("packages", image, tree)
    _install("code", tree)
    _protect(tree, writable=False)
    try:
        imported = _python(tree, f"import {', '.join(MODULES[image])}", tmp_path)
        assert imported.returncode == 0, imported.stderr
        present = (
            "from importlib.util import find_spec\n"
            f"print([name for name in {ABSENT[image]} if find_spec(name)])"
        )
        assert _python(tree, present, tmp_path).stdout == "[]\n"
        written = _python(tree, "open('kernelzoo/new.py', 'w')", tmp_path)
        assert "PermissionError" in written.stderr
    finally:
        _protect(tree, writable=True)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_client_is_built_of_what_its_stage_copies(folder: Path) -> None:
    context = sent(cloned(), (ROOT / ".dockerignore").read_text())
    source = folder / "src"
    for path in copied("client", (ROOT / "docker" / "Dockerfile").read_text(), context):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, source / path)
    (source / "client" / "node_modules").symlink_to(ROOT / "client" / "node_modules")
    _install("client", folder / "client", source=source)
    for name in ("sdk.json", "console.js", "guide/runbook.html", "guide/adr", "types/sdk"):
        assert (folder / "client" / name).exists(), name


@pytest.mark.parametrize("image", MODULES)
def test_an_image_installs_the_versions_that_the_tests_ran_with(image: str) -> None:
    tested = set(PINS.findall((ROOT / "requirements.lock").read_text()))
    lock = ROOT / "docker" / "requirements" / f"{image}.lock"
    installed = PINS.findall(lock.read_text())
    assert installed
    names = {(name, version) for name, version, _ in tested}
    assert [pin for pin in installed if pin[:2] not in names] == [], "run `make lock`"
