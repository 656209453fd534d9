"""Results know the commit that they were measured at, and whether their sources changed since."""

import json
import subprocess
from pathlib import Path

import pytest

from bench.options import parser, run
from bench.report import CHANGED, Claim, Report, commit, machine, read
from bench.stale import RESULTS, SOURCES, ages, benchmark_of


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    command = ("git", "-C", str(root), *identity, *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    (root / "services/tuner").mkdir(parents=True)
    (root / "bench/results").mkdir(parents=True)
    (root / "services/tuner/compile.py").write_text("first = 1\n")
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "Begin")
    monkeypatch.setattr("bench.report.REPOSITORY", root)
    return root


def measured(root: Path, at: str | None) -> Path:
    results = root / "bench/results"
    (results / "compile.json").write_text(json.dumps({"machine": {"commit": at}}))
    (results / "compile.txt").write_text("the table of it\n")
    return results


def test_a_result_is_stale_once_a_source_of_its_benchmark_changes(repository: Path) -> None:
    results = measured(repository, commit())
    (repository / "README.md").write_text("no source of it\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "Describe")
    (age,) = ages(results)
    assert not age.stale
    (repository / "services/tuner/compile.py").write_text("first = 2\n")
    git(repository, "commit", "--all", "--quiet", "--message", "Change what is measured")
    (age,) = ages(results)
    assert age.stale
    assert age.line.startswith("compile.json: commits to its sources since ")
    assert age.line.endswith("Change what is measured")


@pytest.mark.parametrize("at", [None, "0" * 40, "HEAD" + CHANGED])
def test_a_result_without_a_known_commit_is_of_unknown_age(
    repository: Path, at: str | None
) -> None:
    (age,) = ages(measured(repository, at))
    assert age.stale
    assert age.line == "compile.json: of unknown commit"


def test_changes_that_are_not_committed_are_told_and_those_of_results_are_not(
    repository: Path,
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    measured(repository, None)
    assert commit() == head
    (repository / "services/tuner/compile.py").write_text("first = 3\n")
    assert commit() == head + CHANGED


def test_what_is_added_to_a_result_leaves_the_rest_and_makes_it_no_younger(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.json"

    def ran(network: str, value: float, *more: str) -> Report:
        report = Report(
            name="cold",
            machine=machine(),
            rows=[{"network": network, "median_ms": value}],
            claims=[Claim.at_most(f"{network}: first output", value, "ms", 5.0)],
        )
        monkeypatch.setattr("sys.argv", ["bench", "--json", str(file), *more])
        run(parser("a part of it"), lambda _: report, tiny=())
        return read(file)

    first = ran("resnet50", 7.0)
    assert commit() == first.machine["commit"]
    (repository / "services/tuner/compile.py").write_text("first = 4\n")
    git(repository, "commit", "--all", "--quiet", "--message", "Change what is measured")
    both = ran("t5", 3.0, "--add")
    assert both.machine["commit"] == first.machine["commit"], "what is stale stays so"
    assert [row["network"] for row in both.rows] == ["resnet50", "t5"]
    ran("resnet50", 2.0, "--add")
    again = ran("t5", 4.0, "--add")
    assert [row["median_ms"] for row in again.rows] == [2.0, 4.0]
    assert [claim.ok for claim in again.claims] == [True, True]
    assert ran("t5", 4.0).rows == [{"network": "t5", "median_ms": 4.0}]
    file.write_text(json.dumps({**json.loads(file.read_text()), "machine": {"cpu": "another"}}))
    with pytest.raises(SystemExit, match="is of another, and this is"):
        ran("t5", 3.0, "--add")


def test_every_result_here_is_of_a_benchmark() -> None:
    named = {benchmark_of(path.name) for path in RESULTS.iterdir() if path.suffix != ".md"}
    assert named <= set(SOURCES)
