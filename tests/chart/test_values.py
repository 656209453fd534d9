"""The chart's documents say what its values are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import kernelzoo
from helm.readme import Undocumented, documented_values, readme
from kernelzoo.settings import Settings
from services.gateway.wire.leases import LeaseRequest
from tests.chart.rendering import CHART

VALUES = (CHART / "values.yaml").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

# Settings that the chart and the images set by themselves.
OWN = {
    *("database_url", "redis_url", "operator_key", "token_secret", "signing_key"),
    *(
        "client_dist",
        "models_dir",
        "standby_dir",
        "standby_bytes",
        "alive_file",
        "metrics_host",
        "metrics_port",
    ),
    *("trusted_proxies", "trusted_hops", "attestation", "private_token_issuers"),
    *("turnstile_secret", "hcaptcha_secret"),
    *("purge", "purge_url", "purge_service", "purge_token"),
}

# A zoo that others use has all its defences; only a simulation takes some away.
NOT_OFFERED = {"defences"}


def test_the_readme_is_current() -> None:
    assert (CHART / "README.md").read_text() == readme(VALUES), "run `python -m helm.readme`"


def test_a_value_without_a_comment_is_found() -> None:
    with pytest.raises(Undocumented, match=r"a\.c needs"):
        documented_values("a:\n  # -- Said.\n  b: 1\n  # Not said.\n  c: 2\n")


def _open_objects(node: Any, path: str = "") -> Iterator[str]:
    """Objects of the schema that take keys which it does not name."""
    if isinstance(node, dict):
        if "properties" in node and node.get("additionalProperties") is not False:
            yield path
        for key, value in node.items():
            yield from _open_objects(value, f"{path}/{key}")


def test_the_schema_knows_every_value_and_lets_no_other_pass() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(yaml.safe_load(VALUES), SCHEMA)
    assert list(_open_objects(SCHEMA)) == []
    for value in documented_values(VALUES):
        assert _known(value.path.split(".")), f"values.schema.json lacks {value.path}"


def _known(path: list[str]) -> bool:
    node = SCHEMA
    for name in path:
        node = SCHEMA["definitions"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        if name not in node.get("properties", {}):
            return False
        node = node["properties"][name]
    return True


def test_the_settings_are_those_that_processes_read_within_the_same_bounds() -> None:
    read = Settings.model_json_schema()["properties"]
    settable = read.keys() - OWN - NOT_OFFERED
    offered = SCHEMA["properties"]["settings"]["properties"]
    assert offered.keys() == settable, "bring values.schema.json and Settings together"
    bounds = ("type", "minimum", "maximum", "exclusiveMinimum")
    for name, schema in offered.items():
        assert {b: schema.get(b) for b in bounds} == {b: read[name].get(b) for b in bounds}


def test_chart_images_and_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == kernelzoo.__version__
    compose = (Path(kernelzoo.__file__).parents[1] / "compose.yaml").read_text()
    assert f"${{KERNELZOO_VERSION:-{kernelzoo.__version__}}}" in compose


def test_the_ingress_waits_longer_than_any_agent() -> None:
    wait = LeaseRequest.model_json_schema()["properties"]["wait_s"]["maximum"]
    poll = SCHEMA["properties"]["ingress"]["properties"]["longPollSeconds"]
    assert wait < poll["minimum"] <= yaml.safe_load(VALUES)["ingress"]["longPollSeconds"]
