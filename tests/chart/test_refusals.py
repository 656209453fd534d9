"""Values that contradict one another are refused, and the remedy that the message names works."""

from typing import Any

import helm_python
import pytest

from tests.chart.rendering import PLAIN, Values, render
from tests.chart.test_features import INGRESS, PEERS, PROXIED, ROUTE


def merged(base: Values, more: Values) -> dict[str, Any]:
    return {
        **base,
        **{
            key: merged(base[key], value)
            if isinstance(value, dict) and isinstance(base.get(key), dict)
            else value
            for key, value in more.items()
        },
    }


OPEN = {**PLAIN, "gateway": PROXIED}

# What is wrong, a piece of what Helm says, and what puts it right.
REFUSALS: dict[str, tuple[Values, str, Values]] = {
    "an ingress without a host": (
        {**OPEN, "ingress": {"enabled": True, "tlsSecretName": "t"}},
        "set ingress.host",
        {"ingress": {"host": "zoo.example"}},
    ),
    "an ingress without a certificate": (
        {**OPEN, "ingress": {"enabled": True, "host": "zoo.example"}},
        "set ingress.tlsSecretName, or ingress.allowHttp=true",
        {"ingress": {"allowHttp": True}},
    ),
    "an ingress whose proxies nobody believes": (
        {**PLAIN, "ingress": INGRESS},
        "gateway.trustedProxies is empty",
        {"gateway": {"trustedProxies": ["10.0.0.0/8"]}},
    ),
    "a route without a host": (
        {**OPEN, "httpRoute": {**ROUTE, "host": ""}},
        "set httpRoute.host",
        {"httpRoute": {"host": "zoo.example"}},
    ),
    "a route that no gateway serves": (
        {**OPEN, "httpRoute": {**ROUTE, "parentRefs": []}},
        "httpRoute.parentRefs is empty",
        {"httpRoute": {"parentRefs": [{"name": "public"}]}},
    ),
    "a route whose proxies nobody believes": (
        {**PLAIN, "httpRoute": ROUTE},
        "set it to the addresses of the Gateway API's gateway",
        {"gateway": {"trustedProxies": ["10.0.0.0/8"]}},
    ),
    "a route that may not reach the gateway": (
        {
            "httpRoute": ROUTE,
            "gateway": PROXIED,
            "networkPolicy": {"database": PEERS["database"], "redis": PEERS["redis"]},
        },
        "httpRoute.enabled, but networkPolicy.gatewayPeers is empty",
        {"networkPolicy": {"gatewayPeers": PEERS["gatewayPeers"]}},
    ),
    "a proxy that anybody can be": (
        {**PLAIN, "gateway": {"trustedProxies": ["10.0.0.0/8", "*"]}},
        "gateway.trustedProxies names *",
        {"gateway": {"trustedProxies": ["10.0.0.0/8"]}},
    ),
    "a network of proxies that holds every address": (
        {**PLAIN, "gateway": {"trustedProxies": ["::/0"]}},
        "gateway.trustedProxies names ::/0",
        {"gateway": {"trustedProxies": ["fd00::/64"]}},
    ),
    "an owner of the schema without a role to grant to": (
        {**PLAIN, "database": {"ownerSecretName": "owner"}},
        "database.role is empty",
        {"database": {"role": "kernelzoo_service"}},
    ),
    "models on a volume of one node for several gateways": (
        {**PLAIN, "gateway": {"models": {"enabled": True, "accessMode": "ReadWriteOnce"}}},
        "set gateway.models.accessMode=ReadWriteMany",
        {"gateway": {"replicas": 1}},
    ),
    "private tokens of nobody": (
        {**PLAIN, "attestation": {"kinds": ["private-token"]}},
        "attestation.privateTokenIssuers is empty",
        {"attestation": {"privateTokenIssuers": ["issuer.example=MIIB"]}},
    ),
    "a Varnish without an address": (
        {**PLAIN, "cdn": {"kind": "varnish"}},
        "cdn.urls is empty",
        {"cdn": {"urls": ["http://varnish:6081"]}},
    ),
    "a platform's cache without what it is of": (
        {**PLAIN, "cdn": {"kind": "fastly"}},
        "cdn.kind is fastly, but cdn.service is empty",
        {"cdn": {"service": "SU1Z0isxPaozGVKXdv0eY"}},
    ),
    "an ingress that may not reach the gateway": (
        {
            "ingress": INGRESS,
            "gateway": PROXIED,
            "networkPolicy": {"database": PEERS["database"], "redis": PEERS["redis"]},
        },
        "networkPolicy.gatewayPeers is empty, so the ingress controller",
        {"networkPolicy": {"gatewayPeers": PEERS["gatewayPeers"]}},
    ),
    "a Prometheus that may not reach any pod": (
        {
            "monitoring": {"serviceMonitor": {"enabled": True}},
            "networkPolicy": {"database": PEERS["database"], "redis": PEERS["redis"]},
        },
        "networkPolicy.monitoringPeers is empty, so Prometheus",
        {"networkPolicy": {"monitoringPeers": PEERS["gatewayPeers"]}},
    ),
    "policies that do not know the database": (
        {"networkPolicy": {"redis": PEERS["redis"]}},
        "networkPolicy.database.peers is empty",
        {"networkPolicy": {"database": PEERS["database"]}},
    ),
    "policies that do not know the broker": (
        {"networkPolicy": {"database": PEERS["database"]}},
        "networkPolicy.redis.peers is empty",
        {"networkPolicy": {"enabled": False}},
    ),
    "fewer gateways at most than at least": (
        {**PLAIN, "gateway": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "gateway.autoscaling.minReplicas (9) exceeds maxReplicas (8)",
        {"gateway": {"autoscaling": {"maxReplicas": 9}}},
    ),
    "fewer workers at most than at least": (
        {**PLAIN, "compile": {"autoscaling": {"kind": "keda", "minReplicas": 9}}},
        "compile.autoscaling.minReplicas (9) exceeds maxReplicas (8)",
        {"compile": {"autoscaling": {"maxReplicas": 9}}},
    ),
    "a share of a request that is not made": (
        {
            **PLAIN,
            "compile": {
                "autoscaling": {"kind": "cpu"},
                "resources": {"requests": {"cpu": None}},
            },
        },
        "set compile.resources.requests.cpu",
        {"compile": {"resources": {"requests": {"cpu": "1"}}}},
    ),
    "no pod whose CPU could be looked at": (
        {**PLAIN, "compile": {"autoscaling": {"kind": "cpu", "minReplicas": 0}}},
        "compile.autoscaling.kind=keda",
        {"compile": {"autoscaling": {"kind": "keda"}}},
    ),
    "nobody who finds lost messages": (
        {**PLAIN, "aggregate": {"autoscaling": {"kind": "keda", "minReplicas": 0}}},
        "only aggregate workers find the messages",
        {"aggregate": {"autoscaling": {"minReplicas": 1}}},
    ),
    "a fleet whose pages have no clock": (
        {**PLAIN, "fleet": {"enabled": True, "url": "http://zoo.example"}},
        "set it to the gateway's public https:// address",
        {"fleet": {"url": "https://zoo.example"}},
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_contradiction_is_refused_with_a_remedy_that_works(name: str) -> None:
    values, sentence, remedy = REFUSALS[name]
    with pytest.raises(helm_python.HelmError) as refusal:
        render(values)
    assert sentence in str(refusal.value)
    assert render(merged(values, remedy)).manifests


# What the schema finds, without any template.
MISTAKES: dict[str, tuple[Values, str]] = {
    "a misspelt value": ({"gatway": {}}, "gatway"),
    "a setting that nobody reads": ({"settings": {"quorom": 3}}, "quorom"),
    "a setting out of its range": ({"settings": {"quorum": 0}}, "/settings/quorum"),
    "a secret among the settings": ({"settings": {"token_secret": "s"}}, "token_secret"),
    "a digest that is none": ({"image": {"digests": {"gateway": "1.0"}}}, "/image/digests/gateway"),
    "a secret without a name": ({"keys": {"secretName": ""}}, "/keys/secretName"),
    "a way to scale that there is not": (
        {"compile": {"autoscaling": {"kind": "rows"}}},
        "/compile/autoscaling/kind",
    ),
    "an ingress that gives up before an agent does": (
        {"ingress": {"longPollSeconds": 10}},
        "/ingress/longPollSeconds",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_schema_refuses_a_mistake_and_names_it(name: str) -> None:
    values, place = MISTAKES[name]
    with pytest.raises(helm_python.HelmError) as refusal:
        render({**PLAIN, **values})
    assert place in str(refusal.value)
