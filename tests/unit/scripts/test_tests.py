"""Tests that fail beside others run again alone, and are told apart from those that fail twice."""

import sys
from datetime import date
from pathlib import Path

import pytest

from scripts import tests
from scripts.tests import REPOSITORY, Flaky, known_flaky, report

ONCE = """
from pathlib import Path
def test_first(): assert True
def test_late():
    seen = Path(__file__).with_suffix(".seen")
    late = not seen.exists()
    seen.touch()
    assert not late
"""


def run_of(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    (folder / "test_some.py").write_text(text)
    monkeypatch.setattr(tests, "REPOSITORY", folder)
    # In the same folder it would take the sockets of databases away that tests of this run use.
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(folder))
    monkeypatch.setattr(tests, "LAST_FAILED", folder / ".pytest_cache/v/cache/lastfailed")
    monkeypatch.setattr(
        tests, "PYTEST", (sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder))
    )
    return tests.run(["--numprocesses", "2", "test_some.py"])


def test_a_test_that_passes_alone_does_not_fail_the_run_and_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_of(tmp_path, ONCE, monkeypatch) == 0
    told = capfd.readouterr().out
    assert "flaky: these failed beside others and passed alone" in told
    assert "test_some.py::test_late: not in tests/flaky.toml" in told
    assert "test_first" not in told.partition("flaky:")[2]


def test_a_test_that_fails_twice_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_of(tmp_path, "def test_wrong(): assert 1 == 2", monkeypatch) == 1
    assert "flaky:" not in capfd.readouterr().out


def test_where_much_fails_nothing_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    many = "\n".join(f"def test_{n}(): assert False" for n in range(13))
    assert run_of(tmp_path, many, monkeypatch) == 1
    assert "13 tests failed: too many" in capfd.readouterr().out


def test_a_known_one_is_told_with_its_cause() -> None:
    entry = Flaky(test="tests/test_a.py::test_b", seen=date(2026, 11, 26), cause="a late browser")
    told = report(["tests/test_a.py::test_b[c]"], {entry.test: entry})
    assert "tests/test_a.py::test_b[c]: a late browser (known since 2026-11-26)" in told


def test_each_test_that_is_listed_as_flaky_is_there() -> None:
    for entry in known_flaky().values():
        file, _, name = entry.test.partition("::")
        assert f"def {name}(" in (REPOSITORY / file).read_text(), entry.test
        assert entry.cause
