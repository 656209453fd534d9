"""A page that tunes its model and shares what it measures, with a real gateway."""

from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from cli.gateway_client import GatewayClient
from cli.models.sending import ImportedModel, send
from cli.stack.supervisor import Stack
from services.gateway.wire.applications import ApplicationRequest
from tests.browser.model_host import lists
from tests.browser.model_plans import deep
from tests.browser.sites import ISOLATED, site
from tests.running import eventually, rows

NETWORK = deep(layers=2)
KEY = NETWORK.plan.kernels[0]
APPLICATION = "shop"


@pytest.fixture
def page(stack: Stack, context: BrowserContext, tmp_path: Path) -> Iterator[Page]:
    """A page of a site whose owner has an application, with a model that the zoo has."""
    weights = tmp_path / "weights.bin"
    weights.write_bytes(NETWORK.files.weights)
    model = ImportedModel(
        plans=(NETWORK.plan,), golden=(NETWORK.files.golden,), weights=weights, programs={}
    )
    with (
        site(ISOLATED) as address,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        send(
            gateway,
            model,
            source="deep.onnx",
            replace=False,
            weights_url=None,
            told=lambda _: None,
        )
        gateway.create_application(ApplicationRequest(name=APPLICATION, origins=[address]))
        eventually(lambda: any(job.compiled > 12 for job in gateway.jobs()), "12 were compiled")
        opened = context.new_page()
        opened.goto(address)
        yield opened


SHARED = """async ([host, application, feeds]) => {
  const { KernelZoo } = await import(`${host}/client/sdk.js`);
  const zoo = await KernelZoo.open(host);
  const model = await zoo.model("deep", { tune: "idle", contribute: { application } });
  const x = Float32Array.from(feeds.x);
  const largest = feeds.y.reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
  let worst = 0;
  const run = async () => {
    const { y } = await model.run({ x });
    y.forEach((entry, i) => (worst = Math.max(worst, Math.abs(entry - feeds.y[i]) / largest)));
    await new Promise((resolve) => setTimeout(resolve, 20));
  };
  const { tuning } = model;
  const sent = () => tuning.sent.filter(({ method }) => method !== "GET");
  const reports = () => sent().filter(({ path }) => path.endsWith("/measurements"));
  for (let i = 0; i < 600 && reports().length < 2; i++) await run();
  const hidden = (holds) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: holds });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  hidden(true);
  for (let i = 0; i < 40; i++) await run();
  const before = tuning.contributed;
  for (let i = 0; i < 20; i++) await run();
  const after = tuning.contributed;
  const { state } = tuning;
  hidden(false);
  for (let i = 0; i < 600 && !sent().some(({ path }) => path === "/v1/ballots"); i++) await run();
  const shown = { sent: sent(), contributed: tuning.contributed, reason: tuning.reason };
  await model.dispose();
  return { ...shown, before, after, state, worst };
}"""


def test_a_page_that_contributes_measures_for_others_and_shows_what_it_sends(
    page: Page, stack: Stack
) -> None:
    feeds = lists({"x": NETWORK.feeds["x"], "y": NETWORK.outputs["y"]})
    found: dict[str, Any] = page.evaluate(SHARED, [stack.url, APPLICATION, feeds])
    assert found["worst"] < 1e-4, found["reason"]
    bodies = [(each["path"], loads(each["body"])) for each in found["sent"]]
    asked = [body["workloads"] for path, body in bodies if path == "/v1/leases"]
    assert asked != []
    assert all(each == [KEY] for each in asked), "of this model alone"
    voted = max(i for i, (path, _) in enumerate(bodies) if path == "/v1/ballots")
    told = {
        line["candidate"]
        for path, body in bodies[:voted]
        if path.endswith("/measurements")
        for line in body["measurements"]
    }
    assert 0 < len(told) <= found["contributed"]
    stored = {name for (name,) in rows(stack, "SELECT candidate_id::text FROM measurement")}
    assert told <= stored, "what it shows is what arrived"
    assert found["state"] == "paused"
    assert found["before"] == found["after"], "and nothing is measured meanwhile"
    assert bodies[voted][1]["workload"] == KEY
