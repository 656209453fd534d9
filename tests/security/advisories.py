"""Known vulnerabilities of what is locked, where a source of advisories can be reached.

    .venv/audit/bin/python -m tests.security.advisories

Exits 1 for a vulnerability. A registry without advisories is said to be one, and is no failure: the
auditors themselves tell "nothing found" and "nobody could be asked" apart only in their details.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON_LOCKS = (
    "requirements.lock",
    *(
        f"docker/requirements/{image}.lock"
        for image in ("gateway", "compile", "aggregate", "fleet")
    ),
)
NODE_LOCKS = (
    "client",
    "bench/page",
    "tests/browser/transformers",
    "tests/chart/schemas",
    "tests/security",
)
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LockAudit:
    """An audit of one lock. `asked` packages were looked up; each of `vulnerable` is a line for
    people."""

    lock: str
    asked: int
    vulnerable: tuple[str, ...]


def read_pip_audit(lock: str, report: str) -> LockAudit:
    """`report` is what `pip-audit --format json` prints; '' where it could not ask anybody."""
    dependencies = json.loads(report)["dependencies"] if report.strip() else []
    asked = [each for each in dependencies if "skip_reason" not in each]
    vulnerable = tuple(
        f"{each['name']} {each['version']}: {flaw['id']}, "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for each in asked
        for flaw in each["vulns"]
    )
    return LockAudit(lock=lock, asked=len(asked), vulnerable=vulnerable)


def read_npm_audit(lock: str, report: str) -> LockAudit:
    """`report` is what `npm audit --json` prints, which is an error's where it could not ask."""
    told = json.loads(report) if report.strip() else {}
    if "vulnerabilities" not in told:
        return LockAudit(lock=lock, asked=0, vulnerable=())
    vulnerable = tuple(
        f"{name} {flaw['range']}: {flaw['severity']}"
        for name, flaw in told["vulnerabilities"].items()
    )
    asked = told["metadata"]["dependencies"]["total"]
    return LockAudit(lock=lock, asked=asked, vulnerable=vulnerable)


def _printed(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout


def audits() -> Iterator[LockAudit]:
    auditor = str(Path(sys.executable).with_name("pip-audit"))
    options = ("--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off")
    for lock in PYTHON_LOCKS:
        yield read_pip_audit(lock, _printed(auditor, *options, "--requirement", lock))
    for folder in NODE_LOCKS:
        report = _printed("npm", "--prefix", folder, "audit", "--json", "--package-lock-only")
        yield read_npm_audit(f"{folder}/package-lock.json", report)


def main() -> int:
    failed = False
    for audit in audits():
        if not audit.asked:
            print(f"{audit.lock}: not audited, this registry has no advisories")
            continue
        print(f"{audit.lock}: {audit.asked} packages, {len(audit.vulnerable)} vulnerable")
        for line in audit.vulnerable:
            print(f"  {line}")
        failed = failed or bool(audit.vulnerable)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
