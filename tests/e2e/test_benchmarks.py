"""Every benchmark runs, in its tiny form: its figures say nothing, and no claim is judged."""

import ast
import json
import runpy
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
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


def module_of(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


@pytest.mark.filterwarnings("ignore:.* found in sys.modules after import")
@pytest.mark.parametrize("path", BENCHMARKS)
def test_a_benchmark_takes_the_options_of_its_tiny_form(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Namespace] = []

    def options_alone(
        parser: ArgumentParser, measure: Callable[[Namespace], object], *, tiny: Sequence[str]
    ) -> None:
        assert callable(measure)
        taken.append(parser.parse_args([*tiny, "--tiny"]))

    monkeypatch.setattr("bench.options.run", options_alone)
    runpy.run_module(module_of(path), run_name="__main__")
    assert [options.tiny for options in taken] == [True]


@pytest.mark.parametrize("path", BENCHMARKS)
def test_a_benchmark_runs_in_its_tiny_form(path: str, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    command = [sys.executable, "-m", module_of(path), "--tiny", "--json", str(written)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    told = json.loads(written.read_text())
    assert set(told) == {"name", "machine", "rows", "claims"}
    assert told["rows"]
    assert told["claims"] == []
    assert "commit" in told["machine"]
