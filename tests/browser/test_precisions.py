"""A page is given a model by the precision that it asks for, within the error that it allows."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import BrowserContext

from cli.gateway_client import GatewayClient
from cli.models.importing import QuantizeChoice, WantedWeights, imported
from cli.models.readiness import wait_until_ready
from cli.models.sending import send
from cli.stack.supervisor import Stack
from fixtures.network_writer import NetworkWriter
from tests.browser.model_host import PAGES
from tests.browser.sites import site
from tests.unit.graph.models import written

NAME = "of-two-precisions"
ROWS, WIDTH = 16, 64
DRAWN = np.random.default_rng(5)

OPENED = (PAGES / "precisions.js").read_text()


@pytest.fixture(scope="module")
def weights(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float32]:
    """Adds y = x @ w in both precisions."""
    folder = tmp_path_factory.mktemp("precisions")
    drawn = (DRAWN.standard_normal((WIDTH, WIDTH)) / 8).astype(np.float32)
    made = NetworkWriter(1)
    made.named("Identity", made.node("MatMul", "x", made.constant(drawn)), "y")
    file = written(folder, made.model({"x": (1, (ROWS, WIDTH))}, ("y", None)))
    wanted = WantedWeights(max_error=0.05, quantize=QuantizeChoice.INT8)
    model = imported(file, NAME, ({},), folder / "weights", lambda _: None, wanted)
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        send(gateway, model, source=file.name, replace=False, weights_url=None, told=lambda _: None)
        wait_until_ready(gateway, NAME, lambda _: None)
    return drawn


def test_a_page_chooses_between_f32_and_int8(
    context: BrowserContext, stack: Stack, weights: NDArray[np.float32]
) -> None:
    x = DRAWN.standard_normal((ROWS, WIDTH)).astype(np.float32)
    orders: list[dict[str, Any]] = [
        {}, {"precision": "auto"}, {"precision": "f32"}, {"precision": "int8"},
        {"precision": "int8", "maxError": 0.05}, {"precision": "int8", "maxError": 1e-6},
        {"precision": "int4"}, {"maxError": "little"},
    ]  # fmt: skip
    page = context.new_page()
    with site({}) as address:
        page.goto(address)
        page.add_script_tag(content=OPENED)
        given = [stack.url, NAME, orders, x.ravel().tolist()]
        found = page.evaluate("(given) => opened(...given)", given)
    *opened, too_far, unknown, senseless = found
    assert [each["precision"] for each in opened] == ["f32", "f32", "f32", "int8", "int8"]
    assert [each["precisionReason"] for each in opened[:3]] == [
        *["Too little is measured here; it is f32 until more is."] * 2,
        "It was asked for.",
    ]
    errors = {each["precision"]: each["error"] for each in opened[0]["precisions"]}
    assert list(errors) == ["f32", "int8"]
    assert errors["f32"] is None
    right = (x.astype(np.float64) @ weights).ravel()
    apart = [
        np.abs(np.array(each["y"]) - right).max() / np.abs(right).max() for each in opened[2:4]
    ]
    assert apart[0] < 1e-5 < apart[1] < 0.05
    assert too_far["refused"].startswith(
        f"manifest: No plan of {NAME} errs by 0.000001 at most: int8"
    )
    assert unknown["refused"] == "run: precision is int4; ask for auto, f32 or int8."
    assert senseless["refused"].startswith("run: maxError is little; give a share")
