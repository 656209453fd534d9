"""The texts that auditors of dependencies print are read; they are theirs."""

import json

from tests.security.advisories import read_npm_audit, read_pip_audit


def test_a_vulnerable_python_package_is_a_line_with_its_remedy() -> None:
    flaw = {"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"], "aliases": [], "description": ""}
    report = json.dumps(
        {
            "dependencies": [
                {"name": "jinja2", "version": "2.10", "vulns": [flaw]},
                {"name": "numpy", "version": "2.4.0", "vulns": []},
            ],
            "fixes": [],
        }
    )
    audit = read_pip_audit("requirements.lock", report)
    assert audit.asked == 2
    assert audit.vulnerable == ("jinja2 2.10: PYSEC-2019-217, fixed in 2.10.1",)


def test_packages_that_the_index_does_not_know_count_as_not_audited() -> None:
    skipped = {"name": "numpy", "skip_reason": "Dependency not found on PyPI"}
    report = json.dumps({"dependencies": [skipped], "fixes": []})
    assert read_pip_audit("requirements.lock", report).asked == 0
    assert read_pip_audit("requirements.lock", "").asked == 0


def test_a_vulnerable_node_package_is_a_line() -> None:
    report = json.dumps(
        {
            "vulnerabilities": {"minimist": {"range": "<0.2.4", "severity": "critical"}},
            "metadata": {"dependencies": {"total": 7}},
        }
    )
    audit = read_npm_audit("client/package-lock.json", report)
    assert audit.asked == 7
    assert audit.vulnerable == ("minimist <0.2.4: critical",)


def test_a_registry_without_advisories_is_no_clean_bill() -> None:
    report = json.dumps({"message": "405 Method Not Allowed", "statusCode": 405})
    assert read_npm_audit("client/package-lock.json", report).asked == 0
