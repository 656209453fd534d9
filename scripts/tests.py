"""Runs pytest, and tests that fail beside others again, alone: `python -m scripts.tests ARGUMENTS`.

Two cores that run browsers, databases and compilers at once are late now and then. A test that
passes alone does not fail the run, but is printed under "flaky", with its cause where
tests/flaky.toml knows it. What fails twice is a fault, and so is a run in which much fails.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FLAKY = REPOSITORY / "tests" / "flaky.toml"
LAST_FAILED = REPOSITORY / ".pytest_cache" / "v" / "cache" / "lastfailed"
PYTEST = (sys.executable, "-m", "pytest")
FAILED = 1
"""The exit status of pytest where tests failed; others say that it could not run them."""
MOST_AGAIN = 12
"""Nothing runs again where more tests fail, as something is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky:
    """A test, by its id without parameters, that is known to fail beside others now and then."""

    test: str
    seen: date
    cause: str


def known_flaky(file: Path = FLAKY) -> Mapping[str, Flaky]:
    """Reads tests/flaky.toml, by the ids of tests."""
    entries = tomllib.loads(file.read_text()).get("flaky", [])
    return {entry["test"]: Flaky(**entry) for entry in entries}


def report(again: Iterable[str], known: Mapping[str, Flaky]) -> str:
    """Writes what is printed of tests that passed when they ran again."""
    lines = ["flaky: these failed beside others and passed alone"]
    for test in again:
        entry = known.get(test.partition("[")[0])
        lines.append(
            f"  {test}: not in tests/flaky.toml; find the cause, and add it with today's date"
            if entry is None
            else f"  {test}: {entry.cause} (known since {entry.seen})"
        )
    return "\n".join(lines)


def run(arguments: Sequence[str]) -> int:
    """The exit status: 0 where each test passed at once or alone."""
    status = _pytest("--cache-clear", *arguments)
    if status != FAILED or not LAST_FAILED.exists():
        return status
    failed = sorted(json.loads(LAST_FAILED.read_text()))
    if len(failed) > MOST_AGAIN:
        print(f"{len(failed)} tests failed: too many to run them again alone")
        return status
    print(f"· {len(failed)} failed; running them again alone", flush=True)
    status = _pytest("--numprocesses", "0", *failed)
    if status == 0:
        print(report(failed, known_flaky()), flush=True)
    return status


def _pytest(*arguments: str) -> int:
    return subprocess.run((*PYTEST, *arguments), cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
