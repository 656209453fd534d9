"""The chart, rendered by Helm's own engine (helm-python-sdk), and what is in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helm_python
import yaml

CHART = Path(__file__).parents[2] / "helm" / "kernelzoo"
EXAMPLES = ("small", "production", "air-gapped")
OLDEST, NEWEST = "1.29", "1.37"
"""Versions of Kubernetes: the oldest that Chart.yaml allows, the newest that has schemas."""

Values = Mapping[str, Any]
Manifest = dict[str, Any]

# The least that renders: the network policies want to know where the databases lie.
PLAIN: Values = {"networkPolicy": {"enabled": False}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """`text` is what Helm printed for the manifests, in the order of their templates."""

    notes: str
    text: str

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(filter(None, yaml.safe_load_all(self.text)))

    def of(self, kind: str) -> dict[str, Manifest]:
        """Manifests of a kind by name, without the release's prefix."""
        prefix = "kz-kernelzoo"
        return {
            manifest["metadata"]["name"].removeprefix(prefix).removeprefix("-"): manifest
            for manifest in self.manifests
            if manifest["kind"] == kind
        }

    def pods(self) -> dict[str, Manifest]:
        """Specs of the pods, by the name of what makes them."""
        return {
            name: manifest["spec"]["template"]["spec"]
            for kind in ("Deployment", "StatefulSet", "Job")
            for name, manifest in self.of(kind).items()
        }


def example(name: str) -> Values:
    values: Values = yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text())
    return values


def render(values: Values, chart: Path = CHART) -> Rendered:
    """Raises helm_python.HelmError with what Helm says."""
    with helm_python.Chart.load(chart) as loaded:
        files = loaded.render(dict(values), name="kz", namespace="zoo")
    notes = next(text for name, text in files.items() if name.endswith("NOTES.txt"))
    templates = sorted(name for name in files if name.endswith(".yaml") and files[name].strip())
    return Rendered(
        notes=notes, text="".join(f"---\n{files[name].strip()}\n" for name in templates)
    )


def container(pod: Manifest) -> Manifest:
    """The only one of a pod."""
    (only,) = pod["containers"]
    found: Manifest = only
    return found


def environment(pod: Manifest) -> dict[str, Manifest]:
    return {variable["name"]: variable for variable in container(pod)["env"]}
