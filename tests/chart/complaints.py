"""Collects what the schemas of others say against what we write: operators' of ours, and
Grafana's."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.chart.rendering import Manifest

SCHEMAS = Path(__file__).parent / "schemas"
CUSTOM = ("keda.sh/", "monitoring.coreos.com/", "gateway.networking.k8s.io/")


def is_custom(manifest: Manifest) -> bool:
    return str(manifest["apiVersion"]).startswith(CUSTOM)


def _complaints(script: str, document: Any) -> str:
    assert (SCHEMAS / "node_modules").exists(), "`make test` installs the schemas of others"
    return subprocess.run(
        ["node", script],
        cwd=SCHEMAS,
        input=json.dumps(document),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def custom_complaints(manifests: Iterable[Manifest]) -> str:
    """Returns what the operators' schemas say against custom resources."""
    return _complaints("check.js", list(manifests))


def dashboard_complaints(dashboards: dict[str, Any]) -> list[str]:
    """Returns what Grafana's types say against dashboards by name, a line each."""
    return _complaints("dashboards.js", dashboards).splitlines()
