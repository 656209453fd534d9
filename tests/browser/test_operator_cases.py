"""Generated models of one operator each in pages: of three engines, and on WebGPU, in JavaScript.

tests/unit/graph/test_operator_cases.py runs many cases of each operator outside of browsers; the
first of each runs here as a page runs it, with all its special values.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fixtures.blank import Evaluates, chromium, firefox, webkit
from fixtures.node_pages import node_page
from fixtures.onnx_nodes import NodeCase, differing, is_taken
from fixtures.operator_cases import DRAWN, OperatorCase, drawn_case
from fixtures.stated_values import stated_cases
from kernelzoo.domain.target import TargetKind
from tests.unit.graph.oracle import described, expected, fault, quiet
from workers.fleet.chromium import launched_chromium
from workers.fleet.firefox import find_firefox
from workers.fleet.gpu import GpuChoice, gpu_flags
from workers.fleet.webkit import missing_for_webkit

AT_ONCE = 40
"""Cases that are compiled before a page runs them."""


@contextmanager
def on_swiftshader() -> Iterator[Evaluates]:
    with launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as browser:
        page = browser.new_page()
        page.set_default_timeout(0)
        yield page


@contextmanager
def without_webassembly() -> Iterator[Evaluates]:
    with launched_chromium("--js-flags=--noexpose-wasm") as browser:
        page = browser.new_page()
        page.set_default_timeout(0)
        yield page


PLACES: Mapping[str, tuple[TargetKind, Callable[[], AbstractContextManager[Evaluates]]]] = {
    "Chromium": (TargetKind.WASM, chromium),
    "Firefox": (TargetKind.WASM, firefox),
    "WebKitGTK": (TargetKind.WASM, webkit),
    "WebGPU": (TargetKind.WEBGPU, on_swiftshader),
    "JavaScript": (TargetKind.JAVASCRIPT, without_webassembly),
}
MISSING: Mapping[str, Callable[[], bool]] = {
    "Firefox": lambda: find_firefox() is None,
    "WebKitGTK": lambda: missing_for_webkit() is not None,
}
WITHOUT_RELAXED_SIMD = ("WebKitGTK",)


def node_case(case: OperatorCase) -> NodeCase:
    return NodeCase(
        name=case.name,
        operator=case.operator,
        model=case.model,
        inputs=case.feeds,
        outputs={},
        tolerance=0.0,
    )


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("place", PLACES)
def test_an_operator_of_each_kind_is_right_in(place: str, tmp_path: Path) -> None:
    if MISSING.get(place, lambda: False)():
        pytest.skip(f"{place} is not installed")
    target, opened = PLACES[place]
    cases = [case for operator in DRAWN if is_taken(node_case(case := drawn_case(operator, 0)))]
    assert len(cases) > 120
    faults = []
    with node_page(tmp_path, target, opened, fuses=place not in WITHOUT_RELAXED_SIMD) as run:
        for start in range(0, len(cases), AT_ONCE):
            found = run(map(node_case, cases[start : start + AT_ONCE]))
            for case in cases[start : start + AT_ONCE]:
                outputs = found[case.name]
                if isinstance(outputs, str):
                    faults.append(f"{described(case)}: {outputs}")
                    continue
                with quiet():
                    wanted = expected(case)
                if told := fault(case, wanted, outputs):
                    faults.append(told)
    assert not faults, "\n".join(faults)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", PLACES)
def test_a_value_that_engines_get_wrong_is_right_in(place: str, tmp_path: Path) -> None:
    if MISSING.get(place, lambda: False)():
        pytest.skip(f"{place} is not installed")
    target, opened = PLACES[place]
    cases = stated_cases()
    with node_page(tmp_path, target, opened, fuses=place not in WITHOUT_RELAXED_SIMD) as run:
        found = run(cases)
    assert len(found) == len(cases)
    faults = []
    for case in cases:
        outputs = found[case.name]
        told = outputs if isinstance(outputs, str) else differing(case, outputs)
        if told:
            faults.append(f"{case.name}: {told}")
    assert not faults, "\n".join(faults)
