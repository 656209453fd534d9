"""Every benchmark runs, in its tiny form: its figures say nothing, and no claim is judged."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import REPOSITORY
from bench.stale import SOURCES

BENCH = REPOSITORY / "bench"
SECONDS = 100


def is_benchmark(path: Path) -> bool:
    """A module with a command line of `bench.options`, which is what makes a report."""
    tree = ast.parse(path.read_text())
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "bench.options"
        and "run" in {alias.name for alias in node.names}
        for node in tree.body
    )


BENCHMARKS = sorted(
    str(path.relative_to(REPOSITORY)) for path in BENCH.rglob("*.py") if is_benchmark(path)
)


def test_every_benchmark_says_what_it_measures() -> None:
    assert sorted(module for module, *_ in SOURCES.values()) == BENCHMARKS
    for name, sources in SOURCES.items():
        for source in sources:
            assert (REPOSITORY / source).exists(), f"{name} measures {source}, which is gone"


@pytest.mark.parametrize("path", BENCHMARKS)
def test_a_benchmark_runs_in_its_tiny_form(path: str, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    module = path.removesuffix(".py").replace("/", ".")
    command = [sys.executable, "-m", module, "--tiny", "--json", str(written)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    told = json.loads(written.read_text())
    assert set(told) == {"name", "machine", "rows", "claims"}
    assert told["rows"]
    assert told["claims"] == []
    assert "commit" in told["machine"]
