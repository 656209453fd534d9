"""Each feature: what it adds where it is on, and that it is gone where it is off."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.chart.rendering import PLAIN, Rendered, Values, container, environment, render

PEERS: dict[str, Any] = {
    "database": {"peers": [{"ipBlock": {"cidr": "10.0.0.5/32"}}]},
    "redis": {"peers": [{"ipBlock": {"cidr": "10.0.0.6/32"}}], "port": 6380},
    "gatewayPeers": [{"podSelector": {"matchLabels": {"app": "ingress"}}}],
}
BODY = "nginx.ingress.kubernetes.io/proxy-body-size"
INGRESS = {"enabled": True, "host": "zoo.example", "tlsSecretName": "zoo-tls"}
ROUTE = {"enabled": True, "host": "route.example", "parentRefs": [{"name": "public"}]}
GATEWAY = "kz-kernelzoo-gateway"
MOUNTED: dict[str, dict[str, Any]] = {
    "authorities": {
        "name": "authorities",
        "mountPath": "/etc/kernelzoo/authorities",
        "readOnly": True,
    },
    "own": {"name": "own", "mountPath": "/own"},
}
PROXIED = {"trustedProxies": ["10.0.0.0/8"]}


MAKERS = ("Deployment", "StatefulSet", "Job")
BUDGET = "PodDisruptionBudget"


def variable(name: str, **given: Any) -> dict[str, Any]:
    return {name: {"name": name, **given}}


ATTESTING: dict[str, Any] = {
    **variable("KERNELZOO_ATTESTATION", value="turnstile,hcaptcha,private-token"),
    **variable("KERNELZOO_PRIVATE_TOKEN_ISSUERS", value="a.example=MIIB,b.example=MIIC="),
    **variable(
        "KERNELZOO_TURNSTILE_SECRET",
        valueFrom={"secretKeyRef": {"name": "platforms", "key": "turnstile"}},
    ),
    **variable(
        "KERNELZOO_HCAPTCHA_SECRET",
        valueFrom={"secretKeyRef": {"name": "platforms", "key": "hcaptcha"}},
    ),
}


PURGING: dict[str, Any] = {
    **variable("KERNELZOO_PURGE", value="fastly"),
    **variable("KERNELZOO_PURGE_SERVICE", value="SU1Z0isxPaozGVKXdv0eY"),
    **variable(
        "KERNELZOO_PURGE_TOKEN", valueFrom={"secretKeyRef": {"name": "fastly", "key": "token"}}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """`on` are values; `shows` is true of what they render to, and untrue without them."""

    on: Values
    shows: Callable[[Rendered], object]


FEATURES = {
    "a gateway scales on CPU": Feature(
        on={"gateway": {"autoscaling": {"enabled": True}}},
        shows=lambda r: (
            "gateway" in r.of("HorizontalPodAutoscaler")
            and "replicas" not in r.of("Deployment")["gateway"]["spec"]
        ),
    ),
    "compile workers scale on waiting rows": Feature(
        on={"compile": {"autoscaling": {"kind": "keda"}}},
        shows=lambda r: (
            "compile" in r.of("ScaledObject")
            and "replicas" not in r.of("Deployment")["compile"]["spec"]
        ),
    ),
    "aggregate workers scale on waiting rows": Feature(
        on={"aggregate": {"autoscaling": {"kind": "keda"}}},
        shows=lambda r: "aggregate" in r.of("ScaledObject"),
    ),
    "the scaler knows the database by its secret": Feature(
        on={"aggregate": {"autoscaling": {"kind": "keda"}}, "database": {"secretName": "db"}},
        shows=lambda r: [
            reference
            for authentication in r.of("TriggerAuthentication").values()
            for reference in authentication["spec"]["secretTargetRef"]
            if reference == {"parameter": "connection", "name": "db", "key": "url"}
        ],
    ),
    "compile workers scale on CPU": Feature(
        on={"compile": {"autoscaling": {"kind": "cpu"}}},
        shows=lambda r: "compile" in r.of("HorizontalPodAutoscaler"),
    ),
    "models are kept on a claim of the chart": Feature(
        on={"gateway": {"models": {"enabled": True, "size": "40Gi"}}},
        shows=lambda r: [
            claim
            for claim in r.of("PersistentVolumeClaim").values()
            if claim["spec"]["resources"]["requests"]["storage"] == "40Gi"
            and claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        ],
    ),
    "models are kept on a claim that is there": Feature(
        on={"gateway": {"models": {"enabled": True, "existingClaim": "bucket"}}},
        shows=lambda r: [
            volume
            for volume in r.pods()["gateway"]["volumes"]
            if volume.get("persistentVolumeClaim") == {"claimName": "bucket"}
            and not r.of("PersistentVolumeClaim")
        ],
    ),
    "a fleet runs": Feature(
        on={"fleet": {"enabled": True, "url": "https://zoo.example"}},
        shows=lambda r: (
            container(r.pods()["fleet"])["args"]
            == ["--url", "https://zoo.example", "--agents", "1"]
            if "fleet" in r.pods()
            else False
        ),
    ),
    "a fleet runs other browsers than Chromium": Feature(
        on={
            "fleet": {
                "enabled": True,
                "url": "https://zoo.example",
                "browsers": ["chromium=2", "firefox=1"],
            }
        },
        shows=lambda r: (
            container(r.pods()["fleet"])["args"][4:]
            == ["--browser", "chromium=2", "--browser", "firefox=1"]
            if "fleet" in r.pods()
            else False
        ),
    ),
    "a fleet of fewer agents than a quorum says so": Feature(
        on={
            "fleet": {
                "enabled": True,
                "url": "https://zoo.example",
                "replicas": 2,
                "browsers": ["chromium=2", "firefox"],
            }
        },
        shows=lambda r: "The fleet has 4 of the 5 agents of one browser" in r.notes,
    ),
    "images come from a registry": Feature(
        on={"image": {"registry": "registry.example/zoo/", "tag": "9.9"}},
        shows=lambda r: (
            container(r.pods()["compile"])["image"] == "registry.example/zoo/kernelzoo-compile:9.9"
        ),
    ),
    "a digest wins over a tag": Feature(
        on={"image": {"tag": "9.9", "digests": {"aggregate": f"sha256:{'a' * 64}"}}},
        shows=lambda r: (
            container(r.pods()["clock"])["image"] == f"kernelzoo-aggregate@sha256:{'a' * 64}"
        ),
    ),
    "pods ask a registry with a secret": Feature(
        on={"image": {"pullSecrets": ["pull"]}},
        shows=lambda r: all(
            pod.get("imagePullSecrets") == [{"name": "pull"}] for pod in r.pods().values()
        ),
    ),
    "proxies are believed": Feature(
        on={"gateway": {"trustedProxies": ["10.0.0.1", "10.2.0.0/16"], "trustedHops": 2}},
        shows=lambda r: all(
            environment(r.pods()["gateway"]).get(variable, {}).get("value") == value
            for variable, value in (
                ("KERNELZOO_TRUSTED_PROXIES", "10.0.0.1,10.2.0.0/16"),
                ("KERNELZOO_TRUSTED_HOPS", "2"),
            )
        ),
    ),
    "identities are attested by platforms, with secrets by reference": Feature(
        on={
            "attestation": {
                "kinds": ["turnstile", "hcaptcha", "private-token"],
                "secretName": "platforms",
                "privateTokenIssuers": ["a.example=MIIB", "b.example=MIIC="],
            }
        },
        shows=lambda r: ATTESTING.items() <= environment(r.pods()["gateway"]).items(),
    ),
    "migrations run as the owner of the schema, and grant to whom the others connect as": Feature(
        on={"database": {"ownerSecretName": "owner", "ownerKey": "u", "role": "service"}},
        shows=lambda r: (
            container(r.pods()["migrate"])["command"][-2:] == ["--grant-to", "service"]
            and variable(
                "KERNELZOO_DATABASE_URL",
                valueFrom={"secretKeyRef": {"name": "owner", "key": "u"}},
            )
            == environment(r.pods()["migrate"])
            and "kernelzoo-database"
            in str(environment(r.pods()["gateway"])["KERNELZOO_DATABASE_URL"])
        ),
    ),
    "a gateway reaches the platforms that it asks": Feature(
        on={
            "networkPolicy": {"enabled": True, **PEERS},
            "attestation": {"kinds": ["turnstile"]},
        },
        shows=lambda r: (
            {"ports": [{"protocol": "TCP", "port": 443}]}
            in r.of("NetworkPolicy").get("gateway", {}).get("spec", {}).get("egress", [])
        ),
    ),
    "a platform's cache is told what to forget, with its token by reference": Feature(
        on={
            "cdn": {
                "kind": "fastly",
                "service": "SU1Z0isxPaozGVKXdv0eY",
                "secretName": "fastly",
            }
        },
        shows=lambda r: PURGING.items() <= environment(r.pods()["gateway"]).items(),
    ),
    "a gateway reaches the Varnishes that it tells": Feature(
        on={
            "networkPolicy": {"enabled": True, **PEERS},
            "cdn": {"kind": "varnish", "urls": ["http://a:6081", "http://b", "https://c"]},
        },
        shows=lambda r: (
            {"ports": [{"protocol": "TCP", "port": port} for port in (6081, 80, 443)]}
            in r.of("NetworkPolicy").get("gateway", {}).get("spec", {}).get("egress", [])
            and environment(r.pods()["gateway"])["KERNELZOO_PURGE_URL"]["value"]
            == "http://a:6081,http://b,https://c"
        ),
    ),
    "the ingress' host is the zoo's own origin": Feature(
        on={"ingress": INGRESS, "gateway": PROXIED},
        shows=lambda r: (
            environment(r.pods()["gateway"]).get("KERNELZOO_ORIGINS", {}).get("value")
            == "https://zoo.example"
        ),
    ),
    "settings reach gateway and workers": Feature(
        on={"settings": {"quorum": 3, "max_request_bytes": 4194304, "log_json": False}},
        shows=lambda r: all(
            environment(r.pods()[name]).get(variable, {}).get("value") == value
            for name in ("gateway", "compile", "aggregate")
            for variable, value in (
                ("KERNELZOO_QUORUM", "3"),
                ("KERNELZOO_MAX_REQUEST_BYTES", "4194304"),
                ("KERNELZOO_LOG_JSON", "false"),
            )
        ),
    ),
    "the route's host is the zoo's own origin, beside the ingress'": Feature(
        on={"ingress": INGRESS, "httpRoute": ROUTE, "gateway": PROXIED},
        shows=lambda r: (
            environment(r.pods()["gateway"]).get("KERNELZOO_ORIGINS", {}).get("value")
            == "https://zoo.example,https://route.example"
        ),
    ),
    "browsers come in through the Gateway API": Feature(
        on={"httpRoute": {**ROUTE, "longPollSeconds": 90}, "gateway": PROXIED},
        shows=lambda r: [
            rules
            for route in r.of("HTTPRoute").values()
            if route["spec"]["hostnames"] == ["route.example"]
            and route["spec"]["parentRefs"] == [{"name": "public"}]
            and (rules := route["spec"]["rules"])
            and [(rule["matches"][0]["path"]["value"], rule["timeouts"]) for rule in rules]
            == [("/", {"request": "90s"}), ("/v1/blobs", {"request": "0s"})]
            and all(rule["backendRefs"] == [{"name": GATEWAY, "port": 80}] for rule in rules)
        ],
    ),
    "every pod trusts an authority of the house's own": Feature(
        on={"caSecret": {"name": "house", "key": "root.pem"}},
        shows=lambda r: (
            all(
                environment(pod).get(variable, {}).get("value")
                == "/etc/kernelzoo/authorities/ca.crt"
                for pod in r.pods().values()
                for variable in ("SSL_CERT_FILE", "PGSSLROOTCERT")
                if {
                    "name": "authorities",
                    "secret": {
                        "secretName": "house",
                        "items": [{"key": "root.pem", "path": "ca.crt"}],
                    },
                }
                in pod.get("volumes", [])
                and MOUNTED["authorities"] in container(pod)["volumeMounts"]
            )
            and "authorities" in str(r.pods()["migrate"])
        ),
    ),
    "Chromium of the fleet trusts it, too": Feature(
        on={
            "caSecret": {"name": "house"},
            "fleet": {"enabled": True, "url": "https://zoo.example"},
        },
        shows=lambda r: (
            "fleet" in r.pods()
            and container(r.pods()["fleet"])["args"][-2:]
            == ["--authorities", "/etc/kernelzoo/authorities/ca.crt"]
        ),
    ),
    "browsers come in": Feature(
        on={"ingress": INGRESS, "gateway": PROXIED},
        shows=lambda r: set(r.of("Ingress")) == {"gateway", "gateway-cached", "gateway-blobs"},
    ),
    "the ingress waits for long polls": Feature(
        on={"ingress": {**INGRESS, "controller": "nginx"}, "gateway": PROXIED},
        shows=lambda r: [
            manifest
            for manifest in r.of("Ingress").values()
            if manifest["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-read-timeout"]
            == "75"
        ],
    ),
    "the ingress lets files of models through": Feature(
        on={"ingress": {**INGRESS, "controller": "nginx"}, "gateway": PROXIED},
        shows=lambda r: (
            {
                name: manifest["metadata"]["annotations"][BODY]
                for name, manifest in r.of("Ingress").items()
            }
            == {"gateway": "1048576", "gateway-cached": "1048576", "gateway-blobs": "4294967296"}
        ),
    ),
    "caches are told what they may keep": Feature(
        on={"ingress": {**INGRESS, "cachedAnnotations": {"cdn": "yes"}}, "gateway": PROXIED},
        shows=lambda r: (
            [n for n, m in r.of("Ingress").items() if m["metadata"].get("annotations")]
            == ["gateway-cached"]
        ),
    ),
    "the gateway is scraped": Feature(
        on={"monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "p"}}}},
        shows=lambda r: [
            monitor
            for monitor in r.of("ServiceMonitor").values()
            if monitor["metadata"]["labels"]["release"] == "p"
        ],
    ),
    "workers are scraped": Feature(
        on={"monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "p"}}}},
        shows=lambda r: [
            monitor
            for monitor in r.of("PodMonitor").values()
            if monitor["metadata"]["labels"]["release"] == "p"
        ],
    ),
    "traffic is forbidden": Feature(
        on={"networkPolicy": {"enabled": True, **PEERS}},
        shows=lambda r: "" in r.of("NetworkPolicy"),
    ),
}


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_shows_where_it_is_on_and_only_there(name: str) -> None:
    feature = FEATURES[name]
    assert feature.shows(render({**PLAIN, **feature.on})), "not there when on"
    assert not feature.shows(render(PLAIN)), "there when off"


PROCESSES = ("gateway", "compile", "aggregate", "clock", "fleet", "migrations")
OWN: dict[str, Any] = {
    "podLabels": {"team": "zoo"},
    "priorityClassName": "measured",
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "extraVolumes": [{"name": "own", "configMap": {"name": "own"}}],
    "extraVolumeMounts": [MOUNTED["own"]],
}


@pytest.mark.parametrize("process", PROCESSES)
def test_pods_of_a_process_get_what_their_operator_adds(process: str) -> None:
    fleet = {"fleet": {"enabled": True, "url": "https://zoo.example"}}
    values = {**PLAIN, **fleet}
    rendered = render({**values, process: {**values.get(process, {}), **OWN}})
    name = "migrate" if process == "migrations" else process
    for other, pod in rendered.pods().items():
        assert (pod.get("priorityClassName") == "measured") is (other == name)
    pod = rendered.pods()[name]
    assert "nodeAffinity" in pod["affinity"]
    assert ("podAntiAffinity" in pod["affinity"]) is (process == "fleet")
    assert environment(pod)["HTTPS_PROXY"] == OWN["extraEnv"][0]
    assert OWN["extraVolumes"][0] in pod["volumes"]
    assert MOUNTED["own"] in container(pod)["volumeMounts"]
    maker = next(found for kind in MAKERS if (found := rendered.of(kind).get(name)))
    labels = maker["spec"]["template"]["metadata"]["labels"]
    assert labels["team"] == "zoo"
    assert "team" not in maker["spec"].get("selector", {}).get("matchLabels", {})


def test_a_fleet_may_share_its_nodes_where_its_operator_says_so() -> None:
    fleet = {"enabled": True, "url": "https://zoo.example", "affinity": {"podAntiAffinity": {}}}
    pod = render({**PLAIN, "fleet": fleet}).pods()["fleet"]
    assert pod["affinity"] == {"podAntiAffinity": {}}


@pytest.mark.parametrize("process", ["gateway", "compile", "aggregate"])
def test_pods_are_replaced_as_their_operator_says(process: str) -> None:
    rendered = render({**PLAIN, process: {"strategy": {"type": "Recreate"}}})
    assert rendered.of("Deployment")[process]["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("process", ["gateway", "compile", "aggregate"])
def test_a_process_survives_drains_unless_that_is_switched_off(process: str) -> None:
    budget = render({**PLAIN, process: {"disruptionBudget": {"maxUnavailable": 2}}}).of(BUDGET)
    spec = budget[process]["spec"]
    assert spec["maxUnavailable"] == 2
    assert spec["selector"]["matchLabels"]["app.kubernetes.io/component"] == process
    off = render({**PLAIN, process: {"disruptionBudget": {"enabled": False}}}).of(BUDGET)
    assert budget.keys() - off.keys() == {process}


DEFAULTS: dict[str, tuple[Values, str]] = {
    "an upgrade migrates the database": ({"migrations": {"enabled": False}}, "Job"),
    "pods have an account of their own": ({"serviceAccount": {"create": False}}, "ServiceAccount"),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_is_on_by_default_can_be_switched_off(name: str) -> None:
    off, kind = DEFAULTS[name]
    assert render(PLAIN).of(kind)
    assert not render({**PLAIN, **off}).of(kind)


def test_migrations_come_before_everything_and_use_nothing_that_the_chart_makes() -> None:
    rendered = render(PLAIN)
    job = rendered.of("Job")["migrate"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "serviceAccountName" not in rendered.pods()["migrate"]
    assert list(environment(rendered.pods()["migrate"])) == ["KERNELZOO_DATABASE_URL"]


def test_compile_workers_reach_names_the_database_and_the_broker_and_nothing_else() -> None:
    policies = render({"networkPolicy": PEERS}).of("NetworkPolicy")
    assert policies[""]["spec"].keys() == {"podSelector", "policyTypes"}, "nothing is allowed"
    spec = policies["compile"]["spec"]
    assert "ingress" not in spec
    allowed = [(rule["to"], [p["port"] for p in rule["ports"]]) for rule in spec["egress"]]
    assert [ports for _, ports in allowed] == [[53, 53], [5432], [6380]]
    assert allowed[1][0] == PEERS["database"]["peers"]
    assert allowed[2][0] == PEERS["redis"]["peers"]


@pytest.mark.parametrize(
    ("url", "port"), [("https://zoo.example", 443), ("https://zoo.internal:8443/", 8443)]
)
def test_a_fleet_reaches_the_port_of_its_gateway(url: str, port: int) -> None:
    values = {"networkPolicy": PEERS, "fleet": {"enabled": True, "url": url}}
    egress = render(values).of("NetworkPolicy")["fleet"]["spec"]["egress"]
    assert egress[-1] == {"ports": [{"protocol": "TCP", "port": port}]}


@pytest.mark.parametrize(
    ("controller", "annotation", "value"),
    [
        ("nginx", "nginx.ingress.kubernetes.io/proxy-read-timeout", "90"),
        ("nginx-f5", "nginx.org/proxy-read-timeout", "90s"),
        ("haproxy", "haproxy.org/timeout-server", "90s"),
        (
            "alb",
            "alb.ingress.kubernetes.io/load-balancer-attributes",
            "idle_timeout.timeout_seconds=90",
        ),
    ],
)
def test_every_controller_is_told_how_long_to_wait(
    controller: str, annotation: str, value: str
) -> None:
    ingress = {**INGRESS, "controller": controller, "longPollSeconds": 90}
    rendered = render({**PLAIN, "gateway": PROXIED, "ingress": ingress})
    for manifest in rendered.of("Ingress").values():
        assert manifest["metadata"]["annotations"][annotation] == value


def test_where_secrets_hold_addresses_no_name_needs_to_be_resolved() -> None:
    policies = render({"networkPolicy": {**PEERS, "dnsPeers": []}}).of("NetworkPolicy")
    ports = [p["port"] for r in policies["compile"]["spec"]["egress"] for p in r["ports"]]
    assert ports == [5432, 6380]


def test_pods_run_as_nobody_in_particular_and_write_to_their_volumes_alone() -> None:
    pods = render({**PLAIN, "fleet": {"enabled": True, "url": "https://zoo.example"}}).pods()
    assert pods.keys() == {"gateway", "compile", "aggregate", "clock", "migrate", "fleet"}
    for pod in pods.values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        context = container(pod)["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_a_fleet_keeps_its_identities_and_has_its_nodes_for_itself() -> None:
    rendered = render({**PLAIN, "fleet": {"enabled": True, "url": "https://zoo.example"}})
    spec = rendered.of("StatefulSet")["fleet"]["spec"]
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["state"]
    mounts = {
        m["name"]: m["mountPath"] for m in container(rendered.pods()["fleet"])["volumeMounts"]
    }
    assert mounts["state"] == "/state"
    terms = rendered.pods()["fleet"]["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in terms


def test_the_notes_say_what_is_off() -> None:
    assert "Network policies are off" in render(PLAIN).notes
    assert "Network policies are off" not in render({"networkPolicy": PEERS}).notes
    without = render({**PLAIN, "migrations": {"enabled": False}}).notes
    assert "kernelzoo.store.migrate" in without


@pytest.mark.parametrize(
    "values",
    [
        {"fleet": {"agents": 5}},
        {"fleet": {"replicas": 5}},
        {"fleet": {"browsers": ["firefox=1", "chromium=5"]}},
        {"fleet": {"agents": 2}, "settings": {"quorum": 2}},
    ],
)
def test_a_fleet_of_a_quorum_of_agents_of_one_browser_lacks_none(values: Values) -> None:
    fleet = {"enabled": True, "url": "https://zoo.example", **values["fleet"]}
    assert "The fleet has" not in render({**PLAIN, **values, "fleet": fleet}).notes
