"""No value is without effect: each, given another, changes what some set of values renders to, to
what Kubernetes and the operators accept."""

import json
import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from helm.readme import ChartValue, documented_values
from tests.chart.complaints import custom_complaints, is_custom
from tests.chart.rendering import CHART, NEWEST, PLAIN, Manifest, Rendered, Values, render
from tests.chart.test_features import INGRESS, PEERS, PROXIED, ROUTE
from tests.chart.test_refusals import merged

VALUES = {value.path: value for value in documented_values((CHART / "values.yaml").read_text())}

WORKERS = ("compile", "aggregate")
ATTESTED: Values = {
    "kinds": ["turnstile", "hcaptcha", "private-token"],
    "privateTokenIssuers": ["issuer.example=MIIB"],
}
EVERYTHING: Values = {
    "database": {"ownerSecretName": "owner", "role": "service"},
    "attestation": ATTESTED,
    "cdn": {"kind": "fastly", "service": "SU1Z0isxPaozGVKXdv0eY"},
    "gateway": {**PROXIED, "autoscaling": {"enabled": True}, "models": {"enabled": True}},
    **{name: {"autoscaling": {"kind": "keda", "minReplicas": 1}} for name in WORKERS},
    "fleet": {"enabled": True, "url": "https://zoo.example"},
    "caSecret": {"name": "authorities"},
    "ingress": {**INGRESS, "controller": "nginx"},
    "httpRoute": ROUTE,
    "networkPolicy": {**PEERS, "monitoringPeers": PEERS["gatewayPeers"]},
    "monitoring": {name: {"enabled": True} for name in ("serviceMonitor", "rules", "dashboards")},
}
SMALLEST: Values = {**PLAIN, "gateway": {"replicas": 1, "models": {"enabled": True}}}
# As small as it renders, with all that can be on, scaled on CPU, scaled to nothing, and over http.
SETS: tuple[Values, ...] = (
    {**SMALLEST, "database": {"role": "service"}},
    EVERYTHING,
    {**EVERYTHING, **{name: {"autoscaling": {"kind": "cpu"}} for name in WORKERS}},
    {**EVERYTHING, "compile": {"autoscaling": {"kind": "keda", "minReplicas": 0}}},
    {**EVERYTHING, "serviceAccount": {"create": False}},
    PLAIN,
)

# Where another value of the same type would not do, or is that of `EVERYTHING`.
OTHERS: dict[str, Any] = {
    "image.pullPolicy": "Always",
    "image.pullSecrets": ["pull"],
    "image.digests": {"gateway": f"sha256:{'a' * 64}"},
    "attestation.kinds": ["proof-of-work"],
    "attestation.privateTokenIssuers": ["other.example=MIIC"],
    "cdn.kind": "",
    "cdn.urls": ["https://other.example:8443"],
    "settings": {"quorum": 3},
    "gateway.service.type": "NodePort",
    "compile.autoscaling.kind": "cpu",
    "aggregate.autoscaling.kind": "cpu",
    "fleet.enabled": False,
    "ingress.enabled": False,
    "httpRoute.enabled": False,
    "httpRoute.parentRefs": [{"name": "other"}],
    "networkPolicy.redis.port": 7000,
    "fleet.browsers": ["firefox=1"],
    "fleet.url": "https://other.example",
    "fleet.storage.size": "2Gi",
    "fleet.sharedMemory": "2Gi",
    "ingress.controller": "alb",
    "monitoring.serviceMonitor.interval": "15s",
    "compile.autoscaling.minReplicas": 2,
    "gateway.service.port": 8080,
    "gateway.models.accessMode": "ReadWriteOnce",
    "gateway.models.size": "40Gi",
    "gateway.trustedProxies": ["10.9.0.0/16"],
    "monitoring.rules.gatewayUrl": "https://other.example",
}
PEER = {"ipBlock": {"cidr": "10.9.0.0/16"}}

# It forbids, and changes nothing where it is granted: test_refusals.py has its cases.
ONLY_ALLOWS = {"ingress.allowHttp"}


def _another(value: ChartValue) -> Any:
    """Valid, and not the default."""
    default = json.loads(value.default)
    name = value.path.rpartition(".")[2]
    match default:
        case _ if value.path in OTHERS:
            return OTHERS[value.path]
        case bool():
            return not default
        case int():
            return default + 1
        case str():
            return f"{default}x"
        case _ if name == "tolerations":
            return [{"key": "gpu", "operator": "Exists"}]
        case _ if name.lower().endswith("peers"):
            return [PEER]
        case _ if name in ("extraEnv", "extraVolumes"):
            return [{"name": "other"}]
        case _ if name == "extraVolumeMounts":
            return [{"name": "other", "mountPath": "/other"}]
        case _ if name == "affinity":
            return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
        case _ if name == "strategy":
            return {"type": "Recreate"}
        case _ if name == "resources":
            return {"requests": {"cpu": "3"}}
        case dict():
            return {"other": "yes"}
    raise AssertionError(f"say in OTHERS what else {value.path} may be")


def _nested(path: str, value: Any) -> Any:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


@pytest.fixture(scope="module")
def rendered() -> list[Rendered]:
    return [render(values) for values in SETS]


@pytest.fixture(scope="module")
def custom() -> Iterator[list[Manifest]]:
    """Collects custom resources, for which there is one look at the operators' schemas."""
    found: list[Manifest] = []
    yield found
    assert custom_complaints(found) == ""


@pytest.mark.parametrize("path", sorted(VALUES.keys() - ONLY_ALLOWS))
def test_a_value_changes_what_is_rendered_and_is_accepted(
    path: str, rendered: list[Rendered], custom: list[Manifest]
) -> None:
    change = _nested(path, _another(VALUES[path]))
    both = (
        (before, render(merged(values, change)))
        for values, before in zip(SETS, rendered, strict=True)
    )
    changed = next(((before, after) for before, after in both if before != after), None)
    assert changed is not None, "nobody reads it"
    for document in _new(*changed):
        manifest = yaml.safe_load(document)
        if is_custom(manifest):
            custom.append(manifest)
        else:
            kubernetes_validate.validate(manifest, NEWEST, strict=True)


def _new(before: Rendered, after: Rendered) -> set[str]:
    """Finds the documents that differ. Those of dashboards take long to read."""
    told = [set(re.split(r"^---$", each.text, flags=re.MULTILINE)) for each in (before, after)]
    return {each for each in told[1] - told[0] if each.strip()}
