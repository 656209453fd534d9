"""The example that reads digits: trained, imported, served as files, and drawn in."""

from collections.abc import Iterator
from json import dumps
from pathlib import Path
from shutil import copy

import pytest
from playwright.sync_api import Page

from cli.demo.examples import EXAMPLES, served_examples
from fixtures.model_site import Files, Served, write_model
from kernelzoo.domain.known_programs import KnownProgram, learn
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload
from kernelzoo.formats.bundle import VERSION, any_classes
from services.aggregator.verification import roundings
from services.tuner.graph.models import plan_model
from services.tuner.schedules.registry import lite_space
from workers.fleet.chromium import launched_chromium

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "client" / "dist"
TRAINED = ROOT / ".kernelzoo" / "networks" / "digits.onnx"
"""As `make setup` trains it."""

READY = "globalThis.kernelzooReady || !document.querySelector('#error').hidden"

STROKES = {
    0: "128,45 90,65 75,128 90,190 128,212 166,190 181,128 166,65 128,45",
    1: "105,80 132,48 132,128 132,210",
}
"""Places on a canvas of 256 × 256."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A static host with the page, the SDK and a bundle, and nothing else."""
    folder = tmp_path_factory.mktemp("digits")
    for file in (*(EXAMPLES / "digits").iterdir(), *CLIENT.glob("*.js")):
        if file.is_file():
            copy(file, folder)
    planned = plan_model(TRAINED, [{}], "digits")
    zoo = folder / "zoo"
    zoo.mkdir()
    files = Files(weights=b"".join(planned.weights.blocks()), golden=planned.golden[0])
    kernels = {each.key: _served(each) for each in planned.workloads}
    write_model(zoo, "", planned.plans[0], files, kernels)
    usual = [name for classes in any_classes() for name in classes if len(classes) == 1]
    offer = {"name": "digits", "dimensions": {}, "url": "/digits.json"}
    offers = [offer | {"device_classes": [name]} for name in usual]
    bundle = {"bundle": VERSION, "set": "digits", "manifests": [], "models": offers}
    (zoo / "bundle.json").write_text(dumps(bundle))
    with served_examples(folder) as address:
        yield address


def _served(workload: Workload) -> Served:
    if isinstance(workload, ProgramWorkload):
        found = KnownProgram(program=workload.program, roundings=roundings(workload))
        learn(workload.key, found)
    space = lite_space(workload, TargetKind.WASM)
    usual = next(each for each in space if "relaxed-simd" not in each.requires)
    return Served(candidate=usual, fallback=usual)


@pytest.fixture(scope="module")
def drawn(site: str) -> Iterator[Page]:
    with launched_chromium() as browser:
        page = browser.new_page()
        page.goto(site)
        page.wait_for_function(
            "globalThis.kernelzooReady || !document.querySelector('#error').hidden"
        )
        assert page.inner_text("#error") == ""
        yield page


@pytest.mark.parametrize("digit", sorted(STROKES))
def test_a_digit_is_read_while_it_is_drawn(drawn: Page, digit: int) -> None:
    drawn.click("#clear")
    box = drawn.locator("#paper").bounding_box()
    assert box is not None
    places = [
        (box["x"] + int(x) * box["width"] / 256, box["y"] + int(y) * box["height"] / 256)
        for x, y in (place.split(",") for place in STROKES[digit].split())
    ]
    drawn.mouse.move(*places[0])
    drawn.mouse.down()
    for place in places[1:]:
        drawn.mouse.move(*place, steps=6)
    drawn.mouse.up()
    drawn.wait_for_function(f"globalThis.kernelzooDigit === {digit}", timeout=10_000)
    assert drawn.inner_text("#digit") == str(digit)
