"""Kubernetes and the operators accept what the examples and all values at once render to."""

import helm_python
import kubernetes_validate
import pytest

from tests.chart.complaints import custom_complaints, is_custom
from tests.chart.rendering import CHART, EXAMPLES, NEWEST, OLDEST, Values, example, render
from tests.chart.test_every_value import EVERYTHING
from tests.chart.test_features import OWN, PROCESSES
from tests.chart.test_refusals import merged
from tests.snapshots import golden_in

KUBERNETES = (OLDEST, NEWEST)

SETS: dict[str, Values] = {
    **{name: example(name) for name in EXAMPLES},
    "everything": merged(EVERYTHING, dict.fromkeys(PROCESSES, OWN)),
}


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", SETS)
def test_kubernetes_accepts_every_manifest(name: str, version: str) -> None:
    builtin = [m for m in render(SETS[name]).manifests if not is_custom(m)]
    assert {"Deployment", "Service", "Job"} <= {m["kind"] for m in builtin}
    for manifest in builtin:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_refuses_a_manifest_with_a_misspelt_field(version: str) -> None:
    service = render(example("small")).of("Service")["gateway"]
    service["spec"]["portz"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="portz"):
        kubernetes_validate.validate(service, version, strict=True)


@pytest.mark.parametrize("name", SETS)
def test_the_operators_accept_every_custom_resource(name: str) -> None:
    assert custom_complaints(filter(is_custom, render(SETS[name]).manifests)) == ""


def test_the_operators_refuse_a_resource_without_what_they_need() -> None:
    scaled = render(example("production")).of("ScaledObject")["compile"]
    del scaled["spec"]["scaleTargetRef"]["name"]
    assert "must have required property name" in custom_complaints([scaled])
    route = render(EVERYTHING).of("HTTPRoute")["gateway"]
    route["spec"]["rules"][0]["timeouts"]["request"] = "75 seconds"
    assert "HTTPRoute kz-kernelzoo-gateway" in custom_complaints([route])


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_reads_as_recorded(name: str) -> None:
    rendered = render(example(name))
    golden = golden_in("chart")
    golden(f"{name}.yaml", rendered.text)
    golden(f"{name}.notes.txt", rendered.notes)


@pytest.mark.parametrize("name", SETS)
def test_helms_linter_has_nothing_against_it(name: str) -> None:
    report = helm_python.lint(CHART, dict(SETS[name]), strict=True)
    assert report["errors"] == []
    assert [m["error"] for m in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_two_resources_have_one_name(name: str) -> None:
    manifests = render(example(name)).manifests
    keys = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_selector_selects_the_pods_that_it_means(name: str) -> None:
    rendered = render(example(name))
    pods = {
        component: manifest["spec"]["template"]["metadata"]["labels"]
        for kind in ("Deployment", "StatefulSet")
        for component, manifest in rendered.of(kind).items()
    }
    for kind in ("Deployment", "StatefulSet"):
        for component, manifest in rendered.of(kind).items():
            selector = manifest["spec"]["selector"]["matchLabels"]
            assert [
                name for name, labels in pods.items() if selector.items() <= labels.items()
            ] == [component]
    service = rendered.of("Service")["gateway"]["spec"]["selector"]
    assert [name for name, labels in pods.items() if service.items() <= labels.items()] == [
        "gateway"
    ]
