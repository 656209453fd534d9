"""Reads a process's metrics as Prometheus does."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families


def scrape(port: int) -> dict[str, float]:
    """Values by name and labels, as `name{label="value"}`; labels in the order of their names."""
    text = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=10).raise_for_status().text
    return {
        f"{sample.name}{_labels(sample.labels)}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _labels(labels: dict[str, str]) -> str:
    inside = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{{{inside}}}" if inside else ""
